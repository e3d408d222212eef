//! Turns that have ended, read from their entries.

use std::collections::BTreeMap;

use everturn_core::{
    Result,
    conversation::Conversation,
    entry::{EntryKind, EntryRecord, kind},
    id::{ConversationId, EntryId, TaskId},
    storage::{EntryQuery, Only, Order},
    usage::Total,
};
use serde::{Deserialize, Serialize};

use super::live::LiveSession;

/// The end of a turn, as its entry keeps it for good.
///
/// ```
/// use everturn_engine::TurnEnd;
/// assert_eq!(serde_json::to_string(&TurnEnd::Answered).unwrap(), r#""answered""#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The turn.
    pub turn: TaskId,
    /// Its first entry: the input.
    pub first: EntryId,
    /// Its last entry before this record.
    pub last: EntryId,
    /// The entry of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<EntryId>,
    /// How it ended.
    pub outcome: TurnEnd,
    /// How many responses it took.
    pub steps: u32,
    /// What its requests cost.
    pub total: Total,
}

impl EntryKind for TurnRecord {
    const KIND: &'static str = kind::TURN;
}

/// How a turn ended.
///
/// ```
/// use everturn_engine::TurnEnd;
/// let failed = TurnEnd::Failed { kind: "quota".into(), message: "no credit".into() };
/// assert_eq!((failed.word(), TurnEnd::Answered.word()), ("failed", "answered"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model answered.
    Answered,
    /// Someone stopped it.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// It could not go on.
    Failed {
        /// In one word: a fault's class, or a reason of ours.
        kind: String,
        /// What happened.
        message: String,
    },
}

impl TurnEnd {
    /// The end in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Cancelled { .. } => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }
}

/// A turn that has ended, and where it stands among the others.
///
/// ```
/// fn is_first(view: &everturn_engine::TurnView) -> bool {
///     view.parent.is_none()
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TurnView {
    /// What its entry keeps.
    pub record: TurnRecord,
    /// The conversation it was held in.
    pub conversation: ConversationId,
    /// The entry that keeps it; a fork at it has the whole turn.
    pub entry: EntryId,
    /// The turn before it.
    pub parent: Option<TaskId>,
}

impl LiveSession {
    /// The path of turns from the root to the current conversation's tail, oldest first.
    pub async fn history(&self) -> Result<Vec<TurnView>> {
        let current = self.current().await?.id();
        let lineage = self.conversation(current).await?.lineage.clone();
        let query =
            EntryQuery { only: Only::Turns, order: Order::OldestFirst, ..EntryQuery::of(self.id(), lineage) };
        let mut path: Vec<TurnView> = views(&self.shared().opener.store.entries(query).await?)?;
        let mut parent = None;
        for view in &mut path {
            view.parent = parent.replace(view.record.turn);
        }
        Ok(path)
    }

    /// All turns of the session that have ended, those of abandoned branches included, oldest first.
    pub async fn turns(&self) -> Result<Vec<TurnView>> {
        let store = &self.shared().opener.store;
        let conversations = store.conversations(self.id()).await?;
        let mut turns = BTreeMap::new();
        for conversation in &conversations {
            let lineage = everturn_core::conversation::Lineage::new(conversation.id);
            let query = EntryQuery { only: Only::Turns, ..EntryQuery::of(self.id(), lineage) };
            turns.extend(views(&store.entries(query).await?)?.into_iter().map(|view| (view.entry, view)));
        }
        let mut turns: Vec<TurnView> = turns.into_values().collect();
        let parents: Vec<Option<TaskId>> =
            turns.iter().map(|view| parent(view, &turns, &conversations)).collect();
        turns.iter_mut().zip(parents).for_each(|(view, parent)| view.parent = parent);
        Ok(turns)
    }
}

fn views(entries: &[EntryRecord]) -> Result<Vec<TurnView>> {
    let view = |entry: &EntryRecord| {
        let record = entry.read::<TurnRecord>()?;
        Ok(record.map(|record| TurnView {
            record,
            conversation: entry.conversation,
            entry: entry.id,
            parent: None,
        }))
    };
    entries.iter().filter_map(|entry| view(entry).transpose()).collect()
}

/// The newest turn before a turn that its conversation sees.
fn parent(view: &TurnView, turns: &[TurnView], conversations: &[Conversation]) -> Option<TaskId> {
    let conversation = conversations.iter().find(|one| one.id == view.conversation)?;
    let before = turns.iter().rev().filter(|other| other.entry < view.entry);
    let mut seen = before.filter(|other| conversation.lineage.sees(other.conversation, other.entry));
    seen.next().map(|other| other.record.turn)
}
