//! What lives in a session and how it hangs together, for people and programs that look.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use everturn_core::{
    Error, Result,
    clock::Timestamp,
    id::{ConversationId, Seq, TaskId},
    storage::{Part, View, ViewQuery},
    task::{Blocked, TaskRecord, TaskState, tree::Above},
};
use tokio::sync::watch as latest;

use super::Runner;
use crate::SessionReader;

/// The live tasks of a session at one moment.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{memory::Memory, storage::Store};
/// # use everturn_engine::{Harness, SessionSpec};
/// # let harness = Harness::builder(Store::new(Memory::new())).open().await?;
/// let session = harness.create(SessionSpec::default()).await?;
/// let graph = session.inspect().await?;
/// assert!(graph.tasks.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskGraph {
    /// The last commit that it tells of.
    pub head: Seq,
    /// All live tasks, in the order of their ids.
    pub tasks: Vec<TaskView>,
}

/// A live task.
///
/// ```
/// use everturn_core::{clock::Timestamp, id::{ConversationId, TaskId}, task::TaskRecord};
/// use everturn_engine::task::{Status, TaskView};
/// let record = TaskRecord::new(TaskId(5), ConversationId::ROOT, "app.pay", Timestamp(0));
/// let view = TaskView { record: record.into(), status: Status::Ready, conversations: Vec::new() };
/// assert_eq!(view.status.to_string(), "ready");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TaskView {
    /// Its record.
    pub record: Arc<TaskRecord>,
    /// What it does.
    pub status: Status,
    /// The conversations that it owns.
    pub conversations: Vec<ConversationId>,
}

/// What a live task does.
///
/// ```
/// use everturn_core::id::TaskId;
/// use everturn_engine::task::Status;
/// assert_eq!(Status::Waiting { on: vec![TaskId(7), TaskId(9)] }.to_string(), "waiting on 7, 9");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Its code runs at this moment. Only the owner of the session knows.
    Running,
    /// It runs as soon as there is room.
    Ready,
    /// It waits for a moment.
    Sleeping {
        /// The moment.
        until: Timestamp,
    },
    /// It waits for tasks.
    Waiting {
        /// Which.
        on: Vec<TaskId>,
    },
    /// It waits for a signal.
    Listening {
        /// Its name.
        signal: String,
        /// No longer than until then.
        until: Option<Timestamp>,
    },
    /// It was told to stop, and waits for the work below it to end.
    Stopping,
    /// How it ends is settled, and the work below it has not ended.
    Completing,
    /// It waits for code.
    Blocked(Blocked),
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Ready => f.write_str("ready"),
            Self::Sleeping { until } => write!(f, "sleeping until {until}"),
            Self::Waiting { on } => {
                let on: Vec<_> = on.iter().map(ToString::to_string).collect();
                write!(f, "waiting on {}", on.join(", "))
            }
            Self::Listening { signal, until: None } => write!(f, "listening for {signal}"),
            Self::Listening { signal, until: Some(until) } => {
                write!(f, "listening for {signal} until {until}")
            }
            Self::Stopping => f.write_str("stopping"),
            Self::Completing => f.write_str("completing"),
            Self::Blocked(blocked) => write!(f, "blocked, {blocked}"),
        }
    }
}

/// What the owner of a session knows beside the records.
#[derive(Default)]
struct Known {
    running: HashSet<TaskId>,
    /// None for who does not run the session: what the records say counts then.
    blocked: Option<HashMap<TaskId, Blocked>>,
}

impl TaskGraph {
    fn new(view: View, known: &Known) -> Self {
        let mut owned: HashMap<TaskId, Vec<ConversationId>> = HashMap::new();
        for conversation in &view.conversations {
            owned.entry(conversation.owner.unwrap_or_default()).or_default().push(conversation.id);
        }
        let tasks = view.tasks.into_iter().map(|task| TaskView {
            status: known.status(&task),
            conversations: owned.remove(&task.id).unwrap_or_default(),
            record: Arc::new(task),
        });
        Self { head: view.head, tasks: tasks.collect() }
    }

    /// A task of it.
    pub fn task(&self, id: TaskId) -> Option<&TaskView> {
        self.tasks.iter().find(|task| task.record.id == id)
    }

    /// The tasks that hang on nothing of the graph: those of conversations that no live task owns, and those whose owner
    /// has ended.
    pub fn roots(&self) -> Vec<&TaskView> {
        let is_root = |task: &&TaskView| match Above::of(&task.record) {
            Above::Task(owner) => self.task(owner).is_none(),
            Above::Conversation(id) => self.tasks.iter().all(|task| !task.conversations.contains(&id)),
        };
        self.tasks.iter().filter(is_root).collect()
    }

    /// The tasks directly below one, those in its conversations included.
    pub fn below(&self, id: TaskId) -> Vec<&TaskView> {
        let owned = self.task(id).map_or(&[][..], |task| &task.conversations);
        let is_below = |task: &&TaskView| match Above::of(&task.record) {
            Above::Task(owner) => owner == id,
            Above::Conversation(conversation) => owned.contains(&conversation),
        };
        self.tasks.iter().filter(is_below).collect()
    }
}

impl Known {
    fn status(&self, task: &TaskRecord) -> Status {
        let blocked = match &self.blocked {
            Some(blocked) => blocked.get(&task.id),
            None => task.blocked.as_ref(),
        };
        match (&task.state, blocked) {
            _ if self.running.contains(&task.id) => Status::Running,
            (TaskState::Completing { .. } | TaskState::Ended { .. }, _) => Status::Completing,
            _ if task.abort.is_some() => Status::Stopping,
            (_, Some(blocked)) => Status::Blocked(blocked.clone()),
            (TaskState::Sleeping { until, .. }, _) => Status::Sleeping { until: *until },
            (TaskState::Waiting { on, .. }, _) => Status::Waiting { on: on.clone() },
            (TaskState::Listening { signal, until, .. }, _) => {
                Status::Listening { signal: signal.clone(), until: *until }
            }
            _ => Status::Ready,
        }
    }
}

impl Runner {
    /// What lives now.
    pub(crate) async fn inspect(&self) -> Result<TaskGraph> {
        let session = self.session.id();
        let view = self.session.store().view(ViewQuery { session, part: Part::Tasks }).await?;
        Ok(TaskGraph::new(view, &Known { running: self.running(), blocked: self.blocked() }))
    }
}

impl SessionReader {
    /// What lives in the session, as its records say: what runs at this moment only its owner knows. Writes nothing.
    pub async fn inspect(&self) -> Result<TaskGraph> {
        let view = self.store().view(ViewQuery { session: self.row().id, part: Part::Tasks }).await?;
        Ok(TaskGraph::new(view, &Known::default()))
    }
}

/// Follows what lives in a session.
///
/// Promise: each graph is newer than the one before and differs from it; a slow follower gets the newest.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> everturn_core::Result<()> {
/// # use everturn_core::{memory::Memory, storage::Store};
/// # use everturn_engine::{Harness, SessionSpec};
/// # let harness = Harness::builder(Store::new(Memory::new())).open().await?;
/// # let session = harness.create(SessionSpec::default()).await?;
/// let mut graphs = session.task_graph();
/// assert!(graphs.next().await?.tasks.is_empty(), "the first is what lives now");
/// # Ok(()) }
/// ```
pub struct GraphWatch {
    runner: Arc<Runner>,
    beats: latest::Receiver<u64>,
    head: latest::Receiver<Seq>,
    last: Option<TaskGraph>,
}

impl GraphWatch {
    pub(crate) fn new(runner: Arc<Runner>) -> Self {
        let (beats, head) = (runner.beats(), runner.session.0.head.subscribe());
        Self { runner, beats, head, last: None }
    }

    /// The next graph. Waiting can be given up at any time and loses nothing.
    ///
    /// Errors: why the session was shut; what storage says.
    pub async fn next(&mut self) -> Result<TaskGraph> {
        loop {
            self.beats.borrow_and_update();
            self.head.borrow_and_update();
            let shut: Option<Error> = self.runner.session.0.check_open().err();
            let graph = self.runner.inspect().await?;
            let is_news = self.last.as_ref().is_none_or(|last| last.tasks != graph.tasks);
            if is_news {
                self.last = Some(graph.clone());
                return Ok(graph);
            }
            if let Some(why) = shut {
                return Err(why);
            }
            // The runner and its session own the senders.
            tokio::select! {
                _ = self.beats.changed() => {}
                _ = self.head.changed() => {}
            }
        }
    }
}

impl std::fmt::Debug for GraphWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GraphWatch({})", self.runner.session.id())
    }
}
