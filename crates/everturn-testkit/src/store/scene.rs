//! A session to act on: keeps lease, head and ids, so that a promise only says what matters to it.

use everturn_core::{
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    conversation::{Conversation, Lineage},
    entry::{Entry, EntryRecord},
    error::Result,
    id::{ApprovalId, ConversationId, EntryId, Epoch, OwnerId, Seq, SessionId, SubmissionId, TaskId},
    json::RawJson,
    message::Message,
    storage::{
        Batch, Claim, Committed, Create, Created, Due, Durability, EntryQuery, Lease, Mail, MailKind,
        NewSession, Store, Write,
    },
    submission::{End, LOCAL, Queued, SubmissionRecord, SubmissionState},
    task::{Blocked, BlockedBy, TaskOutcome, TaskRecord},
};

/// Who a store under test is opened for.
pub const OWNER: &str = "0198c0de-0000-7000-8000-0000000000aa";

/// When the leases of scenes end. Promises name their own time, so this is only a number.
pub const UNTIL: Timestamp = Timestamp(30_000);

/// The owner that the store was opened for.
pub fn owner() -> OwnerId {
    OWNER.parse().expect("the constant is an owner id")
}

/// Some other owner, of whom nothing is known.
pub fn other() -> OwnerId {
    "0198c0de-0000-7000-8000-0000000000bb".parse().expect("the text is an owner id")
}

/// The id of the `n`th session. Later numbers are newer.
pub fn session_id(n: u16) -> SessionId {
    format!("0198c0de-0000-7000-8000-{n:012x}").parse().expect("the text is a session id")
}

/// A session that this scene owns, with the root conversation in its first commit.
///
/// ```
/// # use everturn_core::{memory::Memory, storage::Store};
/// # use everturn_testkit::store::scene::{IntoWrite, Scene};
/// # everturn_testkit::block_on(async {
/// let store = Store::new(Memory::new());
/// let mut scene = Scene::new(&store).await;
/// let hello = scene.entry("hello");
/// scene.commit(vec![hello.clone().into_write()]).await.unwrap();
/// assert_eq!(scene.texts().await, ["hello"]);
/// # });
/// ```
pub struct Scene {
    /// The store.
    pub store: Store,
    /// The lease under which the scene commits.
    pub lease: Lease,
    minted: u64,
}

/// What a record is as a write.
///
/// ```
/// use everturn_core::{clock::Timestamp, conversation::Conversation, id::ConversationId, storage::Write};
/// use everturn_testkit::store::scene::IntoWrite;
///
/// let root = Conversation::new(ConversationId::ROOT, None, Timestamp(0));
/// assert_eq!(root.clone().into_write(), Write::Conversation(root));
/// ```
pub trait IntoWrite {
    /// The write that stores it.
    fn into_write(self) -> Write;
}

macro_rules! into_write {
    ($($record:ty => $write:ident),+) => {
        $(impl IntoWrite for $record {
            fn into_write(self) -> Write {
                Write::$write(self)
            }
        })+
    };
}

into_write! { EntryRecord => Entry, Conversation => Conversation, TaskRecord => Task, SubmissionRecord => Submission,
ApprovalRecord => Approval }

impl Scene {
    /// The scene of session 1.
    pub async fn new(store: &Store) -> Self {
        Self::create(store, 1, NewSession::default()).await
    }

    /// The scene of the `n`th session.
    pub async fn create(store: &Store, n: u16, new: NewSession) -> Self {
        let created = store.create(creation(n, new)).await.expect("the session can be created");
        let Created::New(lease) = created else { panic!("session {n} was there already") };
        Self::of(store, lease)
    }

    /// The scene of a session that was claimed.
    pub fn of(store: &Store, lease: Lease) -> Self {
        Self { store: store.clone(), minted: lease.minted, lease }
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        self.lease.session
    }

    /// A new id of the session's number space.
    pub fn mint(&mut self) -> u64 {
        self.minted += 1;
        self.minted
    }

    /// The next batch, durable.
    pub fn batch(&self, writes: Vec<Write>) -> Batch {
        let Seq(head) = self.lease.head;
        Batch {
            session: self.lease.session,
            owner: self.lease.owner,
            epoch: self.lease.epoch,
            seq: self.lease.head.next(),
            time: Timestamp(i64::try_from(head).unwrap_or(0) * 1_000),
            durability: Durability::Durable,
            minted: self.minted,
            due: Due::None,
            writes: writes.into(),
        }
    }

    /// Commits a batch, and follows the head when it is stored.
    pub async fn send(&mut self, batch: Batch) -> Result<Committed> {
        let seq = batch.seq;
        let committed = self.store.commit(batch).await?;
        self.lease.head = seq;
        Ok(committed)
    }

    /// Commits writes, durably.
    pub async fn commit(&mut self, writes: Vec<Write>) -> Result<Committed> {
        self.send(self.batch(writes)).await
    }

    /// An entry of the root conversation that the next commit stores.
    pub fn entry(&mut self, text: &str) -> EntryRecord {
        self.entry_in(ConversationId::ROOT, text)
    }

    /// An entry of a conversation that the next commit stores.
    pub fn entry_in(&mut self, conversation: ConversationId, text: &str) -> EntryRecord {
        EntryRecord {
            id: EntryId(self.mint()),
            conversation,
            seq: self.lease.head.next(),
            time: Timestamp(7),
            task: None,
            entry: Entry::new("et.user").message(Message::user(text)),
        }
    }

    /// Appends texts to a conversation, a commit each, and gives the last entry's id.
    pub async fn say(&mut self, conversation: ConversationId, texts: &[&str]) -> EntryId {
        let mut last = EntryId(0);
        for text in texts {
            let entry = self.entry_in(conversation, text);
            last = entry.id;
            self.commit(vec![entry.into_write()]).await.expect("the entry can be stored");
        }
        last
    }

    /// Forks a conversation and stores the fork.
    pub async fn fork(&mut self, of: &Conversation, at: EntryId) -> Conversation {
        let fork = of.fork(ConversationId(self.mint()), at, None, Timestamp(7));
        self.commit(vec![fork.clone().into_write()]).await.expect("the fork can be stored");
        fork
    }

    /// The root conversation as it is stored.
    pub async fn root(&self) -> Conversation {
        let root = self.store.conversation(self.id(), ConversationId::ROOT).await;
        root.expect("it can be read").expect("a scene begins with it")
    }

    /// A task that the next commit creates.
    pub fn task(&mut self) -> TaskRecord {
        TaskRecord::new(TaskId(self.mint()), ConversationId::ROOT, "app.pay", Timestamp(7))
    }

    /// A submission to the root conversation that the next commit creates.
    pub fn submission(&mut self, request: Option<&str>) -> SubmissionRecord {
        SubmissionRecord {
            id: SubmissionId(self.mint()),
            conversation: ConversationId::ROOT,
            request: request.map(str::to_owned),
            actor: LOCAL.into(),
            state: SubmissionState::Queued(Queued::default()),
            time: Timestamp(7),
        }
    }

    /// A question of a task that the next commit opens.
    pub fn approval(&mut self, call: &TaskRecord) -> ApprovalRecord {
        ApprovalRecord {
            id: ApprovalId(self.mint()),
            conversation: call.conversation,
            call: call.id,
            turn: None,
            question: Question::Unknown { tool: "pay".into(), arguments: json(r#"{ "amount":1.50 }"#) },
            state: ApprovalState::Open,
            until: None,
            time: Timestamp(7),
        }
    }

    /// Decides an approval.
    pub fn decided(approval: ApprovalRecord, decision: Decision) -> ApprovalRecord {
        let state = ApprovalState::Decided { decision, actor: LOCAL.into(), time: Timestamp(9) };
        ApprovalRecord { state, ..approval }
    }

    /// Ends a task.
    pub fn ended(mut task: TaskRecord) -> TaskRecord {
        task.end(TaskOutcome::Completed { output: json("1") }, Timestamp(9));
        task
    }

    /// Has a task wait for code of its kind, of a version or newer.
    pub fn blocked(task: TaskRecord, needs: u32) -> TaskRecord {
        let message = format!("no code of kind {} is installed", task.kind);
        TaskRecord { blocked: Some(Blocked { by: BlockedBy::Missing, needs, message }), ..task }
    }

    /// Settles a submission.
    pub fn settled(submission: SubmissionRecord) -> SubmissionRecord {
        SubmissionRecord { state: SubmissionState::Settled { end: End::Answered, place: None }, ..submission }
    }

    /// Mail for the session, under a key.
    pub fn mail(&self, key: &str) -> Mail {
        Mail {
            session: self.id(),
            key: key.into(),
            kind: MailKind::Signal,
            conversation: None,
            request: None,
            actor: "local".into(),
            time: Timestamp(7),
            body: json(r#"{ "b":1.0, "a":2 }"#),
        }
    }

    /// Claims the session after the lease has ended, and goes on under the new one.
    pub async fn claim_again(&mut self) {
        let claim = self.claim(owner(), self.lease.until);
        self.lease = self.store.claim(claim).await.expect("an expired lease can be claimed");
    }

    /// A claim of the session by `owner` at `now`, until [`UNTIL`] later.
    pub fn claim(&self, owner: OwnerId, now: Timestamp) -> Claim {
        Claim { session: self.id(), owner, now, until: Timestamp(now.0 + UNTIL.0) }
    }

    /// A query of all that the root conversation sees.
    pub fn all(&self) -> EntryQuery {
        EntryQuery::of(self.id(), Lineage::new(ConversationId::ROOT))
    }

    /// What the root conversation says, newest first.
    pub async fn texts(&self) -> Vec<String> {
        self.texts_of(self.all()).await
    }

    /// What a query finds, as texts.
    pub async fn texts_of(&self, query: EntryQuery) -> Vec<String> {
        texts(&self.store.entries(query).await.expect("entries can be read"))
    }
}

/// What entries say.
pub fn texts(entries: &[EntryRecord]) -> Vec<String> {
    let text = |entry: &EntryRecord| entry.messages.iter().map(|message| message.text()).collect();
    entries.iter().map(text).collect()
}

/// The creation of the `n`th session, with the root conversation.
pub fn creation(n: u16, new: NewSession) -> Create {
    let root = Conversation::new(ConversationId::ROOT, None, Timestamp(0));
    let first = Batch {
        session: session_id(n),
        owner: owner(),
        epoch: Epoch(1),
        seq: Seq(1),
        time: Timestamp(0),
        durability: Durability::Durable,
        minted: 1,
        due: Due::None,
        writes: [root.into_write()].into(),
    };
    Create { new, first, until: UNTIL }
}

/// JSON that is known to be right.
pub fn json(text: &str) -> RawJson {
    RawJson::parse(text).expect("the test's own JSON")
}
