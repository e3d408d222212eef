//! Retention: which sessions a rule lets go. Pure; nothing is deleted by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{clock::Timestamp, id::SessionId, storage::SessionRow};

/// A rule that lets sessions go. What it does not say it does not limit.
///
/// ```
/// use everturn_core::retention::Rule;
/// use std::time::Duration;
/// let rule = Rule { idle_max: Some(Duration::from_secs(30 * 86_400)), ..Rule::default() };
/// assert!(rule.labels.is_empty(), "it is for all sessions");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Only sessions that have all of these labels.
    pub labels: BTreeMap<String, String>,
    /// How long a session may rest before it goes.
    pub idle_max: Option<Duration>,
    /// How many sessions stay: those that were last committed to.
    pub count_max: Option<usize>,
    /// How many bytes of commits stay, counted from the session that was last committed to.
    pub bytes_max: Option<u64>,
}

/// The sessions that one of the rules lets go, oldest use first. One that someone owns stays.
///
/// ```
/// use everturn_core::{clock::Timestamp, retention::{Rule, expired}};
/// assert!(expired(&[Rule::default()], &[], Timestamp(0)).is_empty());
/// ```
pub fn expired(rules: &[Rule], rows: &[SessionRow], now: Timestamp) -> Vec<SessionId> {
    let mut newest: Vec<_> = rows.iter().collect();
    newest.sort_by_key(|row| std::cmp::Reverse((row.used, row.id)));
    let gone: BTreeSet<SessionId> = rules.iter().flat_map(|rule| rule.expired(&newest, now)).collect();
    let is_owned = |row: &SessionRow| row.owner.is_some_and(|(_, until)| until > now);
    let gone = newest.iter().rev().filter(|row| gone.contains(&row.id) && !is_owned(row));
    gone.map(|row| row.id).collect()
}

impl Rule {
    fn expired(&self, newest: &[&SessionRow], now: Timestamp) -> Vec<SessionId> {
        let has = |row: &SessionRow| {
            self.labels.iter().all(|(name, value)| row.new.labels.get(name) == Some(value))
        };
        let (mut count, mut bytes) = (0, 0u64);
        let mut is_over = |row: &SessionRow| {
            count += 1;
            bytes = bytes.saturating_add(row.bytes);
            self.idle_max.is_some_and(|limit| now.since(row.used) > limit)
                || self.count_max.is_some_and(|limit| count > limit)
                || self.bytes_max.is_some_and(|limit| bytes > limit)
        };
        newest.iter().filter(|row| has(row)).filter(|row| is_over(row)).map(|row| row.id).collect()
    }
}

#[cfg(test)]
mod tests;
