//! Where a follower begins: with an input, now, or behind a place that was seen before.

use std::collections::{HashMap, HashSet};

use everturn_core::{
    Error, Result,
    cursor::Cursor,
    entry::{EntryRecord, kind},
    id::{ApprovalId, ConversationId, EntryId, Seq, TaskId},
    message::{CallId, Message},
    storage::ChangeQuery,
    submission::SubmissionState,
};

use super::{
    Begin, Event, EventKind, Events, Source,
    look::{Follow, is_planned, is_ready, proposed, task_of},
    tell::{Seen, SeenCall},
};
use crate::{
    harness::{
        call::{CallTask, call_id},
        inbox::Steered,
        turn::{Attempt, Partial, TurnTask},
    },
    task::Task,
    watch::Start,
};

/// How much is read at a time.
const PAGE: usize = 100;

/// Where a follower begins.
pub(super) enum Beginning {
    At(Box<Follow>, Vec<Event>),
    /// What it waits for has not come.
    NotYet,
    /// There will be nothing.
    Never,
}

impl Events {
    pub(super) async fn begin(&self) -> Result<Beginning> {
        let (source, conversation) = (&self.source, self.conversation);
        let (follow, told) = match self.begin {
            Begin::Submission(_) => return self.with_input().await,
            Begin::Start(Start::Now) => (now(source, conversation, source.place().await?).await?, Vec::new()),
            Begin::Start(Start::Cursor(cursor)) if cursor.session != source.session() => {
                let session = source.session();
                return Err(Error::invalid(format!(
                    "follow session {session} from {cursor}: the cursor is of another session"
                )));
            }
            Begin::Start(Start::Cursor(cursor)) => behind(source, conversation, cursor).await?,
        };
        Ok(Beginning::At(Box::new(follow), told))
    }

    /// Finds where a submission's events begin: at its input's entry, once it was placed.
    async fn with_input(&self) -> Result<Beginning> {
        let (Begin::Submission(id), Source::Live { live, .. }) = (self.begin, &self.source) else {
            return Ok(Beginning::Never);
        };
        let record = live.submission_record(id).await?;
        let place = match &record.state {
            SubmissionState::Queued(_) => return Ok(Beginning::NotYet),
            SubmissionState::Placed(place) => *place,
            SubmissionState::Settled { place: Some(place), .. } => *place,
            SubmissionState::Settled { place: None, .. } => return Ok(Beginning::Never),
        };
        let seen = Seen::after(EntryId(place.entry.0 - 1));
        let now = self.source.place().await?;
        let follow = Follow { seen, place: Cursor { seq: Seq(0), ..now }, is_there: false };
        Ok(Beginning::At(Box::new(follow), Vec::new()))
    }
}

/// From now on; what the running response and the running calls have shown is told too.
async fn now(source: &Source, conversation: ConversationId, place: Cursor) -> Result<Follow> {
    let newest = source.entries_before(conversation, None, 1).await?;
    let mut seen = Seen::after(newest.first().map_or(EntryId(0), |entry| entry.id)).at(place.seq);
    let open = source.open_approvals(conversation).await?;
    let from = open.first().map_or(ApprovalId(seen.entry().0 + 1), |first| first.id);
    for approval in source.approvals(conversation, from).await? {
        seen = seen.with_approval(approval.id, approval.is_open());
    }
    for task in source.live_tasks().await? {
        if task.kind == CallTask::NAME && task.conversation == conversation {
            let call = SeenCall { is_started: is_ready(&task), ..SeenCall::default() };
            seen = seen.with_call(call_id(task.id), call);
        }
    }
    Ok(Follow { seen, place, is_there: false })
}

/// From the beginning of the turn that runs, or from now on, for who has seen what did not happen.
pub(super) async fn resync(
    source: &Source,
    conversation: ConversationId,
    place: Cursor,
) -> Result<(Follow, Vec<Event>)> {
    let told = vec![Event { cursor: place, kind: EventKind::Resync }];
    let is_turn = |task: &std::sync::Arc<everturn_core::task::TaskRecord>| {
        task.kind == TurnTask::NAME && task.conversation == conversation
    };
    let Some(turn) = source.live_tasks().await?.into_iter().find(is_turn) else {
        return Ok((now(source, conversation, place).await?, told));
    };
    let input: <TurnTask as Task>::Input = turn.input.read()?;
    let seen = Seen::after(EntryId(input.first.0 - 1));
    Ok((Follow { seen, place, is_there: false }, told))
}

/// From a place that was seen before. What an attempt may have shown until then, and is told again, is withdrawn.
async fn behind(
    source: &Source,
    conversation: ConversationId,
    cursor: Cursor,
) -> Result<(Follow, Vec<Event>)> {
    let Some(changed) = changed(source, conversation, cursor).await? else {
        return resync(source, conversation, source.place().await?).await;
    };
    let (before, after) = around(source, conversation, cursor.seq).await?;
    let left = Left::of(source, conversation, before).await?;
    let ended = left.response.as_ref().and_then(attempt);
    let mut seen = Seen::after(before.unwrap_or(EntryId(0))).at(cursor.seq).in_turn(left.turn, ended);
    let open = left.open_calls();
    let tasks = source.tasks(open.iter().filter_map(task_of).collect()).await?.into_iter();
    let tasks: HashMap<_, _> = tasks.map(|task| (call_id(task.id), task)).collect();
    for call in open {
        // What has become of the others since is told by their ends.
        let is_started = tasks
            .get(&call)
            .is_some_and(|task| is_planned(task) || (is_ready(task) && !changed.tasks.contains(&task.id)));
        let proposed = left.response.as_ref().map_or(Seq(0), |entry| entry.seq);
        seen = seen.with_call(call, SeenCall { proposed, is_started, output: 0 });
    }
    for approval in source.approvals(conversation, ApprovalId(left.first.0)).await? {
        let is_unchanged = !changed.approvals.contains(&approval.id);
        // One that has changed since and is over was asked before whatever came next.
        let was_asked = !approval.is_open() && after.as_ref().is_none_or(|after| approval.id.0 < after.id.0);
        if is_unchanged || was_asked {
            seen = seen.with_approval(approval.id, approval.is_open() || !is_unchanged);
        }
    }
    let mut told = Vec::new();
    if left.turn.is_some() && left.open_calls().is_empty() {
        let shown = shown(source, conversation, &left, after).await?;
        told.extend(shown.map(|Attempt { step, attempt }| Event {
            cursor,
            kind: EventKind::AttemptDiscarded { step, attempt },
        }));
    }
    Ok((Follow { seen, place: cursor, is_there: false }, told))
}

/// What commits behind a place have changed.
#[derive(Default)]
struct ChangedSince {
    tasks: HashSet<TaskId>,
    approvals: HashSet<ApprovalId>,
}

/// Reads what commits behind a place have changed; none where the place is none that can be gone on from.
async fn changed(
    source: &Source,
    conversation: ConversationId,
    cursor: Cursor,
) -> Result<Option<ChangedSince>> {
    let mut since = ChangedSince::default();
    let mut place = cursor;
    loop {
        let query =
            ChangeQuery { session: cursor.session, epoch: place.epoch, after: place.seq, limit: PAGE };
        let changes = source.store().changes(query).await?;
        if !place.is_kept(&changes) {
            return Ok(None);
        }
        place = place.at(changes.until, &changes);
        let is_all = changes.until == changes.head;
        for change in changes.commits {
            let tasks = change.tasks.into_iter().filter(|task| task.conversation == conversation);
            since.tasks.extend(tasks.map(|task| task.id));
            let approvals = change.approvals.into_iter().filter(|one| one.conversation == conversation);
            since.approvals.extend(approvals.map(|one| one.id));
        }
        if is_all {
            return Ok(Some(since));
        }
    }
}

/// The last entry up to a commit, and the first behind it.
async fn around(
    source: &Source,
    conversation: ConversationId,
    seq: Seq,
) -> Result<(Option<EntryId>, Option<EntryRecord>)> {
    let mut after: Option<EntryRecord> = None;
    loop {
        let before = after.as_ref().map(|entry| entry.id);
        let page = source.entries_before(conversation, before, PAGE).await?;
        let is_last = page.len() < PAGE;
        for entry in page {
            if entry.seq <= seq {
                return Ok((Some(entry.id), after));
            }
            after = Some(entry);
        }
        if is_last {
            return Ok((None, after));
        }
    }
}

/// What a turn was about at a place.
struct Left {
    /// The turn, if one ran.
    turn: Option<TaskId>,
    /// Its first entry, or the last one before it.
    first: EntryId,
    /// The entry of its newest response.
    response: Option<EntryRecord>,
    /// The calls of it that had ended.
    ended: HashSet<CallId>,
}

impl Left {
    /// What ran when an entry was the last.
    async fn of(source: &Source, conversation: ConversationId, last: Option<EntryId>) -> Result<Self> {
        let mut left = Self { turn: None, first: EntryId(0), response: None, ended: HashSet::new() };
        let mut before = last.map(|last| EntryId(last.0 + 1));
        while before.is_some() {
            let page = source.entries_before(conversation, before, PAGE).await?;
            before = page.last().map(|entry| entry.id).filter(|_| page.len() == PAGE);
            for entry in page {
                if !left.take(entry) {
                    return Ok(left);
                }
            }
        }
        Ok(left)
    }

    /// Takes the entry before; whether the one before that counts too.
    fn take(&mut self, entry: EntryRecord) -> bool {
        self.first = entry.id;
        match entry.kind.as_str() {
            kind::TURN => return false,
            kind::USER => {
                let is_steered = |data: &everturn_core::json::RawJson| data.read::<Steered>().is_ok();
                if !entry.data.as_ref().is_some_and(is_steered) && entry.task.is_some() {
                    self.turn = entry.task;
                    return false;
                }
            }
            kind::ASSISTANT if self.response.is_none() => self.response = Some(entry),
            kind::RESULT if self.response.is_none() => {
                self.ended.extend(entry.messages.iter().filter_map(|message| match &**message {
                    Message::Result(result) => Some(result.call.clone()),
                    _ => None,
                }));
            }
            _ => {}
        }
        true
    }

    /// The calls that had not ended.
    fn open_calls(&self) -> Vec<CallId> {
        if self.turn.is_none() {
            return Vec::new();
        }
        let mut calls = proposed(self.response.as_slice());
        calls.retain(|call| !self.ended.contains(call));
        calls
    }
}

/// The attempt that may have shown something at a place, where its response was not there yet.
async fn shown(
    source: &Source,
    conversation: ConversationId,
    left: &Left,
    after: Option<EntryRecord>,
) -> Result<Option<Attempt>> {
    let mut next = after;
    while let Some(entry) = next {
        if entry.task == left.turn && entry.kind == kind::ASSISTANT {
            return Ok(attempt(&entry));
        }
        if entry.kind == kind::TURN {
            return Ok(None);
        }
        next = source.entries_after(conversation, entry.id, 1).await?.pop();
    }
    let partial = source.document::<Partial>(conversation).await?.map(|(partial, _)| partial);
    let partial = partial.filter(|partial| partial.turn == left.turn && !partial.is_waiting());
    Ok(partial.map(|partial| Attempt { step: partial.step, attempt: partial.attempt }))
}

fn attempt(entry: &EntryRecord) -> Option<Attempt> {
    entry.data.as_ref().and_then(|data| data.read().ok())
}
