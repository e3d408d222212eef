//! All of a batch or none of it.

use everturn_core::{
    clock::Timestamp,
    conversation::Conversation,
    document::{ForkPolicy, History, ScopeKey},
    entry::{Edit, Entry, Head},
    error::ErrorKind,
    id::{ConversationId, DocumentId, EntryId, TaskId},
    message::{Assistant, Message, Part, Usage},
    storage::{
        DocumentQuery, DocumentRecord, DocumentWrite, NewSession, Revision, Store, SubmissionFilter,
        SubmissionQuery, TaskQuery, Write,
    },
    usage::{RequestEnd, UsageRow},
};

use super::scene::{IntoWrite, Scene, creation, json, session_id};

fn all_tasks(scene: &Scene) -> TaskQuery {
    TaskQuery { session: scene.id(), live: false, ids: None, owner: None }
}

fn live_submissions(scene: &Scene) -> SubmissionQuery {
    SubmissionQuery { session: scene.id(), only: SubmissionFilter::Live }
}

fn notes(scene: &Scene) -> DocumentQuery {
    DocumentQuery { session: scene.id(), scope: ScopeKey::Session, kind: None, at: None }
}

fn notes_write(id: u64) -> Write {
    let record = DocumentRecord {
        id: DocumentId(id),
        scope: ScopeKey::Session,
        kind: "app.notes".into(),
        history: History::Latest,
        fork: ForkPolicy::Initial,
    };
    let revision = Revision::Base { version: 1, value: json("{}") };
    Write::Document(DocumentWrite { record, number: 1, revision })
}

/// One write of each kind.
fn writes(scene: &mut Scene) -> Vec<Write> {
    let entry = scene.entry("hello").into_write();
    let task = scene.task().into_write();
    let submission = scene.submission(Some("r-1")).into_write();
    let document = notes_write(scene.mint());
    vec![entry, task, submission, document]
}

/// One commit holds entries, tasks, submissions and documents together.
pub async fn a_batch_is_stored_whole(store: &Store) {
    let mut scene = Scene::new(store).await;
    let writes = writes(&mut scene);
    scene.commit(writes).await.unwrap();
    assert_eq!(scene.texts().await, ["hello"]);
    assert_eq!(store.tasks(all_tasks(&scene)).await.unwrap().len(), 1);
    assert_eq!(store.submissions(live_submissions(&scene)).await.unwrap().len(), 1);
    assert_eq!(store.documents(notes(&scene)).await.unwrap().len(), 1);
}

/// When the last write of a batch is wrong, the first ones are not stored either, nor is the seq taken.
pub async fn a_batch_that_is_refused_leaves_nothing(store: &Store) {
    let mut scene = Scene::new(store).await;
    let first = scene.entry("first");
    scene.commit(vec![first.clone().into_write()]).await.unwrap();
    let before = store.session(scene.id()).await.unwrap();

    let mut writes = writes(&mut scene);
    writes.extend([Write::Title("a title".into()), first.into_write()]);
    let error = scene.commit(writes).await.unwrap_err();

    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert_eq!(scene.texts().await, ["first"]);
    assert_eq!(store.tasks(all_tasks(&scene)).await.unwrap(), []);
    assert_eq!(store.submissions(live_submissions(&scene)).await.unwrap(), []);
    assert_eq!(store.documents(notes(&scene)).await.unwrap(), []);
    assert_eq!(store.session(scene.id()).await.unwrap(), before);
    scene.commit(vec![]).await.expect("the session is usable afterwards");
}

/// An entry that is stored keeps what it says.
pub async fn an_entry_is_never_replaced(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut entry = scene.entry("as it was");
    scene.commit(vec![entry.clone().into_write()]).await.unwrap();
    entry.entry = Entry::new("et.user").message(Message::user("rewritten"));
    let error = scene.commit(vec![entry.into_write()]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert_eq!(scene.texts().await, ["as it was"]);
}

/// One batch appends an entry once as well.
pub async fn an_entry_is_not_appended_twice_by_one_batch(store: &Store) {
    let mut scene = Scene::new(store).await;
    let entry = scene.entry("once");
    let writes = vec![entry.clone().into_write(), entry.into_write()];
    let error = scene.commit(writes).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert_eq!(scene.texts().await, [""; 0]);
}

/// A conversation that is stored keeps what it inherits.
pub async fn a_conversation_is_never_replaced(store: &Store) {
    let mut scene = Scene::new(store).await;
    let root = scene.root().await;
    let again = Conversation::new(ConversationId::ROOT, Some(TaskId(9)), Timestamp(9));
    let error = scene.commit(vec![again.into_write()]).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Invalid, "{error}");
    assert_eq!(scene.root().await, root);
}

/// Order of keys, spelling of numbers and white space of raw JSON survive, and so does every field of a record.
pub async fn bodies_come_back_byte_for_byte(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut entry = scene.entry("é 🦀 \u{0} \"quoted\"\n");
    entry.task = Some(TaskId(3));
    entry.entry = Entry::new("app.odd")
        .data(json(r#"{ "b":1.0, "a":1e2,"big":18446744073709551615, "b":2 }"#))
        .unwrap()
        .message(Message::Assistant(Assistant {
            parts: vec![
                Part::Text("é 🦀 \u{0} \"quoted\"\n".into()),
                Part::Opaque(json(r#"{"signature" : "x=="}"#)),
            ],
            ..Assistant::default()
        }))
        .head(Head::Entry(EntryId(1)))
        .edit(Edit::omit(EntryId(1)));
    let mut task = scene.task();
    task.input = json(r#"{"z":0.10,  "a":[]}"#);
    scene.commit(vec![entry.clone().into_write(), task.clone().into_write()]).await.unwrap();
    assert_eq!(store.entries(scene.all()).await.unwrap(), [entry]);
    assert_eq!(store.tasks(all_tasks(&scene)).await.unwrap(), [task]);
}

/// What a request cost and what a session is called are committed with what they came from.
pub async fn the_title_and_the_usage_are_part_of_the_batch(store: &Store) {
    let mut scene = Scene::new(store).await;
    let row = UsageRow {
        conversation: ConversationId::ROOT,
        turn: TaskId(5),
        step: 1,
        attempt: 1,
        model: "chat/qwen".into(),
        end: RequestEnd::Complete,
        usage: Some(Usage { input: Some(3), ..Usage::default() }),
        cost: Some(37_035_000),
        time: Timestamp(7),
    };
    let writes = vec![Write::Usage(row.clone()), Write::Title("a new title".into())];
    scene.commit(writes).await.unwrap();
    assert_eq!(store.usage(scene.id()).await.unwrap(), [row]);
    let session = store.session(scene.id()).await.unwrap().unwrap();
    assert_eq!(session.new.title.as_deref(), Some("a new title"));
}

/// A first commit that does not fit leaves neither the session nor its request id.
pub async fn a_creation_that_is_refused_leaves_no_session(store: &Store) {
    let new = NewSession { request: Some("c-1".into()), ..NewSession::default() };
    let mut create = creation(1, new.clone());
    create.first.seq = create.first.seq.next();
    let error = store.create(create).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Conflict, "{error}");
    assert_eq!(store.session(session_id(1)).await.unwrap(), None);
    Scene::create(store, 2, new).await;
}
