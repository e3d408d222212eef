//! Views, changes and lists against those of the memory store, over histories drawn from seeds.

use std::collections::BTreeMap;

use everturn_core::{
    clock::Timestamp,
    conversation::Conversation,
    document::{ForkPolicy, History, ScopeKey},
    entry::Head,
    id::{ConversationId, DocumentId, EntryId, Epoch, Seq},
    json::RawJson,
    memory::Memory,
    storage::{
        ChangeQuery, DocumentRecord, DocumentWrite, Durability, NewSession, Part, Revision, SessionQuery,
        Store, ViewQuery, Write,
    },
    submission::{End, SubmissionRecord, SubmissionState},
    task::{TaskOutcome, TaskRecord},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, creation, json},
};

use crate::files::Temporary;

const COMMITS: u64 = 60;

/// A session that lives at random.
struct Life {
    scene: Scene,
    random: u64,
    conversations: Vec<Conversation>,
    tasks: Vec<TaskRecord>,
    submissions: Vec<SubmissionRecord>,
    documents: Vec<(DocumentRecord, u64)>,
}

impl Life {
    async fn new(store: &Store, seed: u64) -> Self {
        let scene = Scene::new(store).await;
        let conversations = vec![scene.root().await];
        Self {
            scene,
            random: seed * 2 + 1,
            conversations,
            tasks: vec![],
            submissions: vec![],
            documents: vec![],
        }
    }

    /// A number below `end`.
    fn draw(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % end as u64).unwrap()
    }

    fn write(&mut self) -> Option<Write> {
        match self.draw(10) {
            0..=2 => Some(self.entry()),
            3 if self.draw(3) == 0 => Some(self.fork()),
            4 | 5 => Some(self.task()),
            6 => Some(self.submission()),
            7.. => self.document(),
            _ => None,
        }
    }

    fn conversation(&mut self) -> &Conversation {
        let at = self.draw(self.conversations.len());
        &self.conversations[at]
    }

    fn entry(&mut self) -> Write {
        let conversation = self.conversation().id;
        let mut entry = self.scene.entry_in(conversation, "hello");
        if self.draw(9) == 0 {
            entry.entry.head = Some(Head::Itself);
        }
        entry.into_write()
    }

    fn fork(&mut self) -> Write {
        let (id, at) = (ConversationId(self.scene.mint()), EntryId(self.scene.lease.head.0));
        let fork = self.conversation().fork(id, at, None, Timestamp(7));
        self.conversations.push(fork.clone());
        fork.into_write()
    }

    fn task(&mut self) -> Write {
        if self.tasks.is_empty() || self.draw(2) == 0 {
            let mut task = self.scene.task();
            task.conversation = self.conversation().id;
            self.tasks.push(task.clone());
            return task.into_write();
        }
        let at = self.draw(self.tasks.len());
        let mut task = self.tasks.swap_remove(at);
        task.end(TaskOutcome::Completed { output: RawJson::empty() }, Timestamp(8));
        task.into_write()
    }

    fn submission(&mut self) -> Write {
        if self.submissions.is_empty() || self.draw(2) == 0 {
            let submission = self.scene.submission(None);
            self.submissions.push(submission.clone());
            return submission.into_write();
        }
        let at = self.draw(self.submissions.len());
        let mut submission = self.submissions.swap_remove(at);
        submission.state = SubmissionState::Settled { end: End::Answered, place: None };
        submission.into_write()
    }

    fn document(&mut self) -> Option<Write> {
        if self.documents.len() < 3 && self.draw(2) == 0 {
            let record = self.record();
            self.documents.push((record, 0));
        }
        let at = self.draw(self.documents.len().max(1));
        let what = self.draw(8);
        let (record, number) = self.documents.get_mut(at)?;
        *number += 1;
        let revision = match what {
            _ if *number == 1 => Revision::Base { version: 1, value: json("0") },
            0 => Revision::Retired,
            1 | 2 => Revision::Base { version: 1, value: json(&number.to_string()) },
            _ => Revision::Delta { operations: json(&format!("[{number}]")) },
        };
        let write = DocumentWrite { record: record.clone(), number: *number, revision };
        if write.revision == Revision::Retired {
            self.documents.remove(at);
        }
        Some(Write::Document(write))
    }

    fn record(&mut self) -> DocumentRecord {
        let conversation = self.conversation().id;
        let scope = [ScopeKey::Session, ScopeKey::Conversation(conversation)][self.draw(2)];
        DocumentRecord {
            id: DocumentId(self.scene.mint()),
            scope,
            kind: ["app.notes", "app.plan"][self.draw(2)].into(),
            history: [History::Latest, History::Rewindable][self.draw(2)],
            fork: ForkPolicy::Initial,
        }
    }
}

/// Lives the same life in both stores.
async fn live(memory: &Store, sqlite: &Store, seed: u64) -> Life {
    let mut life = Life::new(memory, seed).await;
    Scene::create(sqlite, 1, NewSession::default()).await;
    for _ in 0..COMMITS {
        let writes = (0..life.draw(4)).filter_map(|_| life.write()).collect();
        let mut batch = life.scene.batch(writes);
        batch.durability = Durability::Relaxed;
        life.scene.send(batch.clone()).await.unwrap();
        sqlite.commit(batch).await.unwrap();
    }
    life
}

#[test]
fn what_changed_is_what_the_memory_store_says() {
    let mut before = 0;
    for seed in 0..12 {
        block_on(async {
            let file = Temporary::new();
            let (memory, sqlite) = (Store::new(Memory::new()), file.open().await);
            let life = live(&memory, &sqlite, seed).await;
            let session = life.scene.id();
            for (after, limit) in (0..=COMMITS + 2).flat_map(|after| [(after, 1), (after, 5), (after, 1_000)])
            {
                let query = ChangeQuery { session, epoch: Epoch(0), after: Seq(after), limit };
                let expected = memory.changes(query).await.unwrap();
                before += expected.before.len();
                assert_eq!(sqlite.changes(query).await.unwrap(), expected, "seed {seed}, {query:?}");
            }
        });
    }
    assert!(before > 100, "{before} documents began with a delta");
}

#[test]
fn a_view_is_what_the_memory_store_says() {
    for seed in 0..12 {
        block_on(async {
            let file = Temporary::new();
            let (memory, sqlite) = (Store::new(Memory::new()), file.open().await);
            let life = live(&memory, &sqlite, seed).await;
            let conversations = life.conversations.iter().map(|one| Part::Conversation(one.id));
            let documents = ["app.notes", "app.plan"]
                .map(|kind| Part::Document { scope: ScopeKey::Session, kind: kind.into() });
            let session = life.scene.id();
            for part in conversations.chain(documents).chain([Part::Tasks, Part::Everything]) {
                let query = ViewQuery { session, part };
                let expected = memory.view(query.clone()).await.unwrap();
                assert_eq!(sqlite.view(query.clone()).await.unwrap(), expected, "seed {seed}, {query:?}");
            }
            let rows = memory.sessions(SessionQuery::default()).await.unwrap();
            assert_eq!(sqlite.sessions(SessionQuery::default()).await.unwrap(), rows, "bytes too");
            let unknown = ViewQuery { session, part: Part::Conversation(ConversationId(9_999)) };
            let expected = memory.view(unknown.clone()).await.unwrap_err();
            assert_eq!(sqlite.view(unknown).await.unwrap_err().to_string(), expected.to_string());
        });
    }
}

#[test]
fn a_filtered_list_is_what_the_memory_store_says() {
    let file = Temporary::new();
    block_on(async {
        let (memory, sqlite) = (Store::new(Memory::new()), file.open().await);
        for n in 1..=8 {
            let mut labels =
                BTreeMap::from([("team".to_owned(), ["blue", "red"][usize::from(n % 2)].to_owned())]);
            if n > 4 {
                labels.insert("it's \"quoted\"".into(), "1".into());
            }
            let mut create =
                creation(n, NewSession { labels, request: Some(n.to_string()), ..Default::default() });
            create.first.time = Timestamp(i64::from(n % 4));
            memory.create(create.clone()).await.unwrap();
            sqlite.create(create).await.unwrap();
        }
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let labels = [
            vec![],
            vec![pair("team", "blue")],
            vec![pair("team", "blue"), pair("it's \"quoted\"", "1")],
            vec![pair("team", "1")],
            vec![pair("none", "blue")],
        ];
        let times = [None, Some(Timestamp(0)), Some(Timestamp(2)), Some(Timestamp(9))];
        for labels in labels.map(BTreeMap::from_iter) {
            for (used_from, used_before) in times.iter().flat_map(|from| times.map(|before| (*from, before)))
            {
                for request in [None, Some("3".to_owned())] {
                    let labels = labels.clone();
                    let query = SessionQuery {
                        labels,
                        used_from,
                        used_before,
                        request,
                        limit: 3,
                        ..Default::default()
                    };
                    let expected = memory.sessions(query.clone()).await.unwrap();
                    assert_eq!(sqlite.sessions(query.clone()).await.unwrap(), expected, "{query:?}");
                    let after = expected.last().map(|row| row.id);
                    let next = SessionQuery { after, ..query };
                    let expected = memory.sessions(next.clone()).await.unwrap();
                    assert_eq!(sqlite.sessions(next.clone()).await.unwrap(), expected, "{next:?}");
                }
            }
        }
    });
}
