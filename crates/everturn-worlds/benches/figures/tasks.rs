//! What tasks cost: a step beside its commit, ten thousand that sleep, a thousand that are due at once.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn::{
    Extension, Harness, LiveSession, NewTask, SessionSpec, Settings, Step, SystemClock, Task, TaskContext,
    TaskError,
    clock::{Clock, Timestamp},
    entry::Entry,
    id::ConversationId,
    store::Store,
};
use tokio::runtime::Runtime;

use crate::{
    measure::{Stopwatch, cpu_us_of, median},
    scene::{Scene, memory, on, open, runtime},
    table::{Row, Table},
};

const ROOT: ConversationId = ConversationId::ROOT;

/// Windows, and how many steps or commits each has.
const WINDOWS: usize = 20;
const STEPS: u32 = 500;

/// How many sleep, and for how long the machine is watched meanwhile.
const SLEEPING: usize = 10_000;
const WATCHED: Duration = Duration::from_secs(3);

/// How many are due at once, and how many may run at once.
const DUE: usize = 1_000;
const RUNNING: usize = 256;

/// A task whose steps do nothing.
struct Empty;

impl Task for Empty {
    const NAME: &'static str = "bench.empty";
    type Input = u32;
    type State = u32;
    type Output = u32;

    fn start(&self, _: &u32) -> u32 {
        0
    }

    async fn step(&self, _: &TaskContext, steps: &u32, done: u32) -> Result<Step<Self>, TaskError> {
        Ok(if done == *steps { Step::done(done) } else { Step::go(done + 1) })
    }
}

/// A task that sleeps until a moment and then notes its name.
struct Sleeper(Arc<Mutex<Vec<String>>>);

impl Task for Sleeper {
    const NAME: &'static str = "bench.sleeper";
    type Input = (Timestamp, String);
    type State = bool;
    type Output = ();

    fn start(&self, _: &(Timestamp, String)) -> bool {
        false
    }

    async fn step(
        &self,
        _: &TaskContext,
        (until, name): &(Timestamp, String),
        is_over: bool,
    ) -> Result<Step<Self>, TaskError> {
        if !is_over {
            return Ok(Step::sleep(*until, true));
        }
        self.0.lock().expect("nobody panics").push(name.clone());
        Ok(Step::done(()))
    }
}

pub(crate) fn figure(table: &mut Table) {
    let runtime = runtime();
    step(table, &runtime);
    sleeping(table, &runtime);
    due(table, &runtime);
}

async fn host(store: &Store, extension: Extension) -> Harness {
    let settings = Settings { running_max: RUNNING, ..Settings::default() };
    let builder = Harness::builder(store.clone()).settings(settings).install(extension);
    builder.expect("a task").open().await.expect("a harness")
}

async fn session(harness: &Harness) -> LiveSession {
    harness.create(SessionSpec::default()).await.expect("a session")
}

/// CPU of a step beside that of a commit of about the same bytes, in turns.
fn step(table: &mut Table, runtime: &Runtime) {
    let scene = Scene::new();
    let file = scene.file();
    let [in_memory, on_disk] = on(runtime, async move {
        let mut sessions = Vec::new();
        for store in [memory(), open(&file).await] {
            sessions.push(session(&host(&store, Extension::new("bench").task(Empty)).await).await);
        }
        <[LiveSession; 2]>::try_from(sessions).expect("two")
    });
    for (where_, live) in [("in memory", in_memory), ("on SQLite", on_disk)] {
        let (mut steps, mut commits) = (Vec::new(), Vec::new());
        let before = live.head().0;
        for _ in 0..WINDOWS {
            steps.push(cpu_us_of(|| run_steps(runtime, &live)).0 / f64::from(STEPS));
            commits.push(cpu_us_of(|| run_commits(runtime, &live)).0 / f64::from(STEPS));
        }
        let windows = u64::try_from(WINDOWS).expect("few");
        // Creating the task, its steps, its end; and the plain commits.
        let per_step =
            (live.head().0 - before - windows * (u64::from(STEPS) + 2)) / (windows * u64::from(STEPS));
        let beside: Vec<f64> = steps.iter().zip(&commits).map(|(step, commit)| step - commit).collect();
        let us = median(&beside);
        table.row(Row {
            figure: "tasks",
            what: format!("CPU of an empty step beside its commit, {where_}"),
            measured: format!("{us:.1} us ({per_step} commit)"),
            target: "≤ 30 us",
            raw: format!("{:.1} us: a plain commit of an entry", median(&commits)),
            is_reached: us <= 30.0 && per_step == 1,
        });
    }
}

fn run_steps(runtime: &Runtime, live: &LiveSession) {
    let live = live.clone();
    on(runtime, async move {
        let task = live.start_task::<Empty>(ROOT, &STEPS).await.expect("a task");
        assert!(task.ended().await.expect("an end").outcome().is_completed());
    });
}

fn run_commits(runtime: &Runtime, live: &LiveSession) {
    let live = live.clone();
    on(runtime, async move {
        for n in 0..STEPS {
            let mut tx = live.begin().await.expect("the line");
            tx.append(ROOT, Entry::new("bench.note").data(format!("{n:0200}"))).expect("an entry");
            tx.commit().await.expect("a commit");
        }
    });
}

/// CPU of an open session while ten thousand of its tasks sleep.
fn sleeping(table: &mut Table, runtime: &Runtime) {
    let log = Arc::default();
    let (idle, full) = on(runtime, async move {
        let harness = host(&memory(), Extension::new("bench").task(Sleeper(log))).await;
        let (idle, full) = (session(&harness).await, session(&harness).await);
        start(&full, SLEEPING, SystemClock.now() + Duration::from_secs(86_400), "asleep").await;
        idle.quiescent().await.expect("it rests");
        full.quiescent().await.expect("it rests");
        (idle, full)
    });
    let watch = || on(runtime, async { SystemClock.sleep(WATCHED).await });
    let with = cpu_us_of(watch).0;
    on(runtime, async move { full.close().await.expect("it closes") });
    let without = cpu_us_of(watch).0;
    drop(idle);
    let (with, without) = (with / WATCHED.as_secs_f64(), without / WATCHED.as_secs_f64());
    table.row(Row {
        figure: "tasks",
        what: format!("CPU per second of a session with {SLEEPING} sleeping tasks, beside an idle one"),
        measured: format!("{:.0} us", with - without),
        target: "≤ 1,000 us",
        raw: format!("{without:.0} us: the process with one idle session"),
        is_reached: with - without <= 1_000.0,
    });
}

async fn start(live: &LiveSession, count: usize, until: Timestamp, name: &str) {
    live.resume();
    let mut tx = live.begin().await.expect("the line");
    for _ in 0..count {
        let task = NewTask::of::<Sleeper>(ROOT, &(until, name.to_owned())).expect("a task");
        tx.create_task(task).expect("a task");
    }
    tx.commit().await.expect("a commit");
}

/// A thousand tasks of one session and one of another are due at the same moment.
fn due(table: &mut Table, runtime: &Runtime) {
    let scene = Scene::new();
    let file = scene.file();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = log.clone();
    let (cpu, us) = on(runtime, async move {
        let store = open(&file).await;
        let harness = host(&store, Extension::new("bench").task(Sleeper(noted))).await;
        let (flood, single) = (session(&harness).await, session(&harness).await);
        let until = SystemClock.now() + Duration::from_secs(3);
        start(&flood, DUE, until, "flood").await;
        start(&single, 1, until, "single").await;
        flood.quiescent().await.expect("all sleep");
        single.quiescent().await.expect("it sleeps");
        SystemClock.sleep(until.since(SystemClock.now())).await;
        let watch = Stopwatch::start();
        let before = crate::measure::cpu();
        flood.root().wait_idle().await.expect("all end");
        single.root().wait_idle().await.expect("it ends");
        ((crate::measure::cpu() - before).as_secs_f64() * 1e6, watch.us())
    });
    let noted = log.lock().expect("nobody panics");
    let before = noted.iter().position(|name| name == "single").expect("it ran");
    table.row(Row {
        figure: "tasks",
        what: format!("of {DUE} due at once, how many began before the one of another session"),
        measured: format!("{before}"),
        target: "≤ 256",
        raw: "256: what may run at once".into(),
        is_reached: before <= RUNNING && noted.len() == DUE + 1,
    });
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    let each = cpu / DUE as f64;
    table.note(format!(
        "tasks: the {DUE} that were due at once had ended {:.0} ms later, with {each:.0} us of CPU each (a step and its \
         commit on SQLite, one after the other in the session's line).",
        us / 1e3
    ));
}
