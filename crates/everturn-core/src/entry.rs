//! Entries: the immutable records of a transcript.

use std::{ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    clock::Timestamp,
    error::{Error, Result},
    id::{ConversationId, EntryId, Seq, TaskId},
    json::RawJson,
    message::Message,
};

/// Kinds of the entries that Everturn itself writes. Kinds that begin with `et.` are ours, all others the application's.
pub mod kind {
    /// What a person said.
    pub const USER: &str = "et.user";
    /// What a model answered.
    pub const ASSISTANT: &str = "et.assistant";
    /// What a call gave.
    pub const RESULT: &str = "et.result";
    /// The end of a turn.
    pub const TURN: &str = "et.turn";
    /// What a model is told that nobody said: a repetition was noticed, an answer refused.
    pub const NOTICE: &str = "et.notice";
    /// What changed of the system prompt.
    pub const SYSTEM: &str = "et.system";
    /// Where what is sent begins anew, and why.
    pub const EPOCH: &str = "et.epoch";
    /// A summary that takes the place of what came before.
    pub const COMPACTION: &str = "et.compaction";
    /// Where a conversation begins anew.
    pub const RESET: &str = "et.reset";
}

/// What an entry says: the part of it that its writer chooses.
///
/// Shape: messages go to the model, `data` never does; an entry may have either, both or neither.
///
/// ```
/// use everturn_core::{entry::Entry, message::Message};
///
/// let note = Entry::new("app.note").data("seen by people only").unwrap();
/// assert!(note.messages.is_empty());
/// let question = Entry::new("et.user").message(Message::user("hello"));
/// assert_eq!(question.messages.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What it is: at most 256 bytes; `et.` is ours.
    pub kind: String,
    /// What it contributes to requests.
    pub messages: Vec<Arc<Message>>,
    /// The application's own, never sent.
    pub data: Option<RawJson>,
    /// Where the context begins from here on.
    pub head: Option<Head>,
    /// What earlier entries contribute from here on.
    pub edits: Vec<Edit>,
}

/// Where a context begins: at an entry, or at the entry that says so.
///
/// ```
/// use everturn_core::{entry::Head, id::EntryId};
/// assert_eq!(Head::Itself.entry(EntryId(9)), EntryId(9));
/// assert_eq!(Head::Entry(EntryId(4)).entry(EntryId(9)), EntryId(4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// At the entry that carries the head.
    Itself,
    /// At this earlier entry.
    Entry(EntryId),
}

impl Head {
    /// The entry at which the context begins, for a head that `carrier` carries.
    pub fn entry(self, carrier: EntryId) -> EntryId {
        match self {
            Self::Itself => carrier,
            Self::Entry(entry) => entry,
        }
    }
}

/// Changes what an earlier entry contributes to requests. The entry itself stays as it is.
///
/// ```
/// use everturn_core::{entry::Edit, id::EntryId, message::Message};
///
/// let mend = Edit::replace(EntryId(3), [Message::user("the edited question")]);
/// let hide = Edit::omit(EntryId(3));
/// assert_ne!(mend, hide);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    /// The entry that is edited.
    pub target: EntryId,
    /// What it contributes instead; nothing when it is omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Arc<Message>>>,
}

impl Edit {
    /// The entry contributes nothing.
    pub fn omit(target: EntryId) -> Self {
        Self { target, messages: None }
    }

    /// The entry contributes these messages.
    pub fn replace(target: EntryId, messages: impl IntoIterator<Item = Message>) -> Self {
        Self { target, messages: Some(messages.into_iter().map(Arc::new).collect()) }
    }
}

/// A type that is the data of one kind of entry.
///
/// ```
/// use everturn_core::entry::{Entry, EntryKind};
///
/// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
/// struct Rating { stars: u8 }
/// impl EntryKind for Rating { const KIND: &'static str = "app.rating"; }
///
/// let entry = Entry::of(&Rating { stars: 5 }).unwrap();
/// assert_eq!(entry.read::<Rating>().unwrap(), Some(Rating { stars: 5 }));
/// ```
pub trait EntryKind: Serialize + DeserializeOwned {
    /// The kind.
    const KIND: &'static str;
}

impl Entry {
    /// An entry of a kind that says nothing yet.
    pub fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), messages: Vec::new(), data: None, head: None, edits: Vec::new() }
    }

    /// An entry whose kind and data are those of a type.
    ///
    /// Errors: `Invalid` when the value has no JSON form.
    pub fn of<T: EntryKind>(value: &T) -> Result<Self> {
        Self::new(T::KIND).data(value)
    }

    /// The same entry with data.
    ///
    /// Errors: `Invalid` when the value has no JSON form.
    pub fn data(mut self, value: impl Serialize) -> Result<Self> {
        let data =
            RawJson::of(&value).map_err(|error| error.while_(format_args!("write entry {}", self.kind)))?;
        self.data = Some(data);
        Ok(self)
    }

    /// The same entry with one more message.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(Arc::new(message));
        self
    }

    /// The same entry with a head.
    #[must_use]
    pub fn head(mut self, head: Head) -> Self {
        self.head = Some(head);
        self
    }

    /// The same entry with one more edit.
    #[must_use]
    pub fn edit(mut self, edit: Edit) -> Self {
        self.edits.push(edit);
        self
    }

    /// What its messages say, one after the other.
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.messages.iter().map(|message| message.text()).collect();
        texts.join("\n")
    }

    /// Bytes of text in it: a lower bound of its JSON that costs no encoding.
    pub fn weight(&self) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.get().len());
        let edited = self.edits.iter().flat_map(|edit| edit.messages.iter().flatten());
        data + self.messages.iter().chain(edited).map(|message| message.weight()).sum::<usize>()
    }

    /// What is left of it when its contents are taken away: kind, head, which entries it edits (they stay omitted), and
    /// `hash`, by which the contents are known to whoever still has them.
    #[must_use]
    pub fn purged(&self, hash: &str) -> Self {
        let data = RawJson::of(&Purged { purged: hash.into() }).expect("a map of a text is JSON");
        let edits = self.edits.iter().map(|edit| Edit::omit(edit.target)).collect();
        Self { kind: self.kind.clone(), messages: Vec::new(), data: Some(data), head: self.head, edits }
    }

    /// Whether its contents were taken away.
    pub fn is_purged(&self) -> bool {
        let has_hash = |data: &RawJson| data.read::<Purged>().is_ok();
        self.messages.is_empty() && self.data.as_ref().is_some_and(has_hash)
    }

    /// The data as a `T`; none when the entry is of another kind.
    ///
    /// Errors: `Invalid` when data of this kind does not read as a `T`.
    pub fn read<T: EntryKind>(&self) -> Result<Option<T>> {
        match &self.data {
            Some(data) if self.kind == T::KIND => {
                data.read().map(Some).map_err(|error| error.while_(format_args!("read entry {}", T::KIND)))
            }
            _ => Ok(None),
        }
    }
}

/// What can be appended: an entry, or the attempt to write one.
///
/// ```
/// use everturn_core::entry::{Entry, IntoEntry};
/// assert!(Entry::new("note").data("hello").into_entry().is_ok());
/// ```
pub trait IntoEntry {
    /// The entry, or why it could not be written.
    fn into_entry(self) -> Result<Entry>;
}

impl IntoEntry for Entry {
    fn into_entry(self) -> Result<Entry> {
        Ok(self)
    }
}

impl IntoEntry for Result<Entry> {
    fn into_entry(self) -> Result<Entry> {
        self
    }
}

/// An entry as it is stored. Entries are ordered by id.
///
/// ```
/// use everturn_core::{clock::Timestamp, entry::{Entry, EntryRecord}, id::{ConversationId, EntryId, Seq}};
///
/// let record = EntryRecord {
///     id: EntryId(2), conversation: ConversationId::ROOT, seq: Seq(1), time: Timestamp(0), task: None,
///     entry: Entry::new("app.note"),
/// };
/// assert_eq!(record.kind, "app.note", "a record derefs to what it says");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EntryRecord {
    /// Its id.
    pub id: EntryId,
    /// The conversation it was appended to.
    pub conversation: ConversationId,
    /// The commit that stored it.
    pub seq: Seq,
    /// When it was written.
    pub time: Timestamp,
    /// The task that wrote it, if one did.
    pub task: Option<TaskId>,
    /// What it says.
    pub entry: Entry,
}

impl Deref for EntryRecord {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

/// What takes the place of contents that were taken away.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Purged {
    purged: String,
}

/// The stored body of an entry: everything but its kind and its place.
#[derive(Serialize, Deserialize)]
struct Body {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Arc<Message>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head: Option<Head>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    edits: Vec<Edit>,
}

impl Entry {
    /// The body as JSON, as backends store it beside the kind.
    ///
    /// Errors: `Invalid` when a part has no JSON form.
    pub fn to_body(&self) -> Result<String> {
        let body =
            BodyRef { messages: &self.messages, data: &self.data, head: &self.head, edits: &self.edits };
        serde_json::to_string(&body)
            .map_err(|fault| Error::invalid(format!("write entry {}: {fault}", self.kind)).caused_by(fault))
    }

    /// An entry from its kind and its stored body.
    ///
    /// Errors: `Invalid` when the body is not one that [`to_body`](Self::to_body) wrote.
    pub fn from_body(kind: impl Into<String>, body: &str) -> Result<Self> {
        let kind = kind.into();
        let Body { messages, data, head, edits } = serde_json::from_str(body)
            .map_err(|fault| Error::invalid(format!("read entry {kind}: {fault}")).caused_by(fault))?;
        Ok(Self { kind, messages, data, head, edits })
    }
}

#[derive(Serialize)]
struct BodyRef<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    messages: &'a [Arc<Message>],
    #[serde(skip_serializing_if = "Option::is_none")]
    data: &'a Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: &'a Option<Head>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    edits: &'a [Edit],
}
