//! Looking at what is committed, and telling what is new.

use std::collections::BTreeMap;

use everturn_core::{
    Result,
    cursor::Cursor,
    entry::EntryRecord,
    id::{ConversationId, TaskId},
    message::{CallId, End, Message},
    policy::Effect,
    storage::ChangeQuery,
    task::TaskRecord,
};

use super::{
    Begin, Event, EventKind, Events, Look, Source,
    begin::{self, Beginning},
    tell::{Glance, GlanceCall, Seen},
};
use crate::harness::{
    call::{CallState, Intent, Phase, Streamed, call_id},
    turn::Partial,
};

/// How many entries are told of at a time.
const PAGE: usize = 500;

/// How far a follower is.
#[derive(Clone, Debug)]
pub(super) struct Follow {
    pub(super) seen: Seen,
    /// The newest commit when it looked last.
    pub(super) place: Cursor,
    /// Whether it has seen all up to there.
    pub(super) is_there: bool,
}

impl Events {
    /// Finds what was committed since the last look. Changes nothing: it can be given up at any time.
    pub(super) async fn look(&self) -> Result<Look> {
        let mut look = Look { follow: None, told: Vec::new(), is_due: false, is_end: false };
        let mut follow = match &self.follow {
            Some(follow) => follow.clone(),
            None => match self.begin().await? {
                Beginning::At(follow, told) => {
                    look.told = told;
                    *follow
                }
                Beginning::NotYet => return Ok(look),
                Beginning::Never => return Ok(Look { is_end: true, ..look }),
            },
        };
        let place = self.source.place().await?;
        if follow.is_there && place == follow.place {
            return Ok(Look { follow: Some(follow), ..look });
        }
        if is_lost(&self.source, &follow.place, &place).await? {
            (follow, look.told) = begin::resync(&self.source, self.conversation, place).await?;
        }
        let glance = glance(&self.source, self.conversation, &follow.seen, place).await?;
        // What was stored under an earlier owner bears the newest epoch, which has all of it.
        let epoch = self.source.place().await?.epoch;
        let cursor = |seq| Cursor { session: place.session, epoch, seq };
        let told = follow.seen.tell(&glance).into_iter();
        look.told.extend(told.map(|(seq, kind)| Event { cursor: cursor(seq), kind }));
        (follow.place, follow.is_there) = (place, !glance.is_cut);
        (look.follow, look.is_due) = (Some(follow), glance.is_cut);
        self.cut_at_end(&mut look).await?;
        Ok(look)
    }

    /// Leaves out what comes behind the submission's end.
    async fn cut_at_end(&self, look: &mut Look) -> Result<()> {
        let (Begin::Submission(id), Source::Live { live, .. }) = (self.begin, &self.source) else {
            return Ok(());
        };
        let Some(turn) = live.submission_record(id).await?.turn() else { return Ok(()) };
        let is_end =
            |event: &Event| matches!(&event.kind, EventKind::TurnEnded(record) if record.turn == turn);
        if let Some(at) = look.told.iter().position(is_end) {
            look.told.truncate(at + 1);
            look.is_end = true;
        }
        Ok(())
    }
}

/// Whether what was seen at a place is no longer what happened.
async fn is_lost(source: &Source, seen: &Cursor, now: &Cursor) -> Result<bool> {
    if seen.epoch == now.epoch {
        return Ok(now.seq < seen.seq);
    }
    let query = ChangeQuery { session: seen.session, epoch: seen.epoch, after: seen.seq, limit: 1 };
    Ok(!seen.is_kept(&source.store().changes(query).await?))
}

/// Reads what may be new. The partial response first: what entries say that are read later makes it old, and not the other
/// way round; and calls last, so that each that an entry proposes is found.
async fn glance(source: &Source, conversation: ConversationId, seen: &Seen, place: Cursor) -> Result<Glance> {
    let partial = source.document::<Partial>(conversation).await?;
    let entries = source.entries_after(conversation, seen.entry(), PAGE).await?;
    let has_results = entries
        .iter()
        .any(|entry| entry.messages.iter().any(|message| matches!(&**message, Message::Result(_))));
    let approvals = match source.has_open(conversation, seen.open()) && !has_results {
        true => Vec::new(),
        false => source.approvals(conversation, seen.asks_from()).await?,
    };
    let wanted = seen.calls().cloned().chain(proposed(&entries)).collect();
    let calls = calls(source, wanted).await?;
    let is_cut = entries.len() == PAGE;
    Ok(Glance { head: place.seq, entries, is_cut, partial, calls, approvals })
}

/// The calls that entries propose.
pub(super) fn proposed(entries: &[EntryRecord]) -> Vec<CallId> {
    let messages = entries.iter().flat_map(|entry| &entry.messages);
    let responses = messages.filter_map(|message| match &**message {
        Message::Assistant(assistant) if assistant.end == End::Complete => Some(assistant),
        _ => None,
    });
    responses.flat_map(|assistant| assistant.calls().map(|call| call.id.clone())).collect()
}

/// What is to be known of calls.
async fn calls(source: &Source, wanted: Vec<CallId>) -> Result<BTreeMap<CallId, GlanceCall>> {
    let tasks: Vec<TaskId> = wanted.iter().filter_map(task_of).collect();
    let mut found = BTreeMap::new();
    if tasks.is_empty() {
        return Ok(found);
    }
    for task in source.tasks(tasks).await? {
        let shown = source.document::<Streamed>(task.id).await?;
        let output = shown.map(|(shown, seq)| (shown.text, seq));
        let (is_planned, is_ready) = (is_planned(&task), is_ready(&task));
        found.insert(call_id(task.id), GlanceCall { is_planned, is_ready, output });
    }
    Ok(found)
}

/// The task of a call.
pub(in crate::harness) fn task_of(call: &CallId) -> Option<TaskId> {
    call.0.strip_prefix('c')?.parse().ok()
}

/// Whether a call's intent was committed with the response that made it.
pub(super) fn is_planned(task: &TaskRecord) -> bool {
    let verdict = task.input.read::<Intent>().ok().and_then(|intent| intent.verdict);
    verdict.is_some_and(|verdict| verdict.effect == Effect::Allow)
}

/// Whether a call's intent is committed, and it has not ended.
pub(super) fn is_ready(task: &TaskRecord) -> bool {
    let state = task.checkpoint().map(|checkpoint| checkpoint.read::<CallState>());
    matches!(state, Some(Ok(CallState { phase: Phase::Ready | Phase::Child(_) | Phase::Unsure(_), .. })))
}
