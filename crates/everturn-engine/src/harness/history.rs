//! Turns that have ended, read from their entries.

use std::collections::BTreeMap;

use everturn_core::{
    Result,
    conversation::Lineage,
    entry::{EntryKind, EntryRecord, kind},
    id::{ConversationId, EntryId, TaskId},
    json::RawJson,
    storage::{EntryQuery, Only, Order},
    task::{TaskFailure, TaskOutcome},
    usage::Total,
    verify::Finding,
};
use serde::{Deserialize, Serialize};

use super::live::LiveSession;
use crate::SessionReader;

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
    /// A call handed off: the conversation begins anew.
    HandedOff,
    /// The model asked for more than the turn may have.
    MaxSteps,
    /// The same calls gave the same results, over and over.
    Standstill {
        /// How many responses in a row.
        repeats: u32,
    },
    /// A budget was used up.
    OutOfBudget {
        /// Which: `steps`, `input_tokens`, `output_tokens`, `cost`, `wall_ms`, `calls`, `children` or `depth`.
        limit: String,
    },
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
    /// The same as the outcome of the turn's task; the entry that keeps the turn is its output.
    pub(super) fn into_outcome(self, output: RawJson) -> TaskOutcome {
        match self {
            Self::Answered | Self::HandedOff => TaskOutcome::Completed { output },
            Self::Cancelled { reason } => TaskOutcome::Aborted { reason, output: Some(output) },
            failed => TaskOutcome::Failed { error: failed.into_failure(), output: Some(output) },
        }
    }

    /// Why the turn's task failed.
    pub(super) fn into_failure(self) -> TaskFailure {
        TaskFailure::new(self.reason(), self.message())
    }

    /// What went wrong, in words; none where nothing did.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Answered | Self::HandedOff | Self::Cancelled { .. } => None,
            failed => Some(format!("{}: {}", failed.reason(), failed.message())),
        }
    }

    /// The end in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::HandedOff => "handed_off",
            Self::MaxSteps => "max_steps",
            Self::Standstill { .. } => "standstill",
            Self::OutOfBudget { .. } => "out_of_budget",
            Self::Cancelled { .. } => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }

    /// Why it ended, in one word: of a failure its own.
    fn reason(&self) -> &str {
        match self {
            Self::Failed { kind, .. } => kind,
            other => other.word(),
        }
    }

    /// What an input is told that waited for it.
    pub(super) fn said(&self) -> String {
        match self {
            Self::Failed { kind, .. } => format!("failed: {kind}"),
            other => format!("ended: {}", other.word()),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Answered => "the model answered".into(),
            Self::HandedOff => "a call handed off".into(),
            Self::MaxSteps => "the model asked for more than the turn may have".into(),
            Self::Standstill { repeats } => {
                format!("the same calls gave the same results {repeats} times in a row")
            }
            Self::OutOfBudget { limit } => format!("its budget of {limit} is used up"),
            Self::Cancelled { reason } => reason.clone(),
            Self::Failed { message, .. } => message.clone(),
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
            let own = Lineage::new(conversation.id);
            let query =
                EntryQuery { only: Only::Turns, order: Order::OldestFirst, ..EntryQuery::of(self.id(), own) };
            turns.insert(conversation.id, views(&store.entries(query).await?)?);
        }
        let mut all: Vec<TurnView> = Vec::new();
        for conversation in &conversations {
            for (at, view) in turns[&conversation.id].iter().enumerate() {
                let before = at.checked_sub(1).map(|at| turns[&conversation.id][at].record.turn);
                let parent = before.or_else(|| inherited(&turns, &conversation.lineage));
                all.push(TurnView { parent, ..view.clone() });
            }
        }
        all.sort_by_key(|view| view.entry);
        Ok(all)
    }
}

/// The newest turn that a conversation sees of its ancestors.
fn inherited(turns: &BTreeMap<ConversationId, Vec<TurnView>>, lineage: &Lineage) -> Option<TaskId> {
    let ancestors = lineage.spans().iter().skip(1);
    ancestors
        .flat_map(|span| turns[&span.conversation].iter().rev().find(|view| view.entry <= span.until))
        .next()
        .map(|view| view.record.turn)
}

/// Turns whose account is not the sum of their rows in the ledger, or whose entries are not there.
pub(super) async fn accounts(reader: &SessionReader) -> Result<Vec<Finding>> {
    let (store, session) = (reader.store(), reader.row().id);
    let ledger = store.usage(session).await?;
    let mut findings = Vec::new();
    for conversation in store.conversations(session).await? {
        let own = EntryQuery { only: Only::Turns, ..EntryQuery::of(session, Lineage::new(conversation.id)) };
        for TurnView { record, entry, .. } in views(&store.entries(own).await?)? {
            let mut find = |what| findings.push(Finding { record: format!("entry {entry}"), what });
            let rows: Total = ledger.iter().filter(|row| row.turn == record.turn).collect();
            if rows != record.total {
                find(format!("turn {} says {:?}, and the ledger {rows:?}", record.turn, record.total));
            }
            for named in [Some(record.first), Some(record.last), record.reply].into_iter().flatten() {
                let newest = reader.entries(conversation.id, Some(EntryId(named.0 + 1)), 1).await?;
                if newest.first().map(|found| found.id) != Some(named) {
                    find(format!("entry {named}, which it names, is not there"));
                }
            }
        }
    }
    Ok(findings)
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
