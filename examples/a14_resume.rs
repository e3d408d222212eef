//! A ticker, closed right after tick 2 took effect and before its checkpoint: opened again, tick 2 runs again, and its memo
//! keeps it from happening twice. It counts to 5; also when the process is killed instead of closed.
//!
//! With a directory it is one life of a process, which is killed by `abort` in tick 2; run again, it counts to the end.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, abort},
    sync::Arc,
    time::Duration,
};

use everturn::{
    Error, Extension, Harness, LiveSession, SessionSpec, Step, Task, TaskContext, TaskError, World,
    id::{ConversationId, TaskId},
    storage::TaskQuery,
    store::{self, Options},
};
use tokio::sync::Notify;

struct Ticker {
    diary: Diary,
    /// Told in tick 2 of the first life. Without it that life is killed there.
    in_tick_2: Option<Arc<Notify>>,
}

impl Task for Ticker {
    const NAME: &'static str = "example.ticker";
    type Input = u32;
    type State = u32;
    type Output = u32;

    fn start(&self, _: &u32) -> u32 {
        1
    }

    async fn step(&self, cx: &TaskContext, last: &u32, tick: u32) -> Result<Step<Self>, TaskError> {
        self.diary.write(&format!("tick {tick} runs"))?;
        let effect = || async { self.diary.write_once(&format!("tick {tick} happens")) };
        cx.memo(&format!("tick {tick}"), effect).await?;
        if tick == 2 && !cx.was_entered() {
            let Some(in_tick_2) = &self.in_tick_2 else { abort() };
            in_tick_2.notify_one();
            cx.cancel().cancelled().await;
            return Err(Error::closed("the session closes before the checkpoint").into());
        }
        Ok(if tick == *last { Step::done(tick) } else { Step::sleep(cx.now() + PAUSE, tick + 1) })
    }
}

const PAUSE: Duration = Duration::from_millis(5);

#[tokio::main]
async fn main() -> everturn::Result<()> {
    if let Some(directory) = std::env::args().nth(1) {
        let session = open(Path::new(&directory), None).await?;
        return count(&session, Path::new(&directory)).await;
    }
    // Closed.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let in_tick_2 = Arc::new(Notify::new());
    let session = open(directory.path(), Some(in_tick_2.clone())).await?;
    begun(&session).await?;
    session.resume();
    in_tick_2.notified().await;
    session.close().await?;
    drop(session);
    let session = open(directory.path(), Some(in_tick_2)).await?;
    count(&session, directory.path()).await?;
    let happened = Diary::of(directory.path()).lines();
    let again = ["tick 2 runs", "tick 2 happens", "tick 2 runs", "tick 3 runs"];
    assert_eq!(happened[2..6], again, "it ran again and did not happen again");

    // Killed.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = std::env::current_exe().expect("this program");
    let life = || Command::new(&program).arg(directory.path()).status().expect("this program runs").code();
    assert_eq!([life(), life()], [None, Some(0)], "the first life is killed, the second counts to the end");
    assert_eq!(Diary::of(directory.path()).lines(), happened, "to the letter as when it was closed");
    Ok(())
}

async fn open(directory: &Path, in_tick_2: Option<Arc<Notify>>) -> everturn::Result<LiveSession> {
    let url = format!("sqlite:{}", directory.join("store.db").display());
    let store = store::open(&url, Options::new(World::system().owner())).await?;
    let ticker = Extension::new("ticker").task(Ticker { diary: Diary::of(directory), in_tick_2 });
    let harness = Harness::builder(store).install(ticker)?.open().await?;
    harness.create(SessionSpec { request: Some("ticks".into()), ..SessionSpec::default() }).await
}

/// The ticker of the session, made the first time.
async fn begun(session: &LiveSession) -> everturn::Result<TaskId> {
    let all = TaskQuery { session: session.id(), live: false, ids: None, owner: None };
    match session.store().tasks(all).await?.first() {
        Some(begun) => Ok(begun.id),
        None => Ok(session.start_task::<Ticker>(ConversationId::ROOT, &5).await?.id()),
    }
}

async fn count(session: &LiveSession, directory: &Path) -> everturn::Result<()> {
    let counted = session.task::<Ticker>(begun(session).await?).ended().await?.output()?;
    session.close().await?;
    let mut happened = Diary::of(directory).lines();
    happened.retain(|line| line.ends_with("happens"));
    assert_eq!(happened, [1, 2, 3, 4, 5].map(|tick| format!("tick {tick} happens")));
    println!("counted to {counted:?}, each tick once");
    Ok(())
}

/// What happens outside, where no transaction reaches.
struct Diary(PathBuf);

impl Diary {
    fn of(directory: &Path) -> Self {
        Self(directory.join("diary"))
    }

    fn write(&self, line: &str) -> io::Result<()> {
        File::options().create(true).append(true).open(&self.0)?.write_all(format!("{line}\n").as_bytes())
    }

    /// For whoever is killed between an effect and its memo: the far side knows what it has.
    fn write_once(&self, line: &str) -> io::Result<()> {
        if self.lines().iter().any(|known| known == line) { Ok(()) } else { self.write(line) }
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}
