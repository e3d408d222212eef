//! Several processes on one file: this one, and owners that are killed, stopped and continued.

mod fenced;
mod followed;
mod mail;
mod together;

use std::{
    io::{BufRead, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use everturn::{
    SessionReader, World,
    id::{ConversationId, Seq, SessionId},
    kernel::Opener,
    store::{self, Options},
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A place for a file that goes with the test.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("store.db")
    }

    /// Opens the file in this process.
    async fn opener(&self) -> Opener {
        let url = format!("sqlite:{}", self.file().display());
        let store = store::open(&url, Options::new(World::system().owner())).await.unwrap();
        Opener::new(store, World::system()).await
    }
}

/// A process that owns a session. It dies with the test.
struct Owner {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Owner {
    fn start(role: &str, file: &Path, name: &str, wishes: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_owner"))
            .arg(role)
            .arg(file)
            .arg(name)
            .args(wishes)
            // While this end is open it lives.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// What it says next; none when it has ended.
    fn line(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    /// What it says behind a word, once it says it.
    fn says(&mut self, word: &str) -> String {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("it ended before it said {word}"));
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
            assert!(!line.starts_with("failed"), "{line}");
        }
    }

    /// The session that it opened.
    fn session(&mut self) -> SessionId {
        self.says("opened").parse().unwrap()
    }

    /// All that it says until it ends.
    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }

    /// Kills it; gives what it had said by then.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.rest()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until it has stopped.
    fn wait_until_stopped(&self) {
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "it stopped: {status:?}");
    }

    fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// The last commit that lines say was acknowledged.
fn committed(lines: &[String]) -> Option<Seq> {
    let seqs = lines.iter().filter_map(|line| line.strip_prefix("committed ")?.parse().ok());
    seqs.map(Seq).max()
}

/// What the root says, oldest first.
async fn texts(opener: &Opener, session: SessionId) -> Vec<String> {
    let reader = SessionReader::open(opener.store.clone(), session).await.unwrap();
    assert_eq!(reader.verify().await.unwrap(), []);
    let entries = reader.entries(ConversationId::ROOT, None, usize::MAX).await.unwrap();
    entries.iter().rev().map(|entry| entry.text()).collect()
}
