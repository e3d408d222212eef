//! The inbox of a conversation: what waits, and how it leaves the queue. Each that waits leaves it once.

use std::{collections::BTreeSet, sync::Arc};

use everturn_core::{
    Result,
    clock::Timestamp,
    entry::{Entry, kind},
    id::{ConversationId, EntryId, SubmissionId, TaskId},
    message::{Message, User},
    submission::{Delivery, End, Late, Place, Queued, SubmissionRecord, SubmissionState},
};
use serde::{Deserialize, Serialize};

use super::{
    Shared,
    input::{TurnOptions, Written},
    turn,
};
use crate::{Transaction, session::check_entry};

/// Why inputs are returned to a conversation that takes no more work.
pub(super) const GONE: &str = "what the conversation belongs to has ended";

/// Why inputs are returned that waited for what has ended without a word.
const LEFT: &str = "what ran before it broke off";

/// Why an input is returned that has waited for longer than it may.
const OVERDUE: &str = "its deadline has passed while it waited";

/// How many of those that wait leave the queue at once.
///
/// ```
/// use everturn_engine::QueueMode;
/// assert_ne!(QueueMode::One, QueueMode::All);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueMode {
    /// The oldest.
    One,
    /// All of them, in order.
    All,
}

impl QueueMode {
    fn of(self, mut waiting: Vec<Arc<SubmissionRecord>>) -> Vec<Arc<SubmissionRecord>> {
        if self == Self::One {
            waiting.truncate(1);
        }
        waiting
    }
}

/// Data of the entry of an input that was placed in a turn under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Steered {
    pub(super) steer: SubmissionId,
}

/// What waits in a conversation.
impl Transaction {
    /// What waits in a conversation, oldest first, as it stands in this transaction.
    pub(super) fn queued(&self, conversation: ConversationId) -> Vec<Arc<SubmissionRecord>> {
        let live: Vec<_> = self.session().0.state().live.submissions.keys().copied().collect();
        let live = live.into_iter().filter_map(|id| self.submission(id));
        live.filter(|one| one.conversation == conversation && one.queued().is_some()).collect()
    }

    fn waiting(
        &self,
        conversation: ConversationId,
        wanted: impl Fn(&Queued) -> bool,
    ) -> Vec<Arc<SubmissionRecord>> {
        let mut queued = self.queued(conversation);
        queued.retain(|one| one.queued().is_some_and(&wanted));
        queued
    }

    /// Stages what is handed to a conversation in which no turn runs. While files are restored, no turn begins: it waits.
    pub(super) async fn begin_with(&mut self, shared: &Shared, submission: SubmissionRecord) -> Result<()> {
        match submission.queued().map(|queued| queued.delivery) {
            Some(Delivery::Write) => self.place_write(&submission),
            Some(Delivery::Steer { late: Late::Return, .. }) => {
                self.settle(&submission, End::Returned { reason: "no turn runs that it could steer".into() });
                Ok(())
            }
            _ if self.undoing().is_some() => self.enqueue(submission),
            _ => turn::admit(shared, self, submission).await,
        }
    }

    /// Stages what is handed to a conversation, whether or not a turn runs in it.
    pub(super) async fn hand_over(&mut self, shared: &Shared, submission: SubmissionRecord) -> Result<()> {
        match self.live_turn(submission.conversation) {
            None => self.begin_with(shared, submission).await,
            Some(turn) => {
                if let Some(reason) = declining(&submission) {
                    self.decline(shared, turn.id, (&reason, &submission.actor)).await?;
                }
                self.enqueue(submission)
            }
        }
    }

    /// Stages what waits. It must fit when it is placed: then there is nobody left to tell.
    pub(super) fn enqueue(&mut self, submission: SubmissionRecord) -> Result<()> {
        check_entry(&said(&submission), self.limits())?;
        if let Some(entry) = submission.queued().and_then(|queued| queued.entry.as_ref()) {
            check_entry(&entry.read::<Written>()?.into_entry()?, self.limits())?;
        }
        if let Some(deadline) = deadline_of(&submission) {
            self.set_queue_deadline(submission.conversation, deadline)?;
        }
        self.put_submission(submission);
        Ok(())
    }

    /// Stages the end of a submission that came to no turn.
    pub(super) fn settle(&mut self, submission: &SubmissionRecord, end: End) {
        self.stop_timer(submission);
        self.put_end(submission, end);
    }

    /// Stages that nobody has to look when the deadline of an input passes: it waits no more.
    fn stop_timer(&mut self, submission: &SubmissionRecord) {
        if let Some(deadline) = deadline_of(submission) {
            self.clear_queue_deadline(submission.conversation, deadline);
        }
    }

    fn put_end(&mut self, submission: &SubmissionRecord, end: End) {
        let state = SubmissionState::Settled { end, place: None };
        self.put_submission(SubmissionRecord { state, ..submission.clone() });
    }

    /// What waits in a conversation and has waited for longer than it may.
    fn overdue(&self, conversation: ConversationId) -> Vec<Arc<SubmissionRecord>> {
        let mut overdue = self.queued(conversation);
        overdue.retain(|one| deadline_of(one).is_some_and(|deadline| deadline <= self.time()));
        overdue
    }

    /// Returns what has waited in a conversation for longer than it may. For a timer that has gone off: the others of the
    /// same moment go off too, and find nothing.
    pub(super) fn end_overdue(&mut self, conversation: ConversationId) {
        for late in self.overdue(conversation) {
            self.put_end(&late, End::Returned { reason: OVERDUE.into() });
        }
    }

    /// Appends what waits to be written in a conversation.
    pub(super) fn place_writes(&mut self, conversation: ConversationId) -> Result<()> {
        for write in self.waiting(conversation, |queued| queued.delivery == Delivery::Write) {
            self.place_write(&write)?;
        }
        Ok(())
    }

    /// Appends an entry that was handed over.
    pub(super) fn place_write(&mut self, submission: &SubmissionRecord) -> Result<()> {
        let entry = match submission.queued().and_then(|queued| queued.entry.as_ref()) {
            Some(entry) => entry.read::<Written>()?.into_entry()?,
            None => return Ok(()),
        };
        let entry = self.append(submission.conversation, entry)?;
        self.settle(submission, End::Written { entry });
        Ok(())
    }

    /// Places the steers that wait for a turn, before the request of a step; gives how many.
    pub(super) fn place_steers(
        &mut self,
        shared: &Shared,
        conversation: ConversationId,
        to: (TaskId, u32),
    ) -> Result<usize> {
        let (turn, step) = to;
        let is_steer = |queued: &Queued| matches!(queued.delivery, Delivery::Steer { .. });
        let steers = shared.settings().steers.of(self.waiting(conversation, is_steer));
        for steer in &steers {
            let entry = said(steer).data(Steered { steer: steer.id })?;
            let entry = self.append_for(Some(turn), conversation, entry)?;
            let state = SubmissionState::Placed(Place { turn, entry, step });
            self.put_submission(SubmissionRecord { state, ..SubmissionRecord::clone(steer) });
        }
        Ok(steers.len())
    }

    /// Lets the queue of a conversation go on behind a turn that ended well, or was cancelled.
    pub(super) fn go_on(&mut self, shared: &Shared, conversation: ConversationId) -> Result<()> {
        self.place_writes(conversation)?;
        let is_late = |queued: &Queued| matches!(queued.delivery, Delivery::Steer { late: Late::Return, .. });
        for late in self.waiting(conversation, is_late) {
            self.settle(&late, End::Returned { reason: "the turn that it should steer is over".into() });
        }
        for late in self.overdue(conversation) {
            self.settle(&late, End::Returned { reason: OVERDUE.into() });
        }
        let next = shared.settings().follow_ups.of(self.queued(conversation));
        let Some(first) = next.first().cloned() else { return Ok(()) };
        // Those begin a turn together that want the same of it.
        let options = |one: &SubmissionRecord| one.queued().and_then(|queued| queued.options.clone());
        let together = next.iter().take_while(|one| options(one) == options(&first));
        let together: Vec<_> = together.map(|one| SubmissionRecord::clone(one)).collect();
        together.iter().for_each(|one| self.stop_timer(one));
        turn::admit_later(self, together)
    }

    /// Lets all queues go on before which nothing runs any more.
    pub(super) async fn go_on_all(&mut self, shared: &Shared) -> Result<()> {
        self.let_on(shared, None).await
    }

    /// Returns what waits while nothing runs that it could wait for; what is to be kept goes on.
    pub(super) async fn pick_up(&mut self, shared: &Shared) -> Result<()> {
        if self.undoing().is_some() {
            return Ok(());
        }
        self.let_on(shared, Some(LEFT)).await
    }

    /// Lets the queues go on before which nothing runs; with a reason, what is not to be kept is returned.
    async fn let_on(&mut self, shared: &Shared, reason: Option<&str>) -> Result<()> {
        for conversation in self.left_waiting().await? {
            match (self.takes_work(conversation), reason) {
                (true, None) => self.go_on(shared, conversation)?,
                (true, Some(reason)) => self.give_back(shared, conversation, reason)?,
                (false, _) => self.give_back_all(conversation, GONE)?,
            }
        }
        Ok(())
    }

    /// The conversations in which something waits and no turn runs.
    async fn left_waiting(&self) -> Result<BTreeSet<ConversationId>> {
        let live: Vec<_> = self.session().0.state().live.submissions.keys().copied().collect();
        let live = live.into_iter().filter_map(|id| self.submission(id)).filter(|one| one.queued().is_some());
        let mut left: BTreeSet<_> = live.map(|one| one.conversation).collect();
        left.retain(|conversation| self.live_turn(*conversation).is_none());
        for conversation in &left {
            // Whose work it is has to be known.
            self.conversation(*conversation).await?;
        }
        Ok(left)
    }

    /// Returns what waits behind a turn that failed; what is to be kept goes on.
    pub(super) fn give_back(
        &mut self,
        shared: &Shared,
        conversation: ConversationId,
        reason: &str,
    ) -> Result<()> {
        for queued in self.waiting(conversation, |queued| !queued.keep && queued.entry.is_none()) {
            self.settle(&queued, End::Returned { reason: reason.into() });
        }
        self.go_on(shared, conversation)
    }

    /// Returns all that waits, but for what is to be written.
    pub(super) fn give_back_all(&mut self, conversation: ConversationId, reason: &str) -> Result<()> {
        self.place_writes(conversation)?;
        for queued in self.queued(conversation) {
            self.settle(&queued, End::Returned { reason: reason.into() });
        }
        Ok(())
    }
}

/// The entry of what was said.
pub(super) fn said(submission: &SubmissionRecord) -> Entry {
    let parts = submission.queued().map(|queued| queued.parts.clone()).unwrap_or_default();
    Entry::new(kind::USER).message(Message::User(User { parts }))
}

/// Until when an input may wait for its turn. What is only to be written may for ever.
fn deadline_of(submission: &SubmissionRecord) -> Option<Timestamp> {
    let queued = submission.queued().filter(|queued| queued.entry.is_none())?;
    // What newer code wrote and this cannot read is told when it begins a turn.
    queued.options.as_ref()?.read::<TurnOptions>().ok()?.deadline
}

/// Where an input stands that was placed with a turn's first.
pub(super) fn placed(turn: TaskId, entry: EntryId) -> SubmissionState {
    SubmissionState::Placed(Place { turn, entry, step: 1 })
}

/// The reason with which a steer declines what is asked.
fn declining(submission: &SubmissionRecord) -> Option<String> {
    match submission.queued() {
        Some(Queued { delivery: Delivery::Steer { declining: true, .. }, .. }) => {
            Some(said(submission).text())
        }
        _ => None,
    }
}
