//! Programs that run in a directory.

mod program;
mod tree;

use std::{
    future::Future,
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use everturn_core::{
    CancelToken, Error, Result,
    env::{Exec, Exit},
    tool::Output,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe::Receiver,
    process::{Child, Command},
    select,
    task::JoinSet,
};

pub(super) use self::program::Program;
use self::tree::{Reach, Tree};

/// How long processes that were asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

/// How long output is waited for that only a process that is not ours any more can still write.
const REST: Duration = Duration::from_millis(100);

/// How much output is taken at once.
const CHUNK: usize = 16 * 1024;

/// Runs a program that was looked up until it ends or has to.
pub(super) async fn run(program: Program, exec: Exec) -> Result<Exit> {
    if exec.cancel.is_cancelled() {
        return Ok(Exit { was_cancelled: true, ..Exit::default() });
    }
    let name = exec.argv[0].clone();
    let failed = |fault: io::Error| Error::unavailable(format!("run {name:?}: {fault}")).caused_by(fault);
    let run = Run::start(&program, &exec).map_err(failed)?;
    let dropped = CancelToken::new();
    let _stop = StopOnDrop(dropped.clone());
    // It sees the processes to their end, also when nobody waits for it any more.
    let watched = tokio::spawn(run.watch(exec, dropped));
    watched.await.map_err(io::Error::other).and_then(|exit| exit).map_err(failed)
}

/// Tells whoever watches the processes that nobody waits for them.
struct StopOnDrop(CancelToken);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A program that was started.
struct Run {
    tree: Tree,
    child: Child,
    /// Its output; none once every process that had it has closed it.
    pipe: Option<Receiver>,
    output: Output,
}

/// Why a program was stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Cancelled,
    TimedOut,
    Dropped,
}

impl Run {
    fn start(program: &Program, exec: &Exec) -> io::Result<Self> {
        // One pipe for both, so that what is written comes in the order in which it was written.
        let (reader, writer) = io::pipe()?;
        let mark = tree::Mark::new();
        let mut command = Command::new(&program.file);
        command
            .arg0(&exec.argv[0])
            .args(&exec.argv[1..])
            .env_clear()
            .envs(&program.variables)
            .env(tree::VARIABLE, mark.to_string())
            .current_dir(&program.place)
            .stdin(if exec.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn()?;
        let tree = Tree::new(child.id(), mark);
        Ok(Self {
            child,
            pipe: Some(Receiver::from_owned_fd(reader.into())?),
            output: exec.output.clone(),
            tree,
        })
    }

    /// Waits until the program ends or has to, and leaves nothing of it.
    async fn watch(mut self, exec: Exec, dropped: CancelToken) -> io::Result<Exit> {
        let mut feeding = JoinSet::new();
        if let Some(mut stdin) = self.child.stdin.take() {
            // What the program does not read is lost, as it would be in a shell.
            feeding.spawn(async move { stdin.write_all(&exec.stdin).await });
        }
        let stop = select! {
            biased;
            ended = self.ended() => ended.map(|_| None)?,
            () = exec.cancel.cancelled() => Some(Stop::Cancelled),
            () = dropped.cancelled() => Some(Stop::Dropped),
            () = passed(exec.deadline) => Some(Stop::TimedOut),
        };
        if stop == Some(Stop::Dropped) {
            self.output = Output::default();
        }
        // A program that has ended may leave a service behind on purpose, in a group of its own.
        let reach = if stop.is_some() { Reach::All } else { Reach::Group };
        self.tree.ask(reach).await;
        let _ = within(GRACE, self.quiet()).await;
        self.tree.kill(reach).await;
        let status = self.ended().await?;
        let _ = within(REST, self.quiet()).await;
        self.tree.is_over();
        Ok(Exit {
            code: status.code(),
            signal: status.signal(),
            timed_out: stop == Some(Stop::TimedOut),
            was_cancelled: matches!(stop, Some(Stop::Cancelled | Stop::Dropped)),
        })
    }

    /// Hands output on until the program itself has ended.
    async fn ended(&mut self) -> io::Result<ExitStatus> {
        let mut buffer = [0; CHUNK];
        loop {
            select! {
                status = self.child.wait() => return status,
                got = read(&mut self.pipe, &mut buffer), if self.pipe.is_some() => {
                    self.output.write(&buffer[..got]);
                }
            }
        }
    }

    /// Hands output on until nobody can write any more.
    async fn quiet(&mut self) -> io::Result<()> {
        self.ended().await?;
        let mut buffer = [0; CHUNK];
        while self.pipe.is_some() {
            let got = read(&mut self.pipe, &mut buffer).await;
            self.output.write(&buffer[..got]);
        }
        Ok(())
    }
}

/// The next output; at its end, or where it cannot be read, the pipe goes.
async fn read(pipe: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    let Some(open) = pipe else {
        return 0;
    };
    let got = open.read(buffer).await.unwrap_or(0);
    if got == 0 {
        *pipe = None;
    }
    got
}

/// Ends when the time is over; without a time, never.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment port is where a process and its time are the machine's"
)]
async fn passed(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// What comes in time.
async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    select! {
        biased;
        done = work => Some(done),
        () = passed(Some(time)) => None,
    }
}
