//! One SQLite file of sessions: one thread writes, a few read, one checkpoints.

mod approvals;
mod backup;
mod blobs;
mod body;
mod changes;
mod checkpoint;
mod commit;
mod connection;
mod conversations;
mod documents;
mod doorbell;
mod ends;
mod entries;
mod fault;
mod file;
mod mail;
mod owner;
mod places;
mod queue;
mod reader;
mod runnable;
mod schema;
mod search;
mod session;
mod submissions;
mod tasks;
mod upkeep;
mod usage;
mod view;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use everturn_core::{
    clock::Timestamp,
    conversation::Conversation,
    entry::EntryRecord,
    error::{Error, Result},
    id::{BlobId, ConversationId, Epoch, OwnerId, Seq, SessionId},
    storage::{
        ApprovalQuery, ApprovalRow, Batch, BlobPart, BlobQuery, ChangeQuery, Changes, Chunk, Claim,
        Committed, Create, Created, DocumentQuery, DocumentState, Due, Durability, EntryQuery, Hit, Lease,
        Mail, MailFilter, MailRow, Posted, RunnableQuery, Seal, SearchQuery, SessionQuery, SessionRow, Stats,
        Storage, SubmissionQuery, Swept, TaskQuery, View, ViewQuery, Write,
    },
    submission::SubmissionRecord,
    task::TaskRecord,
    usage::UsageRow,
    verify::Finding,
};
use futures_channel::oneshot;
use rusqlite::Connection;

use crate::Options;
use checkpoint::{Bell, Checkpointer};
use connection::Place;
use doorbell::Doorbell;
use fault::Outcome;
use owner::Owners;
use reader::Readers;
use upkeep::More;
use writer::{Proof, Ticket, Whose, Writer};

/// An open file. Dropped in the order of its fields: those who read, then the writer, then the checkpointer, then the
/// lock.
pub(crate) struct Sqlite {
    readers: Readers,
    doorbell: Doorbell,
    writer: Writer,
    _checkpointer: Checkpointer,
    owners: Arc<Owners>,
    place: Arc<Place>,
    bell: Bell,
}

impl Sqlite {
    /// Opens or creates the file on a thread of its own, so that no executor waits for the disk.
    pub(crate) async fn open(path: PathBuf, options: Options) -> Result<Self> {
        let (done, opened) = oneshot::channel();
        thread::spawn(move || done.send(Self::open_now(&path, &options)).map_err(drop));
        let closed = |_| Error::closed("opening the store ended early");
        opened.await.map_err(closed)?
    }

    fn open_now(path: &Path, options: &Options) -> Result<Self> {
        let exists = file::inspect(path, options.must_exist)?;
        let owners = Arc::new(Owners::join(path, options.owner)?);
        if !exists {
            schema::create(path, &owners)?;
            // Another process may have been first, and with something else.
            file::inspect(path, true)?;
        }
        let place = Arc::new(Place::new(path, options)?);
        // Whoever died with the log as it is may have been about to cut away what was purged or deleted.
        let was_left = !file::is_log_at_rest(place.path()) && owners.other().is_none();
        let mut connection = place.open_writer()?;
        schema::bring_up_to_date(&mut connection, place.path())?;
        let checkpointer = Checkpointer::start(&place)?;
        if was_left {
            checkpointer.bell().soil();
        }
        let doorbell = Doorbell::start(doorbell::look(Arc::clone(&place)));
        let bell = checkpointer.bell();
        let writer = Writer::start(connection, &place, (bell.clone(), doorbell.rope()));
        let readers = Readers::start(&place);
        owners.sweep();
        Ok(Self { readers, doorbell, writer, _checkpointer: checkpointer, owners, place, bell })
    }

    async fn read<T: Send + 'static>(
        &self,
        noun: &'static str,
        session: SessionId,
        work: impl FnOnce(&Connection, i64) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let attempted = format!("read {noun} of session {session}");
        self.readers.read(attempted, move |db| work(db, session::known(db, session)?)).await
    }
}

impl Storage for Sqlite {
    async fn create(&self, create: Create) -> Result<Created> {
        let bodies = body::of(&create.first)?;
        let shared = Arc::new((create, bodies));
        loop {
            let (create, first) = (Arc::clone(&shared), &shared.0.first);
            let ticket = Ticket {
                attempted: format!("create session {}", first.session),
                whose: Whose::Session(first.session),
                durability: first.durability,
                proof: Some(Proof::of(first)),
            };
            let work = move |db: &Connection| session::create(db, &create.0, &create.1);
            if let Some(created) = self.writer.write(ticket, work).await? {
                return Ok(created);
            }
            self.remove_contents(first.session).await?;
        }
    }

    async fn claim(&self, claim: Claim) -> Result<Lease> {
        let ticket = Ticket {
            attempted: format!("claim session {}", claim.session),
            whose: Whose::Session(claim.session),
            durability: Durability::Durable,
            proof: Some(Proof::Owner(claim.owner)),
        };
        let owners = Arc::clone(&self.owners);
        self.writer.write(ticket, move |db| session::claim(db, &owners, &claim)).await
    }

    async fn renew(&self, claim: Claim, epoch: Epoch) -> Result<Lease> {
        // A renewal that a power cut takes away only shortens the lease.
        let ticket = Ticket {
            attempted: format!("renew the lease of session {}", claim.session),
            whose: Whose::Session(claim.session),
            durability: Durability::Relaxed,
            proof: None,
        };
        self.writer.write(ticket, move |db| session::renew(db, &claim, epoch)).await
    }

    async fn release(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        let ticket = Ticket {
            attempted: format!("release session {session}"),
            whose: Whose::Session(session),
            durability: Durability::Relaxed,
            proof: None,
        };
        self.writer.write(ticket, move |db| session::release(db, session, owner, epoch)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let Seq(seq) = batch.seq;
        let ticket = Ticket {
            attempted: format!("commit to session {} at seq {seq}", batch.session),
            whose: Whose::Session(batch.session),
            durability: batch.durability,
            proof: Some(Proof::of(&batch)),
        };
        let bodies = body::of(&batch)?;
        let bell = self.bell.clone();
        let purges = batch.writes.iter().any(|write| matches!(write, Write::Purge(_)));
        let work = move |db: &Connection| {
            if purges {
                bell.soil();
            }
            commit::commit(db, &batch, &bodies)
        };
        self.writer.write(ticket, work).await
    }

    async fn session(&self, id: SessionId) -> Result<Option<SessionRow>> {
        let attempted = format!("read session {id}");
        self.readers.read(attempted, move |db| session::row(db, id)).await
    }

    async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>> {
        let attempted = "list sessions".to_owned();
        self.readers.read(attempted, move |db| session::list(db, &query)).await
    }

    async fn conversations(&self, session: SessionId) -> Result<Vec<Conversation>> {
        self.read("conversations", session, conversations::all).await
    }

    async fn conversation(&self, session: SessionId, id: ConversationId) -> Result<Option<Conversation>> {
        self.read("a conversation", session, move |db, sid| conversations::one(db, sid, id)).await
    }

    async fn entries(&self, query: EntryQuery) -> Result<Vec<EntryRecord>> {
        self.read("entries", query.session, move |db, sid| entries::read(db, sid, &query)).await
    }

    async fn documents(&self, query: DocumentQuery) -> Result<Vec<DocumentState>> {
        self.read("documents", query.session, move |db, sid| documents::read(db, sid, &query)).await
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRecord>> {
        self.read("tasks", query.session, move |db, sid| tasks::read(db, sid, &query)).await
    }

    async fn submissions(&self, query: SubmissionQuery) -> Result<Vec<SubmissionRecord>> {
        self.read("submissions", query.session, move |db, sid| submissions::read(db, sid, &query.only)).await
    }

    async fn approvals(&self, query: ApprovalQuery) -> Result<Vec<ApprovalRow>> {
        let attempted = match query.session {
            Some(session) => format!("read approvals of session {session}"),
            None => "read approvals".to_owned(),
        };
        self.readers.read(attempted, move |db| approvals::read(db, &query)).await
    }

    async fn usage(&self, session: SessionId) -> Result<Vec<UsageRow>> {
        self.read("usage", session, usage::read).await
    }

    async fn view(&self, query: ViewQuery) -> Result<View> {
        self.read("a view", query.session, move |db, sid| view::read(db, sid, &query)).await
    }

    async fn changes(&self, query: ChangeQuery) -> Result<Changes> {
        self.read("changes", query.session, move |db, sid| changes::read(db, sid, &query)).await
    }

    async fn doorbell(&self, heard: u64) -> u64 {
        self.doorbell.wait(heard).await
    }

    async fn delete(&self, session: SessionId, owner: OwnerId, epoch: Epoch) -> Result<()> {
        self.end(session, owner, epoch).await
    }

    async fn post(&self, mail: Mail) -> Result<Posted> {
        let ticket = Ticket {
            attempted: format!("post {:?} to session {}", mail.key, mail.session),
            whose: Whose::Session(mail.session),
            durability: Durability::Durable,
            proof: None,
        };
        self.writer.write(ticket, move |db| mail::post(db, &mail)).await
    }

    async fn mail(&self, session: SessionId, only: MailFilter) -> Result<Vec<MailRow>> {
        self.read("mail", session, move |db, sid| mail::read(db, (session, sid), &only)).await
    }

    async fn runnable(&self, query: RunnableQuery) -> Result<Vec<SessionId>> {
        let owners = Arc::clone(&self.owners);
        let attempted = "look for sessions to run".to_owned();
        self.readers.read(attempted, move |db| runnable::read(db, &owners, &query)).await
    }

    async fn next_due(&self) -> Result<Due> {
        self.readers.read("look for the next due".to_owned(), runnable::next_due).await
    }

    async fn put_chunk(&self, chunk: Chunk) -> Result<()> {
        chunk.check()?;
        let ticket = Ticket {
            attempted: format!("write chunk {} of upload {}", chunk.number, chunk.upload),
            whose: Whose::Upload(chunk.upload),
            durability: Durability::Relaxed,
            proof: None,
        };
        let crc = body::crc(&chunk.bytes);
        self.writer.write(ticket, move |db| blobs::put(db, &chunk, crc)).await
    }

    async fn seal(&self, seal: Seal) -> Result<()> {
        let ticket = Ticket {
            attempted: format!("seal upload {}", seal.upload),
            whose: Whose::Upload(seal.upload),
            durability: Durability::Relaxed,
            proof: None,
        };
        if self.writer.write(ticket, move |db| blobs::seal(db, &seal)).await? == More::Yes {
            // The blob is there. What stays of the upload is removed by the next sweep.
            let _rest = self.remove_given_up().await;
        }
        Ok(())
    }

    async fn blob(&self, query: BlobQuery) -> Result<Option<BlobPart>> {
        self.readers.read(format!("read blob {}", query.blob), move |db| blobs::read(db, &query)).await
    }

    async fn blobs(&self, session: SessionId) -> Result<Vec<BlobId>> {
        self.read("blobs", session, blobs::used).await
    }

    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>> {
        self.find(query).await
    }

    async fn sweep(&self, before: Timestamp) -> Result<Swept> {
        self.sweep_now(before).await
    }

    async fn backup(&self, to: PathBuf) -> Result<()> {
        self.back_up(to).await
    }

    async fn vacuum(&self) -> Result<()> {
        self.vacuum_now().await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.check_now().await
    }

    async fn owner(&self) -> Option<OwnerId> {
        Some(self.owners.own())
    }

    async fn stats(&self) -> Result<Stats> {
        Ok(self.writer.stats())
    }
}

/// For tests: a file with the schema and nothing in it, and a connection to it.
#[cfg(test)]
fn empty() -> (tempfile::TempDir, Connection) {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let path = directory.path().join("work.db");
    let options = Options::new(everturn_testkit::store::scene::owner());
    drop(everturn_testkit::block_on(Sqlite::open(path.clone(), options)).expect("the store opens"));
    (directory, Connection::open(path).expect("the file opens"))
}

/// For tests: the steps that SQLite takes to answer a query.
#[cfg(test)]
fn plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("it is SQL");
    let steps = explain.raw_query().mapped(|row| row.get::<_, String>(3));
    steps.map(|step| step.expect("it is text")).collect()
}
