//! Whether a turn stands still: the same calls with the same results, over and over.

use everturn_core::message::{Call, CallResult};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How often the same calls gave the same results, one response after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repeats {
    /// What the calls and results of the newest response come to.
    pub(super) digest: String,
    /// How many responses in a row came to the same.
    pub(crate) count: u32,
}

impl Repeats {
    pub(crate) fn is_none(&self) -> bool {
        self.count == 0
    }

    /// Counts the next response. Which of its calls stands first says nothing.
    #[must_use]
    pub(crate) fn count<'a>(&self, calls: impl Iterator<Item = (&'a Call, Option<&'a CallResult>)>) -> Self {
        let mut digests: Vec<_> = calls.map(|(call, result)| digest(call, result)).collect();
        digests.sort_unstable();
        let all = Sha256::digest(digests.concat());
        // So much of it tells two responses apart, and it is stored with each checkpoint.
        let digest = format!("{all:x}")[..16].to_owned();
        let count = if digest == self.digest { self.count + 1 } else { 1 };
        Self { digest, count }
    }
}

fn digest(call: &Call, result: Option<&CallResult>) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for text in [call.name.as_str(), call.arguments.get(), result.map_or("", |result| result.text.as_str())] {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hasher.finalize().to_vec()
}
