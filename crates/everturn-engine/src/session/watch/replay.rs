//! Frames of commits that were stored before: from rows to what the commit's own watchers were told.

use std::{collections::HashMap, sync::Arc};

use everturn_core::{
    Error, Result,
    cursor::Cursor,
    document::{self, Operation},
    id::{DocumentId, Seq},
    storage::{Change, Changes, DocumentChange, Part, Revision},
};

use super::{Changed, Frame, FrameKind};
use crate::session::{
    document::{Committed, Revised},
    state::Adopted,
};

/// The frames of a page of changes, oldest first. A commit that changed nothing of the part has none.
///
/// Errors: `Corrupt` when a document does not fold.
pub(super) fn frames(from: Cursor, changes: Changes, part: &Part) -> Result<Vec<Frame>> {
    let mut documents = Documents::default();
    for state in &changes.before {
        documents.0.insert(state.record.id, Arc::new(Committed::fold(state)?));
    }
    let places: Vec<_> = changes.commits.iter().map(|change| from.at(change.seq, &changes)).collect();
    let mut frames = Vec::new();
    for (cursor, change) in places.into_iter().zip(changes.commits) {
        let changed = Changed::of(&documents.adopted(change)?, part);
        if !changed.is_empty() {
            frames.push(Frame { cursor, kind: FrameKind::Changed(changed) });
        }
    }
    Ok(frames)
}

/// What documents were at the commit before.
#[derive(Default)]
struct Documents(HashMap<DocumentId, Arc<Committed>>);

impl Documents {
    fn adopted(&mut self, change: Change) -> Result<Adopted> {
        let Change { seq, conversations, entries, tasks, submissions, approvals, documents } = change;
        let documents = documents.into_iter().map(|document| self.revise(seq, document));
        Ok(Adopted {
            conversations: conversations.into_iter().map(Arc::new).collect(),
            entries: entries.into_iter().map(Arc::new).collect(),
            tasks: tasks.into_iter().map(Arc::new).collect(),
            submissions: submissions.into_iter().map(Arc::new).collect(),
            approvals: approvals.into_iter().map(Arc::new).collect(),
            documents: documents.collect::<Result<_>>()?,
            ..Adopted::default()
        })
    }

    fn revise(&mut self, seq: Seq, change: DocumentChange) -> Result<Revised> {
        let DocumentChange { record, number, revision } = change;
        let (committed, operations) = match revision {
            Revision::Retired => {
                self.0.remove(&record.id);
                return Ok(Revised { record, number, committed: None, operations: None });
            }
            Revision::Base { version, value } => {
                let value =
                    document::read(value.get()).map_err(|error| corrupt(&record.kind, number, &error))?;
                (Committed::at(record.clone(), version, value, (seq, number)), None)
            }
            Revision::Delta { operations } => {
                let fault = |error: Error| corrupt(&record.kind, number, &error);
                let before = self.0.get(&record.id).ok_or_else(|| {
                    fault(Error::invalid("it is a difference to a value that is not there"))
                })?;
                let operations: Vec<Operation> = document::read(operations.get()).map_err(fault)?;
                let value = document::fold(before.value.clone(), &operations).map_err(fault)?;
                (Committed::at(record.clone(), before.version, value, (seq, number)), Some(operations.into()))
            }
        };
        let committed = Arc::new(committed);
        self.0.insert(record.id, committed.clone());
        Ok(Revised { record, number, committed: Some(committed), operations })
    }
}

fn corrupt(kind: &str, number: u64, error: &Error) -> Error {
    Error::corrupt(error.to_string(), format!("document {kind}, revision {number}"))
}
