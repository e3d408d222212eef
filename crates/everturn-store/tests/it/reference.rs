//! Views, changes and lists against those of the memory store, over histories drawn from seeds.

use std::collections::BTreeMap;

use everturn_core::{
    approval::{ApprovalRecord, Decision},
    clock::Timestamp,
    conversation::Conversation,
    document::{ForkPolicy, History, ScopeKey},
    entry::Head,
    id::{ConversationId, DocumentId, EntryId, Epoch, Seq, TaskId},
    json::RawJson,
    memory::Memory,
    storage::{
        ApprovalQuery, Batch, ChangeQuery, Code, DocumentRecord, DocumentWrite, Due, Durability, NewSession,
        Part, Revision, RunnableQuery, SessionQuery, Store, ViewQuery, Write,
    },
    submission::{End, SubmissionRecord, SubmissionState},
    task::{TaskOutcome, TaskRecord, TaskState, WaitPolicy},
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, UNTIL, creation, json},
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
    approvals: Vec<ApprovalRecord>,
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
            approvals: vec![],
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
        match self.draw(12) {
            0..=2 => Some(self.entry()),
            3 if self.draw(3) == 0 => Some(self.fork()),
            4 | 5 => Some(self.task()),
            6 => Some(self.submission()),
            7..=9 => self.document(),
            10 if self.draw(4) == 0 => Some(self.trim()),
            11 => self.approval(),
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
        let owner = (!self.tasks.is_empty()).then(|| self.draw(self.tasks.len()));
        let owner = owner.map(|at| self.tasks[at].id);
        let fork = self.conversation().fork(id, at, owner, Timestamp(7));
        self.conversations.push(fork.clone());
        fork.into_write()
    }

    fn task(&mut self) -> Write {
        if self.tasks.is_empty() || self.draw(2) == 0 {
            let mut task = self.scene.task();
            task.conversation = self.conversation().id;
            task.owner = self.any_task();
            self.tasks.push(task.clone());
            return task.into_write();
        }
        let (at, on) = (self.draw(self.tasks.len()), self.any_task());
        if let Some(on) = on.filter(|_| self.draw(3) == 0) {
            let (checkpoint, policy) = (RawJson::empty(), WaitPolicy::AllSettled);
            self.tasks[at].go(TaskState::Waiting { checkpoint, on: vec![on], policy, joined: false });
            return self.tasks[at].clone().into_write();
        }
        let mut task = self.tasks.swap_remove(at);
        task.end(TaskOutcome::Completed { output: RawJson::empty() }, Timestamp(8));
        task.into_write()
    }

    /// One that lives now, or none.
    fn any_task(&mut self) -> Option<TaskId> {
        let at = self.draw(self.tasks.len() + 1);
        self.tasks.get(at).map(|task| task.id)
    }

    fn trim(&mut self) -> Write {
        let head = usize::try_from(self.scene.lease.head.0).unwrap();
        Write::Trim(Seq(self.draw(head) as u64))
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

    fn approval(&mut self) -> Option<Write> {
        if self.approvals.is_empty() || self.draw(2) == 0 {
            let at = self.draw(self.tasks.len().max(1));
            let approval = self.scene.approval(self.tasks.get(at)?);
            self.approvals.push(approval.clone());
            return Some(approval.into_write());
        }
        let at = self.draw(self.approvals.len());
        Some(Scene::decided(self.approvals.swap_remove(at), Decision::DidNotHappen).into_write())
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
            let all = ApprovalQuery::of(session);
            let expected = memory.approvals(all.clone()).await.unwrap();
            assert_eq!(sqlite.approvals(all).await.unwrap(), expected, "seed {seed}");
            let unknown = ViewQuery { session, part: Part::Conversation(ConversationId(9_999)) };
            let expected = memory.view(unknown.clone()).await.unwrap_err();
            assert_eq!(sqlite.view(unknown).await.unwrap_err().to_string(), expected.to_string());
        });
    }
}

/// A session in both stores that wants to run for any reasons, or none; some are owned.
async fn want(memory: &Store, sqlite: &Store, (n, life): (u16, &mut Life)) {
    let mut scene = Scene::create(memory, n, NewSession::default()).await;
    Scene::create(sqlite, n, NewSession::default()).await;
    let mut writes = Vec::new();
    for _ in 0..life.draw(3) {
        let kind = ["app.pay", "app.paint"][life.draw(2)].to_owned();
        let needs = u32::try_from(life.draw(4)).unwrap();
        let mut task = Scene::blocked(TaskRecord { kind, ..scene.task() }, needs);
        if life.draw(3) == 0 {
            task.end(TaskOutcome::Orphaned { reason: "enough".into() }, Timestamp(8));
        }
        writes.push(task.into_write());
    }
    let at = |time: usize| Due::At(Timestamp(i64::try_from(time).unwrap()));
    let due = [Due::None, Due::Now, at(10 + life.draw(30))][life.draw(3)];
    let batch = Batch { due, ..scene.batch(writes) };
    let (mail, is_owned, has_mail) = (scene.mail("signal 5"), life.draw(4) == 0, life.draw(4) == 0);
    for store in [memory, sqlite] {
        store.commit(batch.clone()).await.unwrap();
        if has_mail {
            store.post(mail.clone()).await.unwrap();
        }
        if !is_owned {
            store.release(scene.id(), scene.lease.owner, scene.lease.epoch).await.unwrap();
        }
    }
}

#[test]
fn what_is_runnable_is_what_the_memory_store_says() {
    let code = |kind: &str, version| Code { kind: kind.into(), version };
    let codes = [
        vec![],
        vec![code("app.pay", 1)],
        vec![code("app.paint", 0), code("app.pay", 2)],
        vec![code("app.pay", 9), code("app.paint", 9), code("app.pay", 1)],
    ];
    for seed in 0..6 {
        let file = Temporary::new();
        block_on(async {
            let (memory, sqlite) = (Store::new(Memory::new()), file.open().await);
            let mut life = Life::new(&Store::new(Memory::new()), seed).await;
            for n in 1..=16 {
                want(&memory, &sqlite, (n, &mut life)).await;
            }
            for (now, limit) in [0, 20, UNTIL.0 - 1, UNTIL.0].iter().flat_map(|now| [(now, 3), (now, 99)]) {
                for code in &codes {
                    let query = RunnableQuery { now: Timestamp(*now), code: code.clone(), limit };
                    let expected = memory.runnable(query.clone()).await.unwrap();
                    assert_eq!(sqlite.runnable(query.clone()).await.unwrap(), expected, "{seed}, {query:?}");
                }
            }
            assert_eq!(sqlite.next_due().await.unwrap(), memory.next_due().await.unwrap());
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
