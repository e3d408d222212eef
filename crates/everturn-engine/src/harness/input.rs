//! What is handed to a conversation.

use everturn_core::{
    Error, Result,
    budget::Budget,
    clock::Timestamp,
    entry::Entry,
    json::RawJson,
    message::Part,
    submission::{Delivery, LOCAL, Late, Queued},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::AgentChange;

/// An input of a person, or of the application for them; or an entry that is to be written and asks nothing.
///
/// ```
/// use everturn_engine::{Input, WhenBusy};
///
/// let input = Input::text("hello").request("r-1").when_busy(WhenBusy::Reject);
/// assert_eq!(input.request.as_deref(), Some("r-1"));
/// let steer = Input::text("in French, please").steer();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// What is said.
    pub parts: Vec<Part>,
    /// An entry to append instead, without asking the model.
    pub entry: Option<Entry>,
    /// The sender's own id, unique in the conversation: sending again with it returns the first submission.
    pub request: Option<String>,
    /// What happens while a turn runs.
    pub when_busy: WhenBusy,
    /// Whether it stays queued when the turn before it fails; else it is returned then.
    pub keep: bool,
    /// Who hands it over.
    pub actor: String,
    /// What its turn goes by beside the agent.
    pub options: TurnOptions,
}

/// What happens to an input that comes while a turn runs.
///
/// ```
/// use everturn_engine::WhenBusy;
/// assert_eq!(WhenBusy::default(), WhenBusy::FollowUp);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// It waits until the turn has ended.
    #[default]
    FollowUp,
    /// It is placed in the turn, before its next request.
    Steer {
        /// What becomes of it when the turn is over first.
        late: Late,
        /// Whether it declines the open approvals of the turn, with its text as the reason. Otherwise it waits for them.
        declining: bool,
    },
    /// It is refused with `Conflict`, and nothing is stored.
    Reject,
}

/// What a turn goes by beside the agent.
///
/// ```
/// use everturn_engine::{AgentChange, TurnOptions};
/// let options = TurnOptions { agent: AgentChange { instructions: Some("Be brief.".into()), ..AgentChange::default() }, ..TurnOptions::default() };
/// assert!(options.schema.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnOptions {
    /// What is different of the agent, for this turn alone.
    #[serde(skip_serializing_if = "AgentChange::is_none")]
    pub agent: AgentChange,
    /// How much the turn and its sub-agents may spend.
    #[serde(skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// When the turn ends cancelled, if it has not ended by then; an input that still waits for its turn is returned then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The JSON schema that the answer has to fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<RawJson>,
}

impl TurnOptions {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Input {
    /// An input of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::parts(vec![Part::Text(text.into())])
    }

    /// An input of parts.
    pub fn parts(parts: Vec<Part>) -> Self {
        Self {
            parts,
            entry: None,
            request: None,
            when_busy: WhenBusy::default(),
            keep: false,
            actor: LOCAL.into(),
            options: TurnOptions::default(),
        }
    }

    /// An entry that is appended without asking the model: at once, or while a turn runs at its next step.
    pub fn write(entry: Entry) -> Self {
        Self { entry: Some(entry), ..Self::parts(Vec::new()) }
    }

    /// The same input with the sender's own id.
    #[must_use]
    pub fn request(mut self, id: impl Into<String>) -> Self {
        self.request = Some(id.into());
        self
    }

    /// The same input with a word about busy conversations.
    #[must_use]
    pub fn when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.when_busy = when_busy;
        self
    }

    /// The same input, placed in the turn that runs; it begins one where none does.
    #[must_use]
    pub fn steer(self) -> Self {
        self.when_busy(WhenBusy::Steer { late: Late::default(), declining: false })
    }

    /// The same input, which stays queued when the turn before it fails.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// The same input with who hands it over.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = actor.into();
        self
    }

    /// The same input for a turn of which something of the agent is different.
    #[must_use]
    pub fn agent(mut self, change: AgentChange) -> Self {
        self.options.agent = change;
        self
    }

    /// The same input for a turn that may spend no more than this.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.options.budget = budget;
        self
    }

    /// The same input for a turn that ends cancelled at a moment, if it has not ended by then. Where it still waits for its
    /// turn, it is returned.
    #[must_use]
    pub fn deadline(mut self, moment: Timestamp) -> Self {
        self.options.deadline = Some(moment);
        self
    }

    /// The same input, whose answer has to be JSON that reads as a `T`; [`Answer::read`](super::Answer::read) gives it.
    #[must_use]
    pub fn answer_as<T: JsonSchema>(mut self) -> Self {
        let schema = schemars::schema_for!(T);
        self.options.schema = Some(RawJson::of(&schema).expect("a schema is JSON"));
        self
    }

    /// What waits in the queue for it.
    ///
    /// Errors: `Invalid` for an entry that has no JSON form, and for one that is said and written at once.
    pub(super) fn into_queued(self) -> Result<Queued> {
        if self.entry.is_some() && !self.parts.is_empty() {
            let message = "submit: an input is something said or an entry to write, and this is both";
            return Err(Error::invalid(message));
        }
        let delivery = match self.when_busy {
            _ if self.entry.is_some() => Delivery::Write,
            WhenBusy::Steer { late, declining } => Delivery::Steer { late, declining },
            WhenBusy::FollowUp | WhenBusy::Reject => Delivery::FollowUp,
        };
        if matches!(delivery, Delivery::Steer { .. }) && !self.options.is_default() {
            let message =
                "submit: a steer goes into a turn that has its own options; hand it over without any";
            return Err(Error::invalid(message));
        }
        let entry = self.entry.map(|entry| RawJson::of(&Written::of(&entry)?)).transpose()?;
        let options = Some(self.options).filter(|options| !options.is_default());
        let options = options.map(|options| RawJson::of(&options)).transpose()?;
        Ok(Queued { parts: self.parts, delivery, keep: self.keep, options, entry })
    }
}

/// An entry that waits to be written.
#[derive(Serialize, Deserialize)]
pub(super) struct Written {
    kind: String,
    body: RawJson,
}

impl Written {
    fn of(entry: &Entry) -> Result<Self> {
        Ok(Self { kind: entry.kind.clone(), body: RawJson::parse(entry.to_body()?)? })
    }

    pub(super) fn into_entry(self) -> Result<Entry> {
        Entry::from_body(self.kind, self.body.get())
    }
}
