//! One life of an example: a process that ends, or is killed.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, SystemTime},
};

use super::moments::Kill;
use crate::examples::LIMIT;

/// How soon its files are looked at again.
const LOOK_AGAIN: Duration = Duration::from_micros(20);

/// How often at most: a life that hangs is killed too.
const LOOKS_MAX: u32 = 1_000_000;

/// How a life ended.
pub(super) enum End {
    /// Well, and this is what it said last.
    Said(String),
    Killed,
    /// It killed itself.
    ByItself,
}

/// A process of an example.
pub(super) struct Life {
    child: Child,
    said: Receiver<String>,
    directory: PathBuf,
}

impl Life {
    pub(super) fn start(program: &Path, directory: &Path) -> Result<Self, String> {
        let mut child = Command::new(program)
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|fault| format!("start it: {fault}"))?;
        let said = child.stdout.take().map(listen).ok_or("its output is not there")?;
        Ok(Self { child, said, directory: directory.into() })
    }

    /// Waits for its end, or makes it.
    pub(super) fn end(mut self, kill: Option<Kill>) -> Result<End, String> {
        let said = match kill {
            None => self.said.recv_timeout(LIMIT),
            Some(Kill::After(time)) => self.said.recv_timeout(time),
            Some(Kill::AtChange(number)) => self.until(number),
        };
        let is_late = said == Err(RecvTimeoutError::Timeout);
        if is_late {
            // It may have ended by itself just now, and then there is nothing to kill.
            let _ = self.child.kill();
        }
        let output = self.child.wait_with_output().map_err(|fault| format!("wait for it: {fault}"))?;
        let text = said.or_else(|_| self.said.recv()).unwrap_or_default();
        match output.status.code() {
            Some(0) => Ok(End::Said(text.lines().last().unwrap_or_default().to_owned())),
            Some(code) => {
                Err(format!("it ended with exit code {code}: {}", String::from_utf8_lossy(&output.stderr)))
            }
            None if is_late && kill.is_none() => Err(format!("it did not end within {} s", LIMIT.as_secs())),
            None if is_late => Ok(End::Killed),
            None => Ok(End::ByItself),
        }
    }

    /// Waits until so many changes of its files were seen, or it ends.
    fn until(&self, number: u64) -> Result<String, RecvTimeoutError> {
        let (mut changes, mut last) = (0, seen(&self.directory));
        for _ in 0..LOOKS_MAX {
            match self.said.recv_timeout(LOOK_AGAIN) {
                Err(RecvTimeoutError::Timeout) => {}
                ended => return ended,
            }
            let now = seen(&self.directory);
            changes += u64::from(now != last);
            if changes >= number {
                break;
            }
            last = now;
        }
        Err(RecvTimeoutError::Timeout)
    }
}

/// The files of a directory and of the folders in it: how long they are, and when they were changed.
fn seen(directory: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // What is gone by now is a change too.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            files.extend(seen(&entry.path()));
        }
        files.push((entry.path(), about.len(), about.modified().ok()));
    }
    files.sort();
    files
}

/// Gives all that is written to an output, when that is closed.
fn listen(mut output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut text = String::new();
        // What was read before a fault still counts, and the child's end says whether it matters.
        let _ = output.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    receiver
}
