//! Compaction: what of a transcript a model need not be sent any more.
//!
//! A [`Strategy`] plans, purely: where the context begins from now on, what a summary has to stand for, which old outputs
//! are dropped. Whoever acts on a [`Plan`] asks a model for the summary ([`summary_request`]) and appends the plan's
//! entry. Nothing is deleted: entries before the new head stay stored, and a fork before it sees them.
//!
//! A context is cut where a turn begins, and inside a turn, before an answer, only where a turn alone is too large. A cut
//! never separates a call from its result, and calls that still run are kept with all that follows them. What was told of
//! the system prompt is no part of a summary: the next epoch (`prompt.rs`) tells all of it anew.

mod layout;
mod strategy;
mod summary;
mod tokens;

use serde::{Deserialize, Serialize};

use crate::{
    context::Context,
    entry::{Edit, Entry, EntryKind, EntryRecord, Head, kind},
    id::EntryId,
    message::Message,
};

pub use strategy::{DropToolOutput, KeepLast, Summarise};
pub use summary::{Asking, summary_request};
pub use tokens::{tokens_of, weigh};

/// A way to make a context shorter.
///
/// Promise: a pure function. What its plan leaves is a legal request, keeps calls that run, and keeps as many of the
/// newest tokens as wanted, unless there is no room for them.
///
/// ```
/// use everturn_core::compaction::{Plan, Strategy, Transcript, Wanted};
///
/// /// Leaves everything as it is.
/// struct Never;
/// impl Strategy for Never {
///     fn name(&self) -> &'static str { "never" }
///     fn plan(&self, _: &Transcript<'_>, _: &Wanted) -> Option<Plan> { None }
/// }
/// assert!(Never.plan(&Transcript { entries: &[] }, &Wanted::default()).is_none());
/// ```
pub trait Strategy: Send + Sync {
    /// Its name, as entries keep it.
    fn name(&self) -> &'static str;

    /// What it would do; none when it can gain nothing.
    fn plan(&self, transcript: &Transcript<'_>, wanted: &Wanted) -> Option<Plan>;
}

/// What a conversation sees.
///
/// ```
/// use everturn_core::compaction::Transcript;
/// assert!(Transcript { entries: &[] }.context().messages().is_empty());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Transcript<'a> {
    /// The visible entries, oldest first; those before the newest head's entry may be left out.
    pub entries: &'a [EntryRecord],
}

impl Transcript<'_> {
    /// What is sent of it now.
    pub fn context(&self) -> Context {
        Context::derive(self.entries)
    }
}

/// How short a context has to get.
///
/// Units: tokens.
///
/// ```
/// use everturn_core::compaction::Wanted;
/// assert!(Wanted { keep_recent: 20_000, ..Wanted::default() }.room.is_none());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// How many of the newest tokens stay as they are: all whole messages that they are enough for, and more up to the
    /// beginning of a turn, unless that would be twice as many. Where there is little room, half of it.
    pub keep_recent: u64,
    /// What the context has to get below, if anything: then that comes first.
    pub room: Option<u64>,
}

/// What a strategy would do.
///
/// ```
/// use everturn_core::{compaction::{Plan, Trigger}, id::EntryId};
///
/// let plan = Plan {
///     strategy: "summarise", first_kept: Some(EntryId(9)), summarise: vec![EntryId(2)], edits: vec![],
///     needs_summary: true, tokens_before: 900, tokens_kept: 300, based_on: None,
/// };
/// assert!(plan.entry(Some(" "), Trigger::Full).is_none(), "an empty summary changes nothing");
/// let entry = plan.entry(Some("They weighed pears."), Trigger::Full).unwrap();
/// assert!(entry.text().contains("They weighed pears."));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The strategy that made it.
    pub strategy: &'static str,
    /// Where the context begins from then on; none where it begins where it did.
    pub first_kept: Option<EntryId>,
    /// What is no longer sent, and a summary stands for, oldest first; an earlier summary comes first.
    pub summarise: Vec<EntryId>,
    /// What entries contribute instead.
    pub edits: Vec<Edit>,
    /// Whether a model has to be asked for a summary.
    pub needs_summary: bool,
    /// How many tokens the context has, about.
    pub tokens_before: u64,
    /// How many it has afterwards, about, the summary left out.
    pub tokens_kept: u64,
    /// The newest entry with a head or edits that the plan knows of.
    pub based_on: Option<EntryId>,
}

/// Why a context was made shorter.
///
/// ```
/// use everturn_core::compaction::Trigger;
/// assert_eq!(Trigger::Ahead.word(), "ahead");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Somebody asked for it.
    Asked,
    /// The context would have become too long soon.
    Ahead,
    /// The next request would not have fitted.
    Full,
}

impl Trigger {
    /// The trigger in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Ahead => "ahead",
            Self::Full => "full",
        }
    }
}

/// What people are told of a compaction: the data of an `et.compaction` entry.
///
/// ```
/// use everturn_core::compaction::{Compaction, Trigger};
/// let compaction = Compaction {
///     strategy: "keep_last".into(), trigger: Trigger::Asked, tokens_before: 900, tokens_kept: 300, replaced: 7,
/// };
/// assert_eq!(serde_json::to_value(&compaction).unwrap()["trigger"], "asked");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// How it was done.
    pub strategy: String,
    /// Why.
    pub trigger: Trigger,
    /// How many tokens the context had, about.
    pub tokens_before: u64,
    /// How many of them stayed, about, the summary left out.
    pub tokens_kept: u64,
    /// How many entries are no longer sent, or say less.
    pub replaced: usize,
}

impl EntryKind for Compaction {
    const KIND: &'static str = kind::COMPACTION;
}

impl Plan {
    /// Whether the plan still fits a conversation that went on meanwhile: nothing began anew and nothing was edited.
    pub fn fits(&self, context: &Context) -> bool {
        self.based_on == layout::newest_break(context)
    }

    /// The entry that does it; none where a summary is needed and there is none, or an empty one.
    pub fn entry(&self, summary: Option<&str>, trigger: Trigger) -> Option<Entry> {
        let text = match (summary.map(str::trim).filter(|text| !text.is_empty()), self.first_kept) {
            (Some(text), Some(_)) => Some(summary::framed(text)),
            (None, Some(_)) if self.needs_summary => return None,
            (None, Some(_)) => Some(summary::NOTE.to_owned()),
            (_, None) => None,
        };
        let compaction = Compaction {
            strategy: self.strategy.into(),
            trigger,
            tokens_before: self.tokens_before,
            tokens_kept: self.tokens_kept,
            replaced: self.summarise.len() + self.edits.len(),
        };
        let mut entry = Entry::of(&compaction).expect("words and numbers are JSON");
        entry.messages.extend(text.map(|text| Message::user(text).into()));
        entry.head = self.first_kept.map(Head::Entry);
        entry.edits.clone_from(&self.edits);
        Some(entry)
    }
}
