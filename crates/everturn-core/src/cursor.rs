//! A place in a session's commits, from which a watcher goes on.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    id::{Epoch, Seq, SessionId},
    storage::Changes,
};

/// A place in a session's commits: everything up to it was seen.
///
/// Shape: as text `SESSION:EPOCH:SEQ`.
///
/// ```
/// use everturn_core::cursor::Cursor;
/// let text = "0198c0de-0000-7000-8000-000000000000:1:7";
/// let cursor: Cursor = text.parse().unwrap();
/// assert_eq!(cursor.seq.0, 7);
/// assert_eq!(cursor.to_string(), text);
/// assert!("7".parse::<Cursor>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The session.
    pub session: SessionId,
    /// The epoch in which the commit was stored.
    pub epoch: Epoch,
    /// The commit.
    pub seq: Seq,
}

impl Cursor {
    /// Whether what came behind this place can be told from `changes`: nothing of it was trimmed, and the place is one
    /// that every later owner had seen too.
    ///
    /// A commit that a power cut took away leaves a later epoch that began before the place.
    pub fn is_kept(&self, changes: &Changes) -> bool {
        let is_lost = changes.epochs.iter().any(|start| start.head < self.seq);
        !is_lost && self.seq >= changes.floor && self.seq <= changes.head && self.epoch <= changes.epoch
    }

    /// The place of a later commit, of those that `changes` tells of.
    #[must_use]
    pub fn at(&self, seq: Seq, changes: &Changes) -> Self {
        let begun = changes.epochs.iter().rev().find(|start| start.head < seq);
        Self { epoch: begun.map_or(self.epoch, |start| start.epoch), seq, ..*self }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.session, self.epoch, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let (session, place) = text.split_once(':')?;
            let (epoch, seq) = place.split_once(':')?;
            Some(Self { session: session.parse().ok()?, epoch: epoch.parse().ok()?, seq: seq.parse().ok()? })
        };
        read().ok_or_else(|| Error::invalid(format!("read cursor {text:?}: it is SESSION:EPOCH:SEQ")))
    }
}

#[cfg(test)]
mod tests;
