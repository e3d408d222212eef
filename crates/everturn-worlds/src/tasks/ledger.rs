//! What the world outside of the store knows: a bank's book, and whatever else was done. It survives every crash.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use everturn::{Cursor, clock::Timestamp, id::Seq};
use serde::{Deserialize, Serialize};

/// A line of the book. One line is written at once: it is there or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// The store said that everything up to this commit is stored.
    Acknowledged(Seq),
    /// The bank was asked to charge under a key.
    Asked(String),
    /// Money came, under a key.
    Charged(String, i64),
    /// It went back.
    Refunded(String, i64),
    /// Something was done that nobody can take back.
    Did(String),
    /// What was done is on record: whoever did it was told so.
    Kept(String, u64),
    /// A model was sent a request; with what is wrong with it, where something is.
    Sent(Option<String>),
    /// A provider takes no requests until then.
    Busy(Timestamp),
    /// A follower was told all of this up to a place, as JSON.
    Saw(Cursor, String),
}

/// A book: in memory, or in a file that several processes write to.
#[derive(Debug, Default)]
pub struct Ledger {
    lines: Mutex<Vec<Line>>,
    file: Option<PathBuf>,
}

impl Ledger {
    /// The book in a file, which may be new.
    pub fn open(path: &Path) -> Self {
        Self { lines: Mutex::default(), file: Some(path.to_owned()) }
    }

    /// All of its lines.
    pub fn lines(&self) -> Vec<Line> {
        match &self.file {
            None => self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Some(path) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                // A line that another process is about to write is not there yet.
                let whole = text.rfind('\n').map_or("", |end| &text[..end]);
                whole.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
            }
        }
    }

    /// Writes a line.
    pub fn write(&self, line: Line) {
        match &self.file {
            None => self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line),
            Some(path) => {
                let text = serde_json::to_string(&line).expect("a line has a JSON form");
                let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a book");
                file.write_all(format!("{text}\n").as_bytes()).expect("room for a line");
            }
        }
    }

    /// Charges, as a bank does that knows its keys: what was charged is not charged again.
    pub fn charge(&self, key: &str, amount: i64) {
        self.write(Line::Asked(key.into()));
        if self.charged(key).is_none() {
            self.write(Line::Charged(key.into(), amount));
        }
    }

    /// Gives back what was charged under a key, if anything was, and once.
    pub fn refund(&self, key: &str) {
        let was_refunded = |line: &Line| matches!(line, Line::Refunded(under, _) if under == key);
        if let Some(amount) = self.charged(key).filter(|_| !self.lines().iter().any(was_refunded)) {
            self.write(Line::Refunded(key.into(), amount));
        }
    }

    fn charged(&self, key: &str) -> Option<i64> {
        self.lines().into_iter().find_map(|line| match line {
            Line::Charged(under, amount) if under == key => Some(amount),
            _ => None,
        })
    }

    /// Up to which commit the store said that all is stored.
    pub fn acknowledged(&self) -> Seq {
        let seqs = self.lines().into_iter().filter_map(|line| match line {
            Line::Acknowledged(seq) => Some(seq),
            _ => None,
        });
        seqs.max().unwrap_or(Seq(0))
    }

    /// All charges, by amount.
    pub fn charges(&self) -> Vec<i64> {
        let charged = |line| match line {
            Line::Charged(_, amount) => Some(amount),
            _ => None,
        };
        self.lines().into_iter().filter_map(charged).collect()
    }

    /// What is left of the money.
    pub fn balance(&self) -> i64 {
        let sum = |line: &Line| match line {
            Line::Charged(_, amount) => *amount,
            Line::Refunded(_, amount) => -amount,
            _ => 0,
        };
        self.lines().iter().map(sum).sum()
    }

    /// What was done, in its order.
    pub fn did(&self) -> Vec<String> {
        let did = |line| match line {
            Line::Did(what) => Some(what),
            _ => None,
        };
        self.lines().into_iter().filter_map(did).collect()
    }
}
