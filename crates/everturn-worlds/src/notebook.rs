//! What an application keeps beside its store: what was acknowledged to it, what its watchers saw, an archive.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use everturn::{Cursor, Error, Result, id::Seq};
use serde::{Deserialize, Serialize};

/// A line of the notebook. One line is written at once: it is there or not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Line {
    /// The store said that everything up to this commit is stored.
    Acknowledged(Seq),
    /// A watcher was told of a commit.
    Seen(String, Cursor, Told),
    /// A watcher was told to read everything anew.
    Resync(String, Cursor),
    /// A session, as it was before it was deleted.
    Archive(String),
}

/// What a commit's frame told, as text that can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The commit.
    pub seq: u64,
    /// Conversations, entries and tasks.
    pub records: Vec<String>,
    /// Documents, with their values.
    pub documents: Vec<String>,
}

/// A notebook: in memory, and in a file where it has one.
#[derive(Debug, Default)]
pub struct Notebook {
    lines: Mutex<Vec<Line>>,
    file: Option<File>,
}

impl Notebook {
    /// A notebook with these lines, in memory.
    pub fn of(lines: Vec<Line>) -> Self {
        Self { lines: Mutex::new(lines), file: None }
    }

    /// The notebook in a file, which may be new.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let text = std::fs::read_to_string(path)?;
        let lines = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(Self { lines: Mutex::new(lines), file: Some(file) })
    }

    /// All of its lines.
    pub fn lines(&self) -> Vec<Line> {
        self.locked().clone()
    }

    /// Up to which commit the store said that all is stored.
    pub fn acknowledged(&self) -> Seq {
        let seqs = self.lines().into_iter().filter_map(|line| match line {
            Line::Acknowledged(seq) => Some(seq),
            _ => None,
        });
        seqs.max().unwrap_or(Seq(0))
    }

    /// The newest archive.
    pub fn archive(&self) -> Option<String> {
        self.lines().into_iter().rev().find_map(|line| match line {
            Line::Archive(text) => Some(text),
            _ => None,
        })
    }

    /// Where a watcher goes on.
    pub fn cursor(&self, watcher: &str) -> Option<Cursor> {
        self.locked().iter().rev().find_map(|line| match line {
            Line::Seen(by, cursor, _) | Line::Resync(by, cursor) if by == watcher => Some(*cursor),
            _ => None,
        })
    }

    /// What a watcher was told that still holds: what lies beyond the place of a resync is forgotten.
    pub fn seen(&self, watcher: &str) -> Vec<Told> {
        let mut seen: Vec<Told> = Vec::new();
        for line in self.lines() {
            match line {
                Line::Seen(by, _, told) if by == watcher => seen.push(told),
                Line::Resync(by, cursor) if by == watcher => seen.retain(|told| told.seq <= cursor.seq.0),
                _ => {}
            }
        }
        seen
    }

    /// How often watchers were told to read everything anew.
    pub fn resyncs(&self) -> usize {
        self.locked().iter().filter(|line| matches!(line, Line::Resync(..))).count()
    }

    /// Writes a line.
    ///
    /// Errors: `Invalid` when a watcher is told of a place that it has passed; `Unavailable` when the file cannot be
    /// written to.
    pub fn write(&self, line: Line) -> Result<()> {
        if let Line::Seen(watcher, cursor, _) = &line
            && self.cursor(watcher).is_some_and(|before| before.seq >= cursor.seq)
        {
            return Err(Error::invalid(format!("{watcher} was told of {cursor} again")));
        }
        if let Some(mut file) = self.file.as_ref() {
            let refused = |fault: io::Error| Error::unavailable(format!("write the notebook: {fault}"));
            let text = serde_json::to_string(&line).map_err(|fault| refused(fault.into()))?;
            file.write_all(format!("{text}\n").as_bytes()).map_err(refused)?;
        }
        self.locked().push(line);
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
