//! Files of older schemas: they open, keep what they held, and survive being killed on the way.

mod schema_1;
mod schema_2;
mod schema_3;

use std::{
    fs,
    io::{BufRead, BufReader},
};

use everturn_core::{
    BoxFuture,
    conversation::Lineage,
    id::SessionId,
    storage::{ApprovalQuery, EntryQuery, SessionQuery, Store, SubmissionFilter, SubmissionQuery, TaskQuery},
    verify::Stored,
};
use everturn_testkit::block_on;
use rusqlite::{Batch, Connection, fallible_iterator::FallibleIterator};

use crate::{
    crash::{child_path, spawn},
    files::Temporary,
};

/// A file that the last version wrote which knew no newer schema.
struct Old {
    bytes: &'static [u8],
    /// The migration to the next schema.
    next: &'static str,
    /// How many statements that has.
    statements: usize,
    /// Reads all that it holds through the port.
    check: for<'a> fn(&'a Store) -> BoxFuture<'a, ()>,
}

/// By schema, from 1.
const OLD: [Old; 3] = [
    Old {
        bytes: include_bytes!("../fixtures/schema-1.db"),
        next: include_str!("../../migrations/sqlite/0002_kernel.sql"),
        statements: 31,
        check: |store| Box::pin(schema_1::check_contents(store)),
    },
    Old {
        bytes: include_bytes!("../fixtures/schema-2.db"),
        next: include_str!("../../migrations/sqlite/0003_tasks.sql"),
        statements: 6,
        check: |store| Box::pin(schema_2::check_contents(store)),
    },
    Old {
        bytes: include_bytes!("../fixtures/schema-3.db"),
        next: include_str!("../../migrations/sqlite/0004_approvals.sql"),
        statements: 3,
        check: |store| Box::pin(schema_3::check_contents(store)),
    },
];

impl Old {
    fn file(&self) -> Temporary {
        let file = Temporary::new();
        fs::write(file.path(), self.bytes).unwrap();
        file
    }

    /// A file with something done to it beside what the fixture has.
    fn file_with(&self, sql: &str) -> Temporary {
        let file = self.file();
        Connection::open(file.path()).unwrap().execute_batch(sql).unwrap();
        file
    }

    /// Does the migration's first statements in a transaction that is left open, and tells how many those were.
    fn migrate_halfway(&self, db: &Connection, statements: usize, mut done: impl FnMut()) -> usize {
        // A small cache, so that what is not committed gets into the log already.
        db.execute_batch("PRAGMA cache_size = 2; BEGIN IMMEDIATE").unwrap();
        let mut batch = Batch::new(db, self.next);
        for before in 0..statements {
            let Some(mut statement) = batch.next().unwrap() else { return before };
            statement.execute([]).unwrap();
            done();
        }
        statements
    }

    async fn check(&self, file: &Temporary) {
        let store = file.open().await;
        (self.check)(&store).await;
        for row in store.sessions(SessionQuery::default()).await.unwrap() {
            assert_eq!(stored(&store, row.id).await.verify(), [], "session {}", row.id);
        }
    }
}

/// All that a session has stored.
async fn stored(store: &Store, session: SessionId) -> Stored {
    let mut all = Stored::new(store.session(session).await.unwrap().unwrap());
    all.conversations = store.conversations(session).await.unwrap();
    for conversation in &all.conversations {
        let own = EntryQuery::of(session, Lineage::new(conversation.id));
        all.entries.extend(store.entries(own).await.unwrap());
    }
    all.tasks = store.tasks(TaskQuery { session, live: false, ids: None, owner: None }).await.unwrap();
    let only = SubmissionFilter::All;
    all.submissions = store.submissions(SubmissionQuery { session, only }).await.unwrap();
    let approvals = store.approvals(ApprovalQuery::of(session)).await.unwrap();
    all.approvals = approvals.into_iter().map(|row| row.record).collect();
    all.usage = store.usage(session).await.unwrap();
    all
}

#[test]
fn a_migration_that_ends_after_any_statement_is_done_again() {
    for old in &OLD {
        for statements in 0..=old.statements + 1 {
            let file = old.file();
            let db = Connection::open(file.path()).unwrap();
            let done = old.migrate_halfway(&db, statements, || {});
            assert_eq!(done, statements.min(old.statements));
            drop(db);
            block_on(old.check(&file));
        }
    }
}

#[test]
fn a_migration_that_is_killed_is_done_again() {
    for (old, statements) in
        [(0, 1), (0, 9), (0, 14), (0, 20), (1, 1), (1, 3), (1, 5), (1, 6), (2, 1), (2, 2), (2, 3)]
    {
        let old = &OLD[old];
        let file = old.file();
        let mut child = spawn("migration::child_that_is_killed_while_it_migrates", &file.path(), None);
        let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let done = said.filter(|line| line.contains("migrated")).take(statements).count();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(done, statements, "the child goes on until it is killed");
        block_on(old.check(&file));
    }
}

/// The child of the test above. As a test of its own it has nothing to do.
#[test]
fn child_that_is_killed_while_it_migrates() {
    let Some(path) = child_path() else { return };
    let db = Connection::open(path).unwrap();
    let schema: usize = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    OLD[schema - 1].migrate_halfway(&db, usize::MAX, || println!("migrated a statement"));
    loop {
        std::thread::park();
    }
}
