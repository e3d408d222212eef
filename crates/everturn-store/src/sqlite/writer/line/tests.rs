//! A log that grew too long, and someone who reads it.

use std::time::Duration;

use everturn_core::storage::Durability;
use futures_channel::oneshot;

use super::*;
use crate::{
    Options,
    sqlite::{
        checkpoint::Checkpointer,
        doorbell::{self, Doorbell},
        empty,
        writer::{Job, Ticket},
    },
};

fn move_mark(to: &str) -> (Request, oneshot::Receiver<Result<()>>) {
    let (reply, answered) = oneshot::channel();
    let sql = format!("UPDATE search_mark SET rid = {to}");
    let work = move |db: &Connection| Ok(db.execute_batch(&sql)?);
    let ticket = Ticket {
        attempted: "move the mark".to_owned(),
        whose: Whose::Keeper,
        durability: Durability::Durable,
        proof: None,
    };
    (Request { ticket, failure: None, job: Box::new(Job { work, answer: None, reply }) }, answered)
}

// Who read for long stopped the writer at each commit that found the log too long, for all of the store's patience.
// Guards: a commit returns while they read; the log is cut by a commit after they are done.
#[test]
fn a_long_reader_stops_no_commit_at_the_cap_of_the_log() {
    let (directory, reader) = empty();
    let path = directory.path().join("work.db");
    // Whoever waits for the reader here waits for ever.
    let options =
        Options { patience: Duration::MAX, ..Options::new(everturn_testkit::store::scene::owner()) };
    let place = Arc::new(Place::new(&path, &options).expect("the file is there"));
    let checkpointer = Checkpointer::start(&place).expect("it starts");
    let doorbell = Doorbell::start(doorbell::look(Arc::clone(&place)));
    let connection = place.open_writer().expect("the file opens");
    let bells = (checkpointer.bell(), doorbell.rope());
    let mut line = Line::new(connection, Arc::clone(&place), bells, Arc::default());
    let size = || std::fs::metadata(path.with_extension("db-wal")).expect("there is a log").len();
    let mut commit = |mark: &str, cap| {
        line.wal.cap = cap;
        let (request, mut answered) = move_mark(mark);
        line.commit(vec![request]);
        answered.try_recv().expect("it was answered").expect("there is an answer").expect("it is stored");
    };

    commit("1", CAP_PAGES);
    reader.execute_batch("BEGIN; SELECT count(*) FROM search_mark").expect("it begins to read");
    commit("2", 1);
    commit("3", 1);
    assert!(size() > 0, "it reads the store as it was");
    reader.execute_batch("COMMIT").expect("it has read");
    commit("4", 1);
    assert_eq!(size(), 0);
}
