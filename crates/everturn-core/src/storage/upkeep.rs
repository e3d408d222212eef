//! What a store's keeper asks for and sees: counters, sweeps, search.

use crate::{
    error::{Error, Result},
    id::{ConversationId, EntryId, SessionId},
};

/// Counters of a store since it was opened.
///
/// ```
/// use everturn_core::storage::Stats;
/// assert_eq!(Stats::default().commits, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Batches that were stored.
    pub commits: u64,
    /// Database transactions that stored them.
    pub groups: u64,
    /// Transactions that were synced before they returned.
    pub syncs: u64,
}

/// What a sweep removed.
///
/// ```
/// use everturn_core::storage::Swept;
/// assert_eq!(Swept::default().blobs, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blobs that no session referred to, and uploads that were never sealed.
    pub blobs: u64,
    /// Deleted sessions of which something was left.
    pub sessions: u64,
}

/// Which messages.
///
/// ```
/// use everturn_core::storage::SearchQuery;
/// let query = SearchQuery { words: "disk full".into(), ..SearchQuery::default() };
/// assert_eq!(query.limit, 20);
/// ```
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// Words that a message must all have, whatever their case. They are words and no language: signs between them
    /// mean nothing.
    pub words: String,
    /// Only in this session.
    pub session: Option<SessionId>,
    /// How many at most.
    pub limit: usize,
}

impl Default for SearchQuery {
    fn default() -> Self {
        Self { words: String::new(), session: None, limit: 20 }
    }
}

/// An entry whose messages have the words.
///
/// ```
/// fn place(hit: &everturn_core::storage::Hit) -> String {
///     format!("session {}, entry {}", hit.session, hit.entry)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: SessionId,
    /// The conversation.
    pub conversation: ConversationId,
    /// The entry.
    pub entry: EntryId,
    /// The line of its text in which the first word stands.
    pub excerpt: String,
}

impl SearchQuery {
    /// The words in lower case: runs of letters and digits.
    ///
    /// Errors: `Invalid` when there is none.
    pub fn terms(&self) -> Result<Vec<String>> {
        let terms: Vec<_> = terms(&self.words).collect();
        match terms.is_empty() {
            true => Err(Error::invalid(format!("search for {:?}: there is no word in it", self.words))),
            false => Ok(terms),
        }
    }
}

/// The words of a text, as a search compares them.
pub fn terms(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|sign: char| !sign.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// The line of a text in which a word stands, shortened around it.
pub fn excerpt(text: &str, word: &str) -> String {
    const LONGEST: usize = 160;
    let line = text.lines().find(|line| terms(line).any(|term| term == word));
    let line = line.or_else(|| text.lines().next()).unwrap_or_default().trim();
    let at = line.to_lowercase().find(word).map_or(0, |at| line.floor_char_boundary(at));
    let from = line.floor_char_boundary(at.saturating_sub(LONGEST / 2));
    let until = line.ceil_char_boundary(line.len().min(from + LONGEST));
    let (before, after) = (if from > 0 { "…" } else { "" }, if until < line.len() { "…" } else { "" });
    format!("{before}{}{after}", &line[from..until])
}
