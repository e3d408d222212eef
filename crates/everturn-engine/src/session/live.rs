//! What lives in a session: its tasks, how they hang together, which of them can go on, and when the next one does; and the
//! questions that are open.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use everturn_core::{
    approval::ApprovalRecord,
    clock::Timestamp,
    id::{ApprovalId, ConversationId, SubmissionId, TaskId},
    submission::{SubmissionRecord, SubmissionState},
    task::{
        Facts, Next, TaskRecord, TaskState, next,
        tree::{self, Above, Forest},
    },
};

/// Live tasks and submissions, and open approvals. What is asked often is kept ready, so that a commit costs what it changes, and not what
/// lives.
#[derive(Default)]
pub(crate) struct Live {
    tasks: BTreeMap<TaskId, Arc<TaskRecord>>,
    pub(crate) submissions: BTreeMap<SubmissionId, Arc<SubmissionRecord>>,
    /// Open ones.
    approvals: BTreeMap<ApprovalId, Arc<ApprovalRecord>>,
    /// The open approvals that a task waits for.
    asked_by: HashMap<TaskId, BTreeSet<ApprovalId>>,
    below: HashMap<Above, BTreeSet<TaskId>>,
    waiters: HashMap<TaskId, BTreeSet<TaskId>>,
    /// The live tasks of each kind.
    kinds: HashMap<String, BTreeSet<TaskId>>,
    /// How many live tasks work for a conversation, and whose work it is.
    places: HashMap<ConversationId, (usize, Option<TaskId>)>,
    owned: HashMap<TaskId, BTreeSet<ConversationId>>,
    /// Tasks that can go on at once.
    able: BTreeSet<TaskId>,
    /// Tasks that can go on at a moment.
    timers: BTreeSet<(Timestamp, TaskId)>,
}

impl Live {
    /// A live task.
    pub(crate) fn task(&self, id: TaskId) -> Option<&Arc<TaskRecord>> {
        self.tasks.get(&id)
    }

    /// How many tasks live.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// All live tasks, in the order of their ids.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &Arc<TaskRecord>> {
        self.tasks.values()
    }

    /// The live tasks of a kind, in the order of their ids.
    pub(crate) fn of_kind(&self, kind: &str) -> Vec<TaskId> {
        self.kinds.get(kind).map_or_else(Vec::new, |ids| ids.iter().copied().collect())
    }

    /// Whether a conversation is anyone's place: something runs, rests or waits in it.
    pub(crate) fn is_used(&self, conversation: ConversationId) -> bool {
        self.places.contains_key(&conversation)
            || self.submissions.values().any(|one| one.conversation == conversation)
    }

    /// Whether nothing ordinary runs and nothing waits in a conversation.
    pub(crate) fn is_idle(&self, conversation: ConversationId) -> bool {
        !tree::is_busy(self, conversation)
            && self.submissions.values().all(|one| one.conversation != conversation)
    }

    /// The turn's submissions that have not ended.
    pub(crate) fn placed_in(&self, turn: TaskId) -> impl Iterator<Item = &Arc<SubmissionRecord>> {
        let is_its = move |one: &&Arc<SubmissionRecord>| match one.state {
            SubmissionState::Placed(place) => place.turn == turn,
            _ => false,
        };
        self.submissions.values().filter(is_its)
    }

    /// An open approval.
    pub(crate) fn approval(&self, id: ApprovalId) -> Option<&Arc<ApprovalRecord>> {
        self.approvals.get(&id)
    }

    /// All open approvals, in the order of their ids.
    pub(crate) fn approvals(&self) -> impl Iterator<Item = &Arc<ApprovalRecord>> {
        self.approvals.values()
    }

    /// The open approvals that a task waits for.
    pub(crate) fn asked_by(&self, call: TaskId) -> impl Iterator<Item = ApprovalId> {
        self.asked_by.get(&call).into_iter().flatten().copied()
    }

    /// Takes an approval as it was committed.
    pub(super) fn put_approval(&mut self, approval: Arc<ApprovalRecord>) {
        let (id, call) = (approval.id, approval.call);
        if approval.is_open() {
            self.asked_by.entry(call).or_default().insert(id);
            self.approvals.insert(id, approval);
        } else {
            self.approvals.remove(&id);
            remove(&mut self.asked_by, &call, &id);
        }
    }

    /// The tasks that can go on at once, those behind one first.
    pub(crate) fn able(&self, behind: TaskId) -> impl Iterator<Item = TaskId> {
        let later = self.able.range((Bound::Excluded(behind), Bound::Unbounded));
        later.chain(self.able.range(..=behind)).copied()
    }

    /// The tasks whose moment has come.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = TaskId> {
        self.timers.range(..=(now, TaskId(u64::MAX))).map(|(_, id)| *id)
    }

    /// When tasks go on by themselves, the soonest first.
    pub(crate) fn timers(&self) -> impl Iterator<Item = (Timestamp, TaskId)> {
        self.timers.iter().copied()
    }

    /// Takes a task as it was committed; `owner` is the task whose work its conversation is.
    pub(super) fn put(&mut self, task: &Arc<TaskRecord>, owner: Option<TaskId>) {
        let (id, above) = (task.id, Above::of(task));
        let before = self.tasks.get(&id).cloned();
        if let Some(before) = &before {
            self.unlink(before);
        }
        let was_live = before.is_some();
        if task.is_live() {
            self.link(task, owner);
        }
        let waiters: Vec<TaskId> = match was_live == task.is_live() {
            true => Vec::new(),
            false => Forest::waiters(self, id),
        };
        let above = match above {
            Above::Task(above) => Some(above),
            Above::Conversation(_) => owner,
        };
        for id in [id].into_iter().chain(waiters).chain(above) {
            self.sort(id);
        }
    }

    fn link(&mut self, task: &Arc<TaskRecord>, owner: Option<TaskId>) {
        let (id, conversation) = (task.id, task.conversation);
        self.tasks.insert(id, task.clone());
        self.below.entry(Above::of(task)).or_default().insert(id);
        for member in task.members() {
            self.waiters.entry(*member).or_default().insert(id);
        }
        match self.kinds.get_mut(&task.kind) {
            Some(ids) => _ = ids.insert(id),
            None => _ = self.kinds.insert(task.kind.clone(), BTreeSet::from([id])),
        }
        let place = self.places.entry(conversation).or_insert((0, owner));
        place.0 += 1;
        if let (1, Some(owner)) = *place {
            self.owned.entry(owner).or_default().insert(conversation);
        }
    }

    fn unlink(&mut self, task: &TaskRecord) {
        let (id, conversation) = (task.id, task.conversation);
        self.tasks.remove(&id);
        remove(&mut self.below, &Above::of(task), &id);
        for member in task.members() {
            remove(&mut self.waiters, member, &id);
        }
        remove(&mut self.kinds, &task.kind, &id);
        if let Some((count, owner)) = self.places.get_mut(&conversation) {
            *count -= 1;
            if let (0, owner) = (*count, *owner) {
                self.places.remove(&conversation);
                owner.into_iter().for_each(|owner| remove(&mut self.owned, &owner, &conversation));
            }
        }
        self.unsort(task);
    }

    /// Puts a task where it belongs: among those that can go on, at once or at a moment, or nowhere.
    fn sort(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(&id).cloned() else { return };
        self.unsort(&task);
        match timeless(self, &task) {
            Next::Step | Next::Abort | Next::TimeOut => drop(self.able.insert(id)),
            Next::At(moment) => drop(self.timers.insert((moment, id))),
            Next::Rest => {}
        }
    }

    fn unsort(&mut self, task: &TaskRecord) {
        self.able.remove(&task.id);
        if let TaskState::Sleeping { until, .. } | TaskState::Listening { until: Some(until), .. } =
            task.state
        {
            self.timers.remove(&(until, task.id));
        }
    }
}

/// What comes next for a task, before any moment has come.
pub(super) fn timeless(forest: &impl Forest, task: &TaskRecord) -> Next {
    facts(forest, task, Timestamp(i64::MIN)).next(task)
}

/// A decision's facts, as a forest has them.
pub(crate) fn facts(forest: &impl Forest, task: &TaskRecord, now: Timestamp) -> Known {
    Known(Facts {
        now,
        are_members_live: task.abort.is_none() && task.members().iter().any(|id| forest.task(*id).is_some()),
        is_busy_below: task.abort.is_some() && tree::is_busy_below(forest, task.id),
    })
}

/// Facts that were looked up.
pub(crate) struct Known(Facts);

impl Known {
    /// What comes next by them.
    pub(crate) fn next(&self, task: &TaskRecord) -> Next {
        next(task, self.0)
    }
}

fn remove<K: std::hash::Hash + Eq, V: Ord>(sets: &mut HashMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

fn listed<K: std::hash::Hash + Eq, V: Copy>(sets: &HashMap<K, BTreeSet<V>>, key: &K) -> Vec<V> {
    sets.get(key).map_or_else(Vec::new, |set| set.iter().copied().collect())
}

impl Forest for Live {
    fn task(&self, id: TaskId) -> Option<Arc<TaskRecord>> {
        self.tasks.get(&id).cloned()
    }

    fn below(&self, above: Above) -> Vec<TaskId> {
        listed(&self.below, &above)
    }

    fn any_below(&self, above: Above, wanted: &dyn Fn(&TaskRecord) -> bool) -> bool {
        let below = self.below.get(&above).into_iter().flatten();
        below.filter_map(|id| self.tasks.get(id)).any(|task| wanted(task))
    }

    fn owned(&self, task: TaskId) -> Vec<ConversationId> {
        listed(&self.owned, &task)
    }

    fn owner(&self, conversation: ConversationId) -> Option<TaskId> {
        self.places.get(&conversation).and_then(|(_, owner)| *owner)
    }

    fn waiters(&self, on: TaskId) -> Vec<TaskId> {
        listed(&self.waiters, &on)
    }

    fn put(&mut self, task: TaskRecord) {
        let owner = Forest::owner(self, task.conversation);
        Live::put(self, &Arc::new(task), owner);
    }
}
