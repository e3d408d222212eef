//! A part of a session as it is, from the reads that each part of it has.

use everturn_core::{
    conversation::Conversation,
    document::ScopeKey,
    entry::EntryRecord,
    error::Error,
    id::{ConversationId, SessionId},
    storage::{
        DocumentQuery, DocumentState, EntryQuery, Only, Order, Part, SubmissionFilter, View, ViewQuery,
    },
    submission::SubmissionRecord,
};
use rusqlite::Connection;

use super::{
    approvals, conversations, documents, entries,
    fault::Outcome,
    session::{self, Standing},
    submissions, tasks,
};

/// Errors: `NotFound` for an unknown conversation.
pub(super) fn read(db: &Connection, sid: i64, ViewQuery { session, part }: &ViewQuery) -> Outcome<View> {
    let Standing { head, epoch, .. } = session::standing(db, sid)?;
    let mut view = View { head, epoch, ..View::default() };
    match part {
        Part::Document { scope, kind } => {
            let (session, scope, kind) = (*session, *scope, Some(kind.clone()));
            view.documents = documents_of(db, sid, &DocumentQuery { session, scope, kind, at: None })?;
        }
        Part::Conversation(id) => read_conversation(db, sid, (*session, *id), &mut view)?,
        Part::Tasks => {
            view.conversations = conversations::owned(db, sid)?;
            view.tasks = tasks::live(db, sid)?;
        }
        Part::Everything => {
            view.conversations = conversations::all(db, sid)?;
            view.documents = documents::live(db, sid)?;
            view.tasks = tasks::live(db, sid)?;
            view.submissions = live_submissions(db, sid)?;
            view.approvals = approvals::open(db, sid)?;
        }
    }
    Ok(view)
}

fn read_conversation(
    db: &Connection,
    sid: i64,
    (session, id): (SessionId, ConversationId),
    view: &mut View,
) -> Outcome<()> {
    let conversation = conversations::one(db, sid, id)?.ok_or_else(|| {
        Error::not_found(format!("look at conversation {id} of session {session}: there is none"))
    })?;
    view.entries = context(db, sid, session, &conversation)?;
    let scope = ScopeKey::Conversation(id);
    view.documents = documents_of(db, sid, &DocumentQuery { session, scope, kind: None, at: None })?;
    view.tasks = tasks::live(db, sid)?;
    view.tasks.retain(|task| task.conversation == id);
    view.submissions = live_submissions(db, sid)?;
    view.submissions.retain(|submission| submission.conversation == id);
    view.approvals = approvals::open(db, sid)?;
    view.approvals.retain(|approval| approval.conversation == id);
    view.conversations = vec![conversation];
    Ok(())
}

/// The entries that a conversation sees from its newest head on.
fn context(
    db: &Connection,
    sid: i64,
    session: SessionId,
    conversation: &Conversation,
) -> Outcome<Vec<EntryRecord>> {
    let all = EntryQuery::of(session, conversation.lineage.clone());
    let heads = EntryQuery { only: Only::Heads, limit: 1, ..all.clone() };
    let head = entries::read(db, sid, &heads)?.pop();
    let from = head.and_then(|entry| entry.head.map(|head| head.entry(entry.id)));
    entries::read(db, sid, &EntryQuery { order: Order::OldestFirst, ..all.from(from) })
}

/// The live documents of a scope in the order of their ids.
fn documents_of(db: &Connection, sid: i64, query: &DocumentQuery) -> Outcome<Vec<DocumentState>> {
    let mut documents = documents::read(db, sid, query)?;
    documents.sort_by_key(|state| state.record.id);
    Ok(documents)
}

fn live_submissions(db: &Connection, sid: i64) -> Outcome<Vec<SubmissionRecord>> {
    submissions::read(db, sid, &SubmissionFilter::Live)
}
