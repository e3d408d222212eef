//! Work that owns a conversation: one commit makes a background task, a child conversation that it owns, and a registry
//! that names the child. All of it or none: a store that fails in that commit leaves nothing behind.

use std::sync::atomic::{AtomicBool, Ordering};

use everturn::{
    Document, Error, World,
    conversation::Ownership,
    entry::Entry,
    id::{ConversationId, TaskId},
    kernel::{Memory, NewTask, Opener, Session},
    storage::{Batch, Committed, Layer, Layered, NewSession, TaskQuery},
    store::Store,
};
use serde::{Deserialize, Serialize};

/// Which children a conversation has. A fork starts without: its parent's children are not its own.
#[derive(Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "example.registry", scope = "conversation", history = "latest", fork = "initial")]
struct Registry {
    child: Option<Child>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Child {
    conversation: ConversationId,
    task: TaskId,
    /// The request id of the child's first message: fixed here, so that sending it twice sends it once.
    first: String,
}

/// A store that fails the next commit when it is told to.
struct Failing(Store, &'static AtomicBool);

impl Layer for Failing {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn commit(&self, batch: Batch) -> everturn::Result<Committed> {
        if self.1.swap(false, Ordering::SeqCst) {
            return Err(Error::unavailable("commit: there is no room"));
        }
        self.0.commit(batch).await
    }
}

#[tokio::main]
async fn main() -> everturn::Result<()> {
    static FAILS: AtomicBool = AtomicBool::new(false);
    let store = Store::new(Layered(Failing(Store::new(Memory::new()), &FAILS)));
    let opener = Opener::new(store, World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await?;
    let root = ConversationId::ROOT;

    FAILS.store(true, Ordering::SeqCst);
    let error = delegate(&session).await.expect_err("the store fails");
    println!("refused: {error}");
    assert_eq!(tasks(&session).await?, 0);
    assert_eq!(session.snapshot::<Registry>(root).await?, None);
    assert_eq!(session.head().0, 1, "the session is as it was");

    let child = delegate(&session).await?;
    assert_eq!(tasks(&session).await?, 1);
    assert_eq!(session.conversation(child.conversation).await?.owner, Some(child.task));
    assert_eq!(
        session.snapshot::<Registry>(root).await?.and_then(|registry| registry.child),
        Some(child.clone())
    );

    // A fork of the parent begins with what `initial` says: nothing.
    let mut tx = session.begin().await?;
    let entry = tx.append(root, Entry::new("app.note"))?;
    let fork = tx.fork(root, entry, Ownership::Ownerless).await?;
    tx.commit().await?;
    assert_eq!(session.snapshot::<Registry>(fork).await?, None);

    println!(
        "task {} owns conversation {}; its first message is {:?}",
        child.task, child.conversation, child.first
    );
    Ok(())
}

/// Makes the task, its conversation and the note of both, in one commit.
async fn delegate(session: &Session) -> everturn::Result<Child> {
    let root = ConversationId::ROOT;
    let mut tx = session.begin().await?;
    let task = tx.create_task(NewTask { background: true, ..NewTask::new(root, "example.research", 1) })?;
    let conversation = tx.create_conversation(Ownership::Task(task));
    let child = Child { conversation, task, first: format!("research-{task}") };
    tx.doc::<Registry>(root).await?.child = Some(child.clone());
    tx.commit().await?;
    Ok(child)
}

async fn tasks(session: &Session) -> everturn::Result<usize> {
    let live = TaskQuery::live(session.id());
    Ok(session.store().tasks(live).await?.len())
}
