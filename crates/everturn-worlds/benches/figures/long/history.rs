//! A history of many entries, and of many operations on one document.

use std::path::PathBuf;

use everturn::{
    Document,
    clock::Timestamp,
    document::{self, ForkPolicy, History as Kept, ScopeKey},
    entry::{Entry, EntryRecord},
    id::{ConversationId, DocumentId, EntryId, SessionId},
    json::RawJson,
    kernel::Session,
    message::Message,
    storage::{Batch, Committed, DocumentRecord, DocumentWrite, Due, Durability, Revision, Write},
};
use serde::{Deserialize, Serialize};

use crate::scene::{open, session, text};

/// Entries of one commit.
const COMMIT: usize = 2_000;
/// After how many operations there is an entry that the document can be read as of.
const STEP: usize = 20;

/// A document of about one kilobyte.
#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "bench.plan", scope = "conversation", history = "rewindable")]
pub(super) struct Plan {
    text: String,
    pub(super) step: usize,
}

/// A closed store with one session in it.
pub(super) struct History {
    pub(super) file: PathBuf,
    pub(super) session: SessionId,
    /// Entries, each with the step that the document had reached by then.
    pub(super) past: Vec<(EntryId, usize)>,
}

impl History {
    /// First the operations, then the entries.
    pub(super) async fn make(file: PathBuf, entries: usize, operations: usize) -> Self {
        let store = open(&file).await;
        let session = session(&store).await;
        let past = revise(&session, operations).await;
        // The head has moved behind the handle's back.
        let (id, epoch, owner) = (session.id(), session.epoch(), session.owner());
        store.release(id, owner, epoch).await.expect("it is ours");
        let opener = everturn::kernel::Opener::new(store.clone(), everturn::World::system()).await;
        drop(session);
        let session = Session::open(&opener, id).await.expect("it is free");
        for from in (0..entries).step_by(COMMIT) {
            let mut tx = session.begin().await.expect("the session is ours");
            for number in from..entries.min(from + COMMIT) {
                let entry = Entry::new("bench.note").message(Message::user(text(number, 320)));
                tx.append(ConversationId::ROOT, entry).expect("a small entry");
            }
            tx.commit().await.expect("a commit");
        }
        session.close().await.expect("it is ours");
        Self { file, session: id, past }
    }
}

/// One operation a commit, as the engine stores them (a base when the deltas since the last outweigh it), but without
/// a sync each.
async fn revise(session: &Session, operations: usize) -> Vec<(EntryId, usize)> {
    let record = DocumentRecord {
        id: DocumentId(10),
        scope: ScopeKey::Conversation(ConversationId::ROOT),
        kind: Plan::KIND.into(),
        history: Kept::Rewindable,
        fork: ForkPolicy::Initial,
    };
    let text = text(0, 1_000);
    let value = |step| serde_json::to_value(Plan { text: text.clone(), step }).expect("a plan is JSON");
    let (mut seq, mut since) = (session.head(), usize::MAX);
    let mut past = Vec::new();
    for step in 1..=operations {
        seq = seq.next();
        let delta =
            RawJson::of(&document::diff(&value(step - 1), &value(step))).expect("operations are JSON");
        let base = RawJson::of(&value(step)).expect("a plan is JSON");
        since = since.saturating_add(delta.get().len());
        let revision = match since > base.get().len() {
            true => {
                since = 0;
                Revision::Base { version: Plan::VERSION, value: base }
            }
            false => Revision::Delta { operations: delta },
        };
        let number = step as u64;
        let mut writes = vec![Write::Document(DocumentWrite { record: record.clone(), number, revision })];
        let minted = 10 + number;
        if step % STEP == 0 {
            let (id, conversation, entry) = (EntryId(minted), ConversationId::ROOT, Entry::new("bench.step"));
            writes.push(Write::Entry(EntryRecord {
                id,
                conversation,
                seq,
                time: Timestamp(0),
                task: None,
                entry,
            }));
            past.push((id, step));
        }
        let batch = Batch {
            session: session.id(),
            owner: session.owner(),
            epoch: session.epoch(),
            seq,
            time: Timestamp(0),
            durability: Durability::Relaxed,
            minted,
            due: Due::None,
            writes: writes.into(),
        };
        assert_eq!(session.store().commit(batch).await.expect("a commit"), Committed::Stored);
    }
    past
}
