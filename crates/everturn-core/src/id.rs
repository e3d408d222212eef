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
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// An approval: a question that a call waits with until someone decides it.
    ///
    /// ```
    /// use everturn_core::id::ApprovalId;
    /// assert_eq!("7".parse::<ApprovalId>().unwrap(), ApprovalId(7));
    /// ```
    ApprovalId, "approval id";
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
    /// One upload of a blob, random.
    ///
    /// ```
    /// use everturn_core::id::UploadId;
    /// assert!("not an id".parse::<UploadId>().is_err());
    /// ```
    UploadId, "upload id";
}

/// A blob's id: the SHA-256 of its bytes, written as 64 hexadecimal digits.
///
/// ```
/// use everturn_core::id::BlobId;
/// let id = BlobId([0xab; 32]);
/// assert_eq!(id.to_string().len(), 64);
/// assert_eq!(id.to_string().parse::<BlobId>().unwrap(), id);
/// assert!("abc".parse::<BlobId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub [u8; 32]);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BlobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut bytes = [0; 32];
        let digit = |at: usize| text.as_bytes().get(at).and_then(|byte| char::from(*byte).to_digit(16));
        for (at, byte) in bytes.iter_mut().enumerate() {
            let pair = digit(2 * at).zip(digit(2 * at + 1)).filter(|_| text.len() == 64);
            let (high, low) = pair.ok_or_else(|| {
                Error::invalid(format!("read blob id {text:?}: it has 64 hexadecimal digits"))
            })?;
            *byte = u8::try_from(16 * high + low).expect("two hexadecimal digits are a byte");
        }
        Ok(Self(bytes))
    }
}

impl Serialize for BlobId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
