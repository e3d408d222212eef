//! From transcript to request messages: the only way to build a request.
//!
//! Nine rules say what a conversation sends, for the entries that it sees up to a cutoff:
//!
//! 1. The newest entry with a head is H.
//! 2. The range runs from H's head (from the start, without H) to the cutoff, oldest first.
//! 3. For each target the newest edit in the range wins, also when an older head carries it.
//! 4. Active are H, then the entries of the range that carry no head.
//! 5. Each active entry contributes the messages of its edit, or its own; omitted means none.
//! 6. Assistant messages that did not end well are dropped.
//! 7. Behind each assistant message come its results in call order, taken from what follows before the next assistant
//!    message, ahead of system and user messages that arrived in between.
//! 8. A call without a result gets a made-up one with the time of its assistant message; a result without a call is
//!    dropped, and of several results the first counts.
//! 9. A system message behind the first other message and before any user message moves to the front, behind those
//!    that are already there, unless an epoch before it has fixed the front.
//!
//! The newest epoch in the range (`prompt.rs`) stands at the very front, whatever came before it: what was told of the
//! system prompt until then is dropped, and so are opaque items.
//!
//! Rules 1 to 5 choose what each entry contributes ([`Context::derive`]); rules 6 to 9 put the contributions into a
//! legal order (`assembly.rs`). The second half works message by message, so that a turn pays for its new entries only
//! ([`Context::push`]).

mod assembly;
mod check;

use std::{collections::HashMap, sync::Arc};

use crate::{
    entry::{EntryRecord, kind},
    id::EntryId,
    message::{Message, Part},
    prompt::Standing,
};
use assembly::Assembly;
pub use check::{Breach, Checked, check};

/// What a conversation sends to a model at a cutoff, and where it came from.
///
/// Promise: a pure function of the entries. [`push`](Self::push) gives what [`derive`](Self::derive) gives.
///
/// ```
/// use everturn_core::{clock::Timestamp, context::Context, entry::{Entry, EntryRecord}};
/// use everturn_core::{id::{ConversationId, EntryId, Seq}, message::Message};
///
/// let entry = EntryRecord {
///     id: EntryId(2), conversation: ConversationId::ROOT, seq: Seq(1), time: Timestamp(0), task: None,
///     entry: Entry::new("et.user").message(Message::user("hello")),
/// };
/// let context = Context::derive(&[entry]);
/// assert_eq!(context.texts(), ["hello"]);
/// assert_eq!(context.active().len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Context {
    head: Option<EntryId>,
    active: Vec<Active>,
    assembly: Assembly,
    checked: Checked,
    /// The newest entry without which the messages would be others.
    decisive: Option<EntryId>,
    standing: Standing,
}

/// An active entry, and what it contributes.
///
/// ```
/// use everturn_core::{context::Active, id::EntryId};
/// assert!(Active { entry: EntryId(3), messages: vec![] }.messages.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Active {
    /// The entry.
    pub entry: EntryId,
    /// Its messages, or those of its newest edit; none when it was omitted.
    pub messages: Vec<Arc<Message>>,
}

impl Context {
    /// Derives the context of entries that are visible up to a cutoff, oldest first.
    ///
    /// Shape: entries before the newest head's entry may be left out; they contribute nothing.
    pub fn derive(entries: &[EntryRecord]) -> Self {
        let newest = entries.iter().rev().find(|entry| entry.head.is_some());
        let begin = newest.and_then(|entry| entry.head.map(|head| head.entry(entry.id)));
        let range = entries.iter().filter(|entry| begin.is_none_or(|begin| entry.id >= begin));
        let edits = newest_edits(range.clone());

        let editing = range.clone().filter(|entry| !entry.edits.is_empty()).map(|entry| entry.id);
        let head = newest.map(|entry| entry.id);
        let epoch = range.clone().filter(|entry| entry.kind == kind::EPOCH).map(|entry| entry.id).max();
        let decisive = editing.max().max(head).max(epoch);
        let mut context = Self { head, decisive, ..Self::default() };
        range.clone().for_each(|entry| context.standing.take(entry));
        let active = newest.into_iter().chain(range.filter(|entry| entry.head.is_none()));
        let contributions = active.map(|entry| {
            let messages = match edits.get(&entry.id) {
                Some(edit) => edit.map_or_else(Vec::new, <[_]>::to_vec),
                None => entry.messages.clone(),
            };
            (entry, messages)
        });
        let contributions: Vec<_> = contributions.collect();
        if let Some((_, told)) = contributions.iter().find(|(entry, _)| Some(entry.id) == epoch) {
            context.assembly.fix(told);
        }
        for (entry, messages) in contributions {
            match epoch {
                Some(epoch) if entry.id <= epoch => context.contribute(entry, before_epoch(entry, messages)),
                _ => context.contribute(entry, messages),
            }
        }
        context
    }

    /// Adds the next visible entry. Gives false, and changes nothing, when the entry has a head or edits, or begins an
    /// epoch: then the context must be derived anew.
    pub fn push(&mut self, entry: &EntryRecord) -> bool {
        if entry.head.is_some() || !entry.edits.is_empty() || entry.kind == kind::EPOCH {
            return false;
        }
        self.standing.take(entry);
        self.contribute(entry, entry.messages.clone());
        true
    }

    fn contribute(&mut self, entry: &EntryRecord, messages: Vec<Arc<Message>>) {
        for message in &messages {
            if self.assembly.push(message, entry.time) {
                self.decisive = self.decisive.max(Some(entry.id));
            }
        }
        self.active.push(Active { entry: entry.id, messages });
    }

    /// The entry that carries the newest head, if there is one.
    pub fn head(&self) -> Option<EntryId> {
        self.head
    }

    /// The active entries, the head's carrier first, then oldest first; those that contribute nothing included.
    pub fn active(&self) -> &[Active] {
        &self.active
    }

    /// The newest active entry that was derived or pushed.
    pub fn newest(&self) -> Option<EntryId> {
        self.active.last().map(|active| active.entry).max(self.head)
    }

    /// Whether these are the messages of a cutoff: nothing that came behind it changes them.
    pub fn stands_at(&self, cutoff: EntryId) -> bool {
        self.newest() >= Some(cutoff) && self.decisive <= Some(cutoff)
    }

    /// The request messages, cheap to share.
    pub fn messages(&self) -> &Arc<Vec<Arc<Message>>> {
        self.assembly.messages()
    }

    /// What the model has been told beside the messages.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// What the messages say, one text for each: to look at, not to send.
    pub fn texts(&self) -> Vec<String> {
        self.messages().iter().map(|message| message.text()).collect()
    }

    /// Proves that the messages are a legal request. What was proven before is not proven again.
    ///
    /// Errors: a [`Breach`] that names the entry.
    pub fn check(&mut self) -> Result<(), Breach> {
        self.checked.advance(self.assembly.messages(), self.assembly.settled()).map_err(|breach| {
            let message = self.messages().get(breach.index);
            let carries = |active: &&Active| {
                active.messages.iter().any(|own| message.is_some_and(|message| Arc::ptr_eq(own, message)))
            };
            Breach { entry: self.active.iter().find(carries).map(|active| active.entry), ..breach }
        })
    }
}

/// What an entry contributes that stands before the newest epoch, or is it: what was told of the system prompt is told
/// anew by the epoch, at the very front, and opaque items are bound to what was sent before.
fn before_epoch(entry: &EntryRecord, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    if matches!(entry.kind.as_str(), kind::SYSTEM | kind::EPOCH) {
        return Vec::new();
    }
    messages.into_iter().map(without_opaque).collect()
}

fn without_opaque(message: Arc<Message>) -> Arc<Message> {
    let is_opaque = |part: &Part| matches!(part, Part::Opaque(_));
    match &*message {
        Message::Assistant(assistant) if assistant.parts.iter().any(is_opaque) => {
            let mut assistant = assistant.clone();
            assistant.parts.retain(|part| !is_opaque(part));
            Arc::new(Message::Assistant(assistant))
        }
        _ => message,
    }
}

/// The newest edit of each target: its messages, or none where it was omitted.
fn newest_edits<'a>(
    range: impl Iterator<Item = &'a EntryRecord>,
) -> HashMap<EntryId, Option<&'a [Arc<Message>]>> {
    range.flat_map(|entry| &entry.edits).map(|edit| (edit.target, edit.messages.as_deref())).collect()
}
