//! A document to act on: keeps its record and counts its revisions.

use std::sync::atomic::{AtomicU64, Ordering};

use everturn_core::{
    document::{ForkPolicy, History, ScopeKey},
    id::{ConversationId, DocumentId, Seq},
    storage::{DocumentChange, DocumentQuery, DocumentRecord, DocumentState, DocumentWrite, Revision, Write},
};

use super::scene::{Scene, json};

/// A document of the root conversation; its values are of version 3.
///
/// ```
/// # use everturn_core::{document::History, memory::Memory, storage::Store};
/// # use everturn_testkit::store::{notes::Notes, scene::Scene};
/// # everturn_testkit::block_on(async {
/// let mut scene = Scene::new(&Store::new(Memory::new())).await;
/// let notes = Notes::new(&mut scene, History::Latest);
/// scene.commit(vec![notes.base("0"), notes.delta("[1]")]).await.unwrap();
/// assert_eq!(notes.read(&scene, None).await, [notes.state("0", &["[1]"], [2, 2])]);
/// # });
/// ```
pub struct Notes {
    /// What the store knows of it.
    pub record: DocumentRecord,
    count: AtomicU64,
}

impl Notes {
    /// A document that nothing was written of yet.
    pub fn new(scene: &mut Scene, history: History) -> Self {
        let record = DocumentRecord {
            id: DocumentId(scene.mint()),
            scope: ScopeKey::Conversation(ConversationId::ROOT),
            kind: "app.notes".into(),
            history,
            fork: ForkPolicy::Initial,
        };
        Self { record, count: AtomicU64::new(0) }
    }

    fn write(&self, revision: Revision) -> Write {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        Write::Document(DocumentWrite { record: self.record.clone(), number, revision })
    }

    /// The next revision, a base.
    pub fn base(&self, value: &str) -> Write {
        self.write(Revision::Base { version: 3, value: json(value) })
    }

    /// The next revision, a delta.
    pub fn delta(&self, operations: &str) -> Write {
        self.write(Revision::Delta { operations: json(operations) })
    }

    /// The last revision.
    pub fn retired(&self) -> Write {
        self.write(Revision::Retired)
    }

    /// What is read of it, its newest revision being of this commit and having this number.
    pub fn state(&self, base: &str, deltas: &[&str], [seq, number]: [u64; 2]) -> DocumentState {
        DocumentState {
            record: self.record.clone(),
            version: 3,
            base: json(base),
            deltas: deltas.iter().map(|delta| json(delta)).collect(),
            seq: Seq(seq),
            number,
        }
    }

    /// What is told of a revision that a write stored.
    pub fn told(&self, write: &Write) -> DocumentChange {
        let Write::Document(write) = write else { panic!("{write:?} is no revision") };
        let (record, revision) = (write.record.clone(), write.revision.clone());
        DocumentChange { record, number: write.number, revision }
    }

    /// The documents of its kind and scope, now or as of a commit.
    pub async fn read(&self, scene: &Scene, at: Option<u64>) -> Vec<DocumentState> {
        let query = DocumentQuery {
            session: scene.id(),
            scope: self.record.scope,
            kind: Some(self.record.kind.clone()),
            at: at.map(Seq),
        };
        scene.store.documents(query).await.expect("documents can be read")
    }
}
