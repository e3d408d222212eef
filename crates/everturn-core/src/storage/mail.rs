//! Mail: requests left for a session by someone who does not own it.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{ConversationId, SessionId},
    json::RawJson,
};

/// A request left for a session.
///
/// Promise: it is taken once, by existence and not by a mark, and ends in a [`Receipt`] under its key.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::ConversationId, json::RawJson, storage::{Mail, MailKind}};
///
/// let mail = Mail {
///     session: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
///     key: Mail::submit_key(ConversationId::ROOT, "r-1"),
///     kind: MailKind::Submit, conversation: Some(ConversationId::ROOT), request: Some("r-1".into()),
///     actor: "local".into(), time: Timestamp(0), body: RawJson::empty(),
/// };
/// assert_eq!(mail.key, "submit 1 r-1");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mail {
    /// For whom.
    pub session: SessionId,
    /// The sender's own name of it, unique in the session: posting again under it changes nothing.
    pub key: String,
    /// What is asked.
    pub kind: MailKind,
    /// Which conversation it is about, where it is about one.
    pub conversation: Option<ConversationId>,
    /// The request id of what is submitted: this road and the owner's own check one index.
    pub request: Option<String>,
    /// Who asks.
    pub actor: String,
    /// When it was posted, by the sender's clock.
    pub time: Timestamp,
    /// The rest, by kind.
    pub body: RawJson,
}

impl Mail {
    /// The key of a submission: it follows from where it goes and its request id.
    pub fn submit_key(conversation: ConversationId, request: &str) -> String {
        format!("submit {conversation} {request}")
    }

    /// By what a submission is known, where this is one that says so: its conversation and its request id.
    ///
    /// ```
    /// # use everturn_core::{clock::Timestamp, id::ConversationId, json::RawJson, storage::{Mail, MailKind}};
    /// # let session = "0198c0de-0000-7000-8000-000000000000".parse().unwrap();
    /// # let (time, body) = (Timestamp(0), RawJson::empty());
    /// # let (conversation, request) = (Some(ConversationId::ROOT), Some("r-1".to_owned()));
    /// let mail = Mail { session, key: "w-1".into(), kind: MailKind::Withdraw, conversation, request,
    ///     actor: "local".into(), time, body };
    /// assert_eq!(mail.submits(), None, "it is about r-1, and does not submit it");
    /// ```
    pub fn submits(&self) -> Option<(ConversationId, &str)> {
        let request = self.request.as_deref().filter(|_| self.kind == MailKind::Submit);
        self.conversation.zip(request)
    }
}

/// What is asked of a session.
///
/// ```
/// use everturn_core::storage::MailKind;
/// assert_eq!(MailKind::Submit.name(), "submit");
/// assert_eq!("abort".parse::<MailKind>().unwrap(), MailKind::Abort);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailKind {
    /// An input for a conversation; it steers where a turn is running.
    Submit,
    /// Take an input back.
    Withdraw,
    /// End the turn that runs.
    Cancel,
    /// Abort a task.
    Abort,
    /// Decide an approval.
    Decide,
    /// Tell a task that something happened.
    Signal,
    /// Change an agent.
    Configure,
    /// Fork a conversation.
    Fork,
    /// Take turns back.
    Undo,
    /// Shorten a context.
    Compact,
    /// Begin a conversation anew.
    Reset,
}

impl MailKind {
    const ALL: [Self; 11] = [
        Self::Submit,
        Self::Withdraw,
        Self::Cancel,
        Self::Abort,
        Self::Decide,
        Self::Signal,
        Self::Configure,
        Self::Fork,
        Self::Undo,
        Self::Compact,
        Self::Reset,
    ];

    /// Its name, as it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Withdraw => "withdraw",
            Self::Cancel => "cancel",
            Self::Abort => "abort",
            Self::Decide => "decide",
            Self::Signal => "signal",
            Self::Configure => "configure",
            Self::Fork => "fork",
            Self::Undo => "undo",
            Self::Compact => "compact",
            Self::Reset => "reset",
        }
    }
}

impl std::str::FromStr for MailKind {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            crate::Error::invalid(format!("read mail kind {text:?}: the kinds are {names}"))
        })
    }
}

/// How mail ended. Kept under its key, as long as settled submissions are.
///
/// ```
/// use everturn_core::storage::Receipt;
/// let receipt = Receipt::Accepted { id: Some(7) };
/// assert_eq!(serde_json::to_string(&receipt).unwrap(), r#"{"accepted":{"id":7}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// It was done.
    Accepted {
        /// What came of it: the id of a submission, a conversation, a task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// It was not done.
    Refused {
        /// What kind of refusal, in one word.
        kind: String,
        /// Why.
        message: String,
    },
}

/// Mail that is taken in a commit, with its receipt: taking and acting are one.
///
/// ```
/// use everturn_core::storage::{Receipt, Taken};
/// let taken = Taken { key: "abort 5".into(), receipt: Receipt::Accepted { id: None } };
/// assert_eq!(taken.key, "abort 5");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The mail.
    pub key: String,
    /// How it ends.
    pub receipt: Receipt,
}

/// What came of posting.
///
/// ```
/// use everturn_core::storage::Posted;
/// assert_ne!(Posted::New, Posted::Waiting);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It lies there now.
    New,
    /// Mail under this key lay there already, and waits to be taken.
    Waiting,
    /// Mail under this key, or a submission with its request id, had come before and got this.
    Ended(Receipt),
}

/// Which mail of a session.
///
/// ```
/// use everturn_core::storage::MailFilter;
/// assert_ne!(MailFilter::Waiting, MailFilter::Key("abort 5".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailFilter {
    /// What waits to be taken, in the order in which it was posted.
    Waiting,
    /// The one under this key, whether it waits or has its receipt.
    Key(String),
}

/// Mail as it lies in a store.
///
/// ```
/// use everturn_core::storage::MailRow;
/// fn waits(row: &MailRow) -> bool { row.receipt.is_none() }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MailRow {
    /// The mail.
    pub mail: Mail,
    /// How it ended; none while it waits.
    pub receipt: Option<Receipt>,
}
