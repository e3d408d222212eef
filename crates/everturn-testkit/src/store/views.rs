//! A part of a session as it is.

use everturn_core::{
    approval::{ApprovalRecord, Decision},
    clock::Timestamp,
    conversation::Conversation,
    document::{History, ScopeKey},
    entry::{EntryRecord, Head},
    error::ErrorKind,
    id::{ConversationId, EntryId, Epoch, TaskId},
    storage::{DocumentState, NewSession, Part, Store, View, ViewQuery},
    submission::SubmissionRecord,
    task::TaskRecord,
};

use super::{
    notes::Notes,
    scene::{IntoWrite, Scene, session_id},
};

const ROOT: ConversationId = ConversationId::ROOT;

async fn view(scene: &Scene, part: Part) -> View {
    scene.store.view(ViewQuery { session: scene.id(), part }).await.unwrap()
}

/// What is there of the root conversation and of a fork of it: one of each, and one that has ended.
struct Stage {
    scene: Scene,
    conversations: [Conversation; 2],
    documents: [DocumentState; 4],
    tasks: [TaskRecord; 2],
    submissions: [SubmissionRecord; 2],
    approvals: [ApprovalRecord; 2],
    entries: [EntryRecord; 2],
}

impl Stage {
    async fn new(store: &Store) -> Self {
        let mut scene = Scene::new(store).await;
        let root = scene.root().await;
        let said = scene.entry("a");
        scene.commit(vec![said.clone().into_write()]).await.unwrap();
        let fork = scene.fork(&root, said.id).await;
        let inner = scene.entry_in(fork.id, "b");
        let scopes = [
            ScopeKey::Session,
            ScopeKey::Conversation(ROOT),
            ScopeKey::Conversation(fork.id),
            ScopeKey::Task(TaskId(9)),
        ];
        let notes = scopes.map(|scope| {
            let mut notes = Notes::new(&mut scene, History::Latest);
            notes.record.scope = scope;
            notes
        });
        let tasks = [ROOT, fork.id].map(|conversation| TaskRecord { conversation, ..scene.task() });
        let submissions =
            [ROOT, fork.id].map(|conversation| SubmissionRecord { conversation, ..scene.submission(None) });
        let approvals = [&tasks[0], &tasks[1]].map(|task| scene.approval(task));
        let decided = Scene::decided(scene.approval(&tasks[0]), Decision::DidNotHappen);
        let over = [
            Scene::ended(scene.task()).into_write(),
            Scene::settled(scene.submission(None)).into_write(),
            decided.into_write(),
        ];
        let writes = std::iter::once(inner.clone().into_write())
            .chain(over)
            .chain(notes.iter().map(|notes| notes.base("0")))
            .chain(tasks.clone().map(IntoWrite::into_write))
            .chain(submissions.clone().map(IntoWrite::into_write))
            .chain(approvals.clone().map(IntoWrite::into_write));
        let batch = scene.batch(writes.collect());
        let seq = batch.seq.0;
        scene.send(batch).await.unwrap();
        let documents = notes.map(|notes| notes.state("0", &[], [seq, 1]));
        let (conversations, entries) = ([root, fork], [said, inner]);
        Self { scene, conversations, documents, tasks, submissions, approvals, entries }
    }

    fn nothing(&self) -> View {
        View { head: self.scene.lease.head, epoch: self.scene.lease.epoch, ..View::default() }
    }

    async fn check(&self, part: Part, expected: View) {
        assert_eq!(view(&self.scene, part).await, expected);
    }
}

/// Everything but the transcripts: of work, what has not ended; of questions, those that are open.
pub async fn everything_is_all_that_lives(store: &Store) {
    let stage = Stage::new(store).await;
    let expected = View {
        conversations: stage.conversations.to_vec(),
        documents: stage.documents.to_vec(),
        tasks: stage.tasks.to_vec(),
        submissions: stage.submissions.to_vec(),
        approvals: stage.approvals.to_vec(),
        ..stage.nothing()
    };
    stage.check(Part::Everything, expected).await;
}

/// A conversation with what belongs to it, and nothing of its fork.
pub async fn a_conversation_is_seen_with_what_belongs_to_it(store: &Store) {
    let stage = Stage::new(store).await;
    for (at, seen) in [(0, 1), (1, 2)] {
        let expected = View {
            conversations: vec![stage.conversations[at].clone()],
            entries: stage.entries[..seen].to_vec(),
            documents: vec![stage.documents[at + 1].clone()],
            tasks: vec![stage.tasks[at].clone()],
            submissions: vec![stage.submissions[at].clone()],
            approvals: vec![stage.approvals[at].clone()],
            ..stage.nothing()
        };
        stage.check(Part::Conversation(stage.conversations[at].id), expected).await;
    }
}

/// The tasks of all conversations, live ones only.
pub async fn tasks_are_seen_while_they_live(store: &Store) {
    let mut stage = Stage::new(store).await;
    let [first, second] = stage.tasks.clone();
    stage.check(Part::Tasks, View { tasks: vec![first.clone(), second.clone()], ..stage.nothing() }).await;
    stage.scene.commit(vec![Scene::ended(first).into_write()]).await.unwrap();
    stage.check(Part::Tasks, View { tasks: vec![second], ..stage.nothing() }).await;
}

/// With the live tasks come the conversations that are their work, and no others.
pub async fn tasks_are_seen_with_the_conversations_that_they_own(store: &Store) {
    let mut other = Scene::create(store, 2, NewSession::default()).await;
    let mut scene = Scene::new(store).await;
    let root = scene.root().await;
    let tasks = [scene.task(), scene.task(), scene.task()];
    let at = scene.entry("a");
    let new = |scene: &mut Scene, owner| Conversation::new(ConversationId(scene.mint()), owner, Timestamp(7));
    let fork = |scene: &mut Scene, owner| root.fork(ConversationId(scene.mint()), at.id, owner, Timestamp(7));
    let [first, second, idle] = tasks.clone().map(|task| Some(task.id));
    let [of_second, nobodys] = [second, None].map(|owner| new(&mut scene, owner));
    let [of_first, free, also_of_second] = [first, None, second].map(|owner| fork(&mut scene, owner));
    let conversations = [&of_second, &nobodys, &of_first, &free, &also_of_second];
    let mut writes: Vec<_> = tasks.iter().map(|task| task.clone().into_write()).collect();
    writes.push(at.clone().into_write());
    writes.extend(conversations.map(|one| one.clone().into_write()));
    scene.commit(writes).await.unwrap();
    // The same ids in another session, where they belong to other tasks.
    let elsewhere = Conversation { owner: idle, ..nobodys.clone() };
    other.commit(vec![tasks[2].clone().into_write(), elsewhere.clone().into_write()]).await.unwrap();

    let seen = view(&scene, Part::Tasks).await;
    assert_eq!(seen.conversations, [of_second.clone(), of_first, also_of_second.clone()]);
    assert_eq!(seen.tasks, tasks);
    let [first, second, _] = tasks;
    scene.commit(vec![Scene::ended(first).into_write()]).await.unwrap();
    assert_eq!(view(&scene, Part::Tasks).await.conversations, [of_second, also_of_second]);
    scene.commit(vec![Scene::ended(second).into_write()]).await.unwrap();
    assert_eq!(view(&scene, Part::Tasks).await.conversations, []);
    assert_eq!(view(&other, Part::Tasks).await.conversations, [elsewhere]);
}

/// One document, found by scope and kind.
pub async fn a_document_is_seen_by_itself(store: &Store) {
    let stage = Stage::new(store).await;
    for document in &stage.documents {
        let part = Part::Document { scope: document.record.scope, kind: "app.notes".into() };
        stage.check(part, View { documents: vec![document.clone()], ..stage.nothing() }).await;
    }
}

/// A document that is not there yet, or no more, can be looked at all the same.
pub async fn a_document_that_is_not_there_is_none(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Latest);
    let part = Part::Document { scope: notes.record.scope, kind: "app.notes".into() };
    let nothing = |scene: &Scene| View { head: scene.lease.head, epoch: Epoch(1), ..View::default() };
    assert_eq!(view(&scene, part.clone()).await, nothing(&scene));
    scene.commit(vec![notes.base("0"), notes.delta("[1]")]).await.unwrap();
    let there = View { documents: vec![notes.state("0", &["[1]"], [2, 2])], ..nothing(&scene) };
    assert_eq!(view(&scene, part.clone()).await, there);
    scene.commit(vec![notes.retired()]).await.unwrap();
    assert_eq!(view(&scene, part).await, nothing(&scene));
}

/// The entries begin where the newest visible head says, be that in the parent, and end with the last.
pub async fn entries_begin_at_the_newest_head(store: &Store) {
    let mut scene = Scene::new(store).await;
    let first = scene.say(ROOT, &["a", "b"]).await;
    let middle = scene.say(ROOT, &["c"]).await;
    let root = scene.root().await;
    check_texts(&scene, ROOT, &["a", "b", "c"]).await;
    head(&mut scene, ROOT, "d", Head::Entry(first)).await;
    let at = scene.say(ROOT, &["e"]).await;
    check_texts(&scene, ROOT, &["b", "c", "d", "e"]).await;

    let early = scene.fork(&root, middle).await;
    let late = scene.fork(&root, at).await;
    head(&mut scene, ROOT, "f", Head::Itself).await;
    scene.say(early.id, &["g"]).await;
    scene.say(late.id, &["h"]).await;
    check_texts(&scene, ROOT, &["f"]).await;
    check_texts(&scene, early.id, &["a", "b", "c", "g"]).await;
    check_texts(&scene, late.id, &["b", "c", "d", "e", "h"]).await;
    head(&mut scene, late.id, "i", Head::Entry(at)).await;
    check_texts(&scene, late.id, &["e", "h", "i"]).await;
}

async fn head(scene: &mut Scene, conversation: ConversationId, text: &str, head: Head) -> EntryId {
    let mut entry = scene.entry_in(conversation, text);
    entry.entry = entry.entry.head(head);
    let id = entry.id;
    scene.commit(vec![entry.into_write()]).await.unwrap();
    id
}

async fn check_texts(scene: &Scene, conversation: ConversationId, expected: &[&str]) {
    let view = view(scene, Part::Conversation(conversation)).await;
    assert_eq!(super::scene::texts(&view.entries), expected, "of conversation {conversation}");
}

/// What is not there cannot be looked at.
pub async fn a_view_of_what_is_unknown_is_not_found(store: &Store) {
    let scene = Scene::new(store).await;
    let nowhere = Part::Conversation(ConversationId(77));
    for (session, part) in [(scene.id(), nowhere), (session_id(9), Part::Everything)] {
        let error = store.view(ViewQuery { session, part }).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
    }
}

/// A view says which commit and which epoch it is of, so that it can be followed from there.
pub async fn a_view_says_where_it_stands(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ROOT, &["a"]).await;
    scene.claim_again().await;
    let seen = view(&scene, Part::Tasks).await;
    assert_eq!(seen, View { head: scene.lease.head, epoch: Epoch(2), ..View::default() });
}
