//! Which sessions want to run, and when the next one does.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everturn_core::{
    clock::Timestamp,
    id::{OwnerId, SessionId},
    storage::{Code, Due, RunnableQuery},
};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::{fault::Outcome, owner::Owners, session};

const WITH_MAIL: &str = "SELECT 0, id, owner, until FROM session WHERE deleted IS NULL
    AND sid IN (SELECT sid FROM mail INDEXED BY mail_waiting WHERE taken IS NULL)";
const BLOCKED: &str = "SELECT 0, id, owner, until FROM session WHERE deleted IS NULL
    AND sid IN (SELECT sid FROM task INDEXED BY task_blocked WHERE lacks = ?1 AND needs <= ?2
        UNION ALL SELECT sid FROM task INDEXED BY task_blocked WHERE lacks = ?1 AND needs > ?2 + 1
        AND body ->> '$.blocked.by' = 'migration_failed' AND body ->> '$.version' <= ?2)";
const DUE: &str = "SELECT due, id, owner, until FROM session INDEXED BY session_due
    WHERE due IS NOT NULL AND due <= ?1 AND deleted IS NULL ORDER BY due, id";

/// Sessions that nobody owns and that are due, have mail, or were blocked for want of code that is there now; those due
/// longest first. Mail and new code are due at once.
pub(super) fn read(db: &Connection, owners: &Owners, query: &RunnableQuery) -> Outcome<Vec<SessionId>> {
    let mut free = Free { owners, now: query.now, dead: HashMap::new() };
    let mut at_once: BTreeSet<_> = free.find(db, WITH_MAIL, ([], usize::MAX))?.into_values().collect();
    for Code { kind, version } in &query.code {
        at_once.extend(free.find(db, BLOCKED, (params![kind, version], usize::MAX))?.into_values());
    }
    let mut found = free.find(db, DUE, ([query.now.0.max(0)], query.limit))?;
    found.retain(|_, id| !at_once.contains(id));
    found.extend(at_once.into_iter().map(|id| ((0, id), id)));
    Ok(found.into_values().take(query.limit).collect())
}

/// Tells sessions that nobody owns.
struct Free<'a> {
    owners: &'a Owners,
    now: Timestamp,
    /// Whom the locks were asked about: many sessions have few owners.
    dead: HashMap<OwnerId, bool>,
}

impl Free<'_> {
    /// The first of those that a query finds and that nobody owns, by due and id.
    fn find(
        &mut self,
        db: &Connection,
        sql: &str,
        (values, limit): (impl Params, usize),
    ) -> Outcome<BTreeMap<(i64, SessionId), SessionId>> {
        let mut find = db.prepare_cached(sql)?;
        let mut rows = find.query(values)?;
        let mut found = BTreeMap::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let id = session::id_at(row, 1)?;
            if !self.is_owned(session::owner(row, 2)?) {
                found.insert((row.get(0)?, id), id);
            }
        }
        Ok(found)
    }

    fn is_owned(&mut self, owner: Option<(OwnerId, Timestamp)>) -> bool {
        let Some((by, until)) = owner else { return false };
        until > self.now && !*self.dead.entry(by).or_insert_with(|| self.owners.is_dead(by))
    }
}

/// The soonest due of all sessions.
pub(super) fn next_due(db: &Connection) -> Outcome<Due> {
    let sql = "SELECT due FROM session INDEXED BY session_due WHERE due IS NOT NULL ORDER BY due LIMIT 1";
    let due: Option<i64> = db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(match due {
        None => Due::None,
        Some(0) => Due::Now,
        Some(at) => Due::At(Timestamp(at)),
    })
}
