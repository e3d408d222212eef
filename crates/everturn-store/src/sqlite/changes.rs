//! What commits changed, read from the rows that they stamped.
//!
//! The cost follows what changed and in how many places it may lie (conversations, live documents), never how much
//! history there is: each place is entered at the reader's seq through an index, and left when the limit is reached.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ops::ControlFlow};

use everturn_core::{
    approval::ApprovalRecord,
    id::{ConversationId, Seq},
    storage::{
        Change, ChangeQuery, Changes, DocumentChange, DocumentRecord, DocumentState, EpochStart, Revision,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{
    approvals, conversations, documents, entries,
    fault::Outcome,
    session::{self, Standing},
    submissions, tasks,
};

pub(super) fn read(db: &Connection, sid: i64, query: &ChangeQuery) -> Outcome<Changes> {
    let standing = session::standing(db, sid)?;
    let epochs = epochs(db, sid, query, &standing)?;
    let Standing { head, epoch, floor } = standing;
    let mut changes =
        Changes { head, epoch, floor, epochs, until: head, before: Vec::new(), commits: Vec::new() };
    if head > query.after {
        let mut log = Log::new(query);
        log.read(db, sid)?;
        changes.until = log.until().unwrap_or(head);
        changes.before = log.before(db, changes.until)?;
        changes.commits = log.into_commits();
    }
    Ok(changes)
}

/// Most readers live in the newest epoch, and ask often.
fn epochs(db: &Connection, sid: i64, query: &ChangeQuery, standing: &Standing) -> Outcome<Vec<EpochStart>> {
    match standing.epoch > query.epoch {
        true => session::epochs_after(db, sid, query.epoch),
        false => Ok(Vec::new()),
    }
}

macro_rules! entry {
    ($columns:literal, $places:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM ",
            $places,
            " AS p CROSS JOIN entry AS e ON e.rid = p.rid WHERE p.sid = ?1 AND p.conversation = ?2",
            $rest
        )
    };
}

// The newest places lie behind the others.
const NEWEST_ENTRY: [&str; 2] = [
    entry!("e.id, seq", "place_new", " ORDER BY p.id DESC LIMIT 1"),
    entry!("e.id, seq", "place", " ORDER BY p.id DESC LIMIT 1"),
];
const NEXT_ENTRY: [&str; 2] = [
    entry!("e.id, seq", "place", " AND p.id >= ?3 ORDER BY p.id LIMIT 1"),
    entry!("e.id, seq", "place_new", " AND p.id >= ?3 ORDER BY p.id LIMIT 1"),
];
const ENTRIES: [&str; 2] = [
    entry!(
        "e.rid, e.conversation, e.id, seq, time, task, kind, crc, body",
        "place",
        " AND p.id >= ?3 ORDER BY p.id"
    ),
    entry!(
        "e.rid, e.conversation, e.id, seq, time, task, kind, crc, body",
        "place_new",
        " AND p.id >= ?3 ORDER BY p.id"
    ),
];
// What lives is few, and looked at whole; what ended is entered at the seq.
const TASKS_LIVE: &str = "SELECT id, crc, body, seq FROM task INDEXED BY task_live
    WHERE sid = ?1 AND live = 1 AND seq > ?2";
const TASKS_ENDED: &str = "SELECT id, crc, body, seq FROM task INDEXED BY task_ended
    WHERE sid = ?1 AND live = 0 AND seq > ?2 ORDER BY seq";
const SUBMISSIONS_LIVE: &str = "SELECT id, crc, body, seq FROM submission INDEXED BY submission_live
    WHERE sid = ?1 AND live = 1 AND seq > ?2";
const SUBMISSIONS_SETTLED: &str = "SELECT id, crc, body, seq FROM submission INDEXED BY submission_settled
    WHERE sid = ?1 AND live = 0 AND seq > ?2 ORDER BY seq";
const APPROVALS_OPEN: &str = "SELECT id, crc, body, seq FROM approval INDEXED BY approval_open
    WHERE sid = ?1 AND open = 1 AND seq > ?2";
const APPROVALS_OVER: &str = "SELECT id, crc, body, seq FROM approval INDEXED BY approval_over
    WHERE sid = ?1 AND open = 0 AND seq > ?2 ORDER BY seq";

/// A kind of work: where its rows are found, and what they are.
struct Work<T> {
    live: &'static str,
    over: &'static str,
    at: fn(&Row<'_>) -> Outcome<T>,
    of: fn(&mut Change) -> &mut Vec<T>,
}

const TASKS: Work<TaskRecord> =
    Work { live: TASKS_LIVE, over: TASKS_ENDED, at: tasks::task_at, of: |change| &mut change.tasks };
const SUBMISSIONS: Work<SubmissionRecord> = Work {
    live: SUBMISSIONS_LIVE,
    over: SUBMISSIONS_SETTLED,
    at: submissions::submission_at,
    of: |change| &mut change.submissions,
};
const APPROVALS: Work<ApprovalRecord> = Work {
    live: APPROVALS_OPEN,
    over: APPROVALS_OVER,
    at: approvals::approval_at,
    of: |change| &mut change.approvals,
};

const DOCUMENTS_LIVE: &str = "SELECT did FROM document INDEXED BY document_live
    WHERE sid = ?1 AND retired IS NULL";
const DOCUMENTS_KEPT: &str = "SELECT did FROM document INDEXED BY document_kept
    WHERE sid = ?1 AND retired > ?2 AND record ->> '$.history' = 'rewindable'";
const DOCUMENTS_RETIRED: &str =
    "SELECT did, retired, number, crc, record FROM document INDEXED BY document_retired
    WHERE sid = ?1 AND retired > ?2 ORDER BY retired";
const REVISIONS: &str = "SELECT rid, seq, number, version, crc, body FROM revision INDEXED BY revision_seq
    WHERE did = ?1 AND seq > ?2 ORDER BY seq, rid";

/// The oldest commits behind the reader's place, of those found so far: at most as many as the reader wants.
///
/// A later commit makes way for an earlier one, so that what is in here at the end is told whole.
struct Log {
    after: Seq,
    limit: usize,
    commits: BTreeMap<Seq, Change>,
    /// Whether there are more commits than the limit allows.
    is_cut: bool,
    /// Documents whose first revision behind the reader's place is a delta, and the commit of that.
    began: Vec<Began>,
}

struct Began {
    seq: Seq,
    did: i64,
    record: DocumentRecord,
}

impl Log {
    fn new(query: &ChangeQuery) -> Self {
        Self {
            after: query.after,
            limit: query.limit,
            commits: BTreeMap::new(),
            is_cut: false,
            began: Vec::new(),
        }
    }

    /// The change of a commit, where it is among the oldest.
    fn at(&mut self, seq: Seq) -> Option<&mut Change> {
        if self.commits.len() >= self.limit && !self.commits.contains_key(&seq) {
            self.is_cut = true;
            let last = self.commits.last_entry()?;
            if *last.key() < seq {
                return None;
            }
            last.remove();
        }
        Some(self.commits.entry(seq).or_insert_with(|| Change::of(seq)))
    }

    /// Adds to the change of a commit. Breaks off where the commit, and with it each later one, is beyond the limit.
    fn tell(&mut self, seq: Seq, add: impl FnOnce(&mut Change) -> Outcome<()>) -> Outcome<ControlFlow<()>> {
        match self.at(seq) {
            Some(change) => add(change).map(ControlFlow::Continue),
            None => Ok(ControlFlow::Break(())),
        }
    }

    fn read(&mut self, db: &Connection, sid: i64) -> Outcome<()> {
        self.read_conversations(db, sid)?;
        self.read_work(db, sid, &TASKS)?;
        self.read_work(db, sid, &SUBMISSIONS)?;
        self.read_work(db, sid, &APPROVALS)?;
        self.read_documents(db, sid)
    }

    fn read_conversations(&mut self, db: &Connection, sid: i64) -> Outcome<()> {
        for (id, seq) in conversations::places(db, sid)? {
            if seq > self.after
                && let Some(change) = self.at(seq)
            {
                change.conversations.extend(conversations::one(db, sid, id)?);
            }
            self.read_entries(db, sid, id)?;
        }
        Ok(())
    }

    fn read_entries(&mut self, db: &Connection, sid: i64, conversation: ConversationId) -> Outcome<()> {
        let Some(from) = first_behind(db, sid, conversation, self.after)? else {
            return Ok(());
        };
        let mut tell = |row: &Row<'_>| {
            let add = |change: &mut Change| {
                change.entries.push(entries::entry_at(row)?);
                Ok(())
            };
            self.tell(Seq(row.get(3)?), add)
        };
        ENTRIES.iter().try_for_each(|sql| each(db, sql, params![sid, conversation.0, from], &mut tell))
    }

    fn read_work<T>(&mut self, db: &Connection, sid: i64, work: &Work<T>) -> Outcome<()> {
        let Seq(after) = self.after;
        let mut tell = |row: &Row<'_>| {
            let add = |change: &mut Change| {
                (work.of)(change).push((work.at)(row)?);
                Ok(())
            };
            self.tell(Seq(row.get(3)?), add)
        };
        each(db, work.over, params![sid, after], &mut tell)?;
        // In the order of their ids: a later one may have moved before.
        each(db, work.live, params![sid, after], |row| tell(row).map(|_| ControlFlow::Continue(())))
    }

    fn read_documents(&mut self, db: &Connection, sid: i64) -> Outcome<()> {
        let Seq(after) = self.after;
        let mut with_revisions = Vec::new();
        let mut keep = |row: &Row<'_>| {
            with_revisions.push(row.get(0)?);
            Ok(ControlFlow::Continue(()))
        };
        each(db, DOCUMENTS_LIVE, [sid], &mut keep)?;
        each(db, DOCUMENTS_KEPT, params![sid, after], &mut keep)?;
        for did in with_revisions {
            self.read_revisions(db, did)?;
        }
        each(db, DOCUMENTS_RETIRED, params![sid, after], |row| {
            self.tell(Seq(row.get(1)?), |change| {
                let record = documents::record_at(row, row.get(0)?, [3, 4])?;
                change.documents.push(DocumentChange {
                    record,
                    number: row.get(2)?,
                    revision: Revision::Retired,
                });
                Ok(())
            })
        })
    }

    fn read_revisions(&mut self, db: &Connection, did: i64) -> Outcome<()> {
        let Seq(after) = self.after;
        let mut known: Option<DocumentRecord> = None;
        each(db, REVISIONS, params![did, after], |row| {
            let seq = Seq(row.get(1)?);
            let is_first = known.is_none();
            if self.at(seq).is_none() {
                return Ok(ControlFlow::Break(()));
            }
            let record = match &known {
                Some(record) => record.clone(),
                None => known.insert(documents::record(db, did)?).clone(),
            };
            let revision = documents::revision_at(row, row.get(0)?, [3, 4, 5])?;
            if is_first && matches!(revision, Revision::Delta { .. }) {
                self.began.push(Began { seq, did, record: record.clone() });
            }
            let number = row.get(2)?;
            self.tell(seq, |change| {
                change.documents.push(DocumentChange { record, number, revision });
                Ok(())
            })
        })
    }

    /// Up to which commit all is told; none where that is the head.
    fn until(&self) -> Option<Seq> {
        let last = self.commits.last_key_value().map_or(self.after, |(seq, _)| *seq);
        self.is_cut.then_some(last)
    }

    /// What documents were at the reader's place, for those whose first revision up to `until` is a delta.
    fn before(&mut self, db: &Connection, until: Seq) -> Outcome<Vec<DocumentState>> {
        let at = i64::try_from(self.after.0).unwrap_or(i64::MAX);
        let mut before = Vec::new();
        for Began { did, record, .. } in self.began.drain(..).filter(|began| began.seq <= until) {
            before.extend(documents::state(db, did, record, at)?);
        }
        before.sort_by_key(|state| state.record.id);
        Ok(before)
    }

    /// The commits, each with its rows in the order of their ids.
    fn into_commits(self) -> Vec<Change> {
        let mut commits: Vec<Change> = self.commits.into_values().collect();
        for change in &mut commits {
            change.entries.sort_by_key(|entry| entry.id);
            change.tasks.sort_by_key(|task| task.id);
            change.submissions.sort_by_key(|submission| submission.id);
            change.approvals.sort_by_key(|approval| approval.id);
            // Revisions of one document keep their order.
            change.documents.sort_by_key(|document| document.record.id);
        }
        commits
    }
}

/// From which id on a conversation's entries are behind a seq; none where none is.
///
/// Seqs grow with ids, so the place is found in steps that double from the newest entry back, and are halved then: few,
/// where little came, and few, where much did.
fn first_behind(db: &Connection, sid: i64, conversation: ConversationId, after: Seq) -> Outcome<Option<u64>> {
    let newest = first(db, NEWEST_ENTRY, params![sid, conversation.0])?;
    let Some((newest, _)) = newest.filter(|(_, seq)| *seq > after) else { return Ok(None) };
    // Up to `told` no entry is behind the seq, from `behind` on each is.
    let (mut told, mut behind, mut step): (u64, u64, u64) = (0, newest, 1);
    while behind - told > 1 {
        let probe = behind.saturating_sub(step).max(told + 1);
        match first(db, NEXT_ENTRY, params![sid, conversation.0, probe])? {
            Some((id, seq)) if seq <= after => told = id,
            _ => behind = probe,
        }
        step = if told == 0 { step * 2 } else { (behind - told).div_ceil(2) };
    }
    Ok(Some(behind))
}

/// The first entry that one query finds, or else another: its id and its seq.
fn first(db: &Connection, queries: [&str; 2], values: impl Params + Copy) -> Outcome<Option<(u64, Seq)>> {
    for sql in queries {
        let entry = |row: &Row<'_>| Ok((row.get(0)?, Seq(row.get(1)?)));
        let found = db.prepare_cached(sql)?.query_row(values, entry).optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Reads rows until one breaks off.
fn each(
    db: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Outcome<ControlFlow<()>>,
) -> Outcome<()> {
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(values)?;
    while let Some(row) = rows.next()? {
        if read(row)?.is_break() {
            break;
        }
    }
    Ok(())
}
