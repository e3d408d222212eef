//! Ids. All ids of a session but its own come from one number space; a committed id is never used again.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    clock::{Entropy, Timestamp},
    error::Error,
};

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident, $noun:literal;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                text.parse().map($name).map_err(|_| {
                    Error::invalid(format!(concat!("read ", $noun, " {:?}: not a number"), text))
                })
            }
        })*
    };
}

number! {
    /// A conversation of a session. Id 1 is the root conversation.
    ///
    /// ```
    /// use everturn_core::id::ConversationId;
    /// assert_eq!("1".parse::<ConversationId>().unwrap(), ConversationId::ROOT);
    /// ```
    ConversationId, "conversation id";
    /// An entry of a transcript.
    ///
    /// ```
    /// use everturn_core::id::EntryId;
    /// assert!(EntryId(2) < EntryId(3), "entries are ordered by id");
    /// ```
    EntryId, "entry id";
    /// A durable task; a turn's id is the id of its task.
    ///
    /// ```
    /// use everturn_core::id::TaskId;
    /// assert_eq!(TaskId(7).to_string(), "7");
    /// ```
    TaskId, "task id";
    /// A submission: something handed to a conversation whose end can be awaited.
    ///
    /// ```
    /// use everturn_core::id::SubmissionId;
    /// assert!("seven".parse::<SubmissionId>().is_err());
    /// ```
    SubmissionId, "submission id";
    /// One incarnation of a document.
    ///
    /// ```
    /// use everturn_core::id::DocumentId;
    /// assert_eq!(DocumentId(9).0, 9);
    /// ```
    DocumentId, "document id";
    /// The number of a commit, strictly increasing within its session. The first commit has seq 1.
    ///
    /// ```
    /// use everturn_core::id::Seq;
    /// assert_eq!(Seq(1).next(), Seq(2));
    /// ```
    Seq, "seq";
    /// How often a session was claimed; grows with each claim and is never used again.
    ///
    /// ```
    /// use everturn_core::id::Epoch;
    /// assert!(Epoch(2) > Epoch(1), "the newer owner wins");
    /// ```
    Epoch, "epoch";
}

impl ConversationId {
    /// The conversation that every session begins with.
    pub const ROOT: Self = Self(1);
}

impl Seq {
    /// The seq of the next commit.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

macro_rules! unique {
    ($($(#[$doc:meta])* $name:ident, $noun:literal;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id from a time and randomness (UUID version 7: it sorts by time).
            pub fn new(now: Timestamp, entropy: &dyn Entropy) -> Self {
                let mut random = [0; 10];
                entropy.fill(&mut random);
                let millis = u64::try_from(now.0).unwrap_or(0);
                Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Uuid::parse_str(text).map($name).map_err(|_| {
                    Error::invalid(format!(
                        concat!("read ", $noun, " {:?}: it has 32 hexadecimal digits, as 0198c0de-0000-7000-8000-000000000000"),
                        text
                    ))
                })
            }
        })*
    };
}

unique! {
    /// A session's id: a UUID version 7, so that sessions sort by the time they were made.
    ///
    /// ```
    /// use everturn_core::id::SessionId;
    /// let id: SessionId = "0198c0de-0000-7000-8000-000000000000".parse().unwrap();
    /// assert_eq!(id.to_string(), "0198c0de-0000-7000-8000-000000000000");
    /// ```
    SessionId, "session id";
    /// Who holds leases: one opened store of one process.
    ///
    /// ```
    /// use everturn_core::id::OwnerId;
    /// assert!("not an id".parse::<OwnerId>().is_err());
    /// ```
    OwnerId, "owner id";
}
