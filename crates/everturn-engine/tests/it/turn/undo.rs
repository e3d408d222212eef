//! Undoing what a turn did to files.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use everturn_core::{
    CancelToken, Error, ErrorKind, Result,
    env::{
        Env, EnvLayer, Expect, FileKind, FileVersion, Layered, Nowhere, ReadFile, ResolvePath, Resolved,
        Stat, WriteFile, Written,
    },
    id::TaskId,
    message::Message,
    model::Request,
    storage::Store,
    task::tree::Reach,
    tool::{CallContext, Contract, ToolError},
};
use everturn_engine::{
    AgentChange, Extension, Harness, Input, Letter, LiveSession, SessionSpec, Taking, WhenBusy,
    task::TaskView,
    tool::{Does, SessionCall, SessionTool, Spawn},
};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{
    Doing, Empty, ask, assert_legal, builder, explore, life, results, results_since_asked, spec, stops, store,
};

/// Files in memory.
#[derive(Clone, Default)]
struct Files(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    files: BTreeMap<String, (Vec<u8>, u64)>,
    writes: u64,
    /// A file that cannot be written.
    locked: Option<String>,
    /// What writes wait for.
    gate: Option<CancelToken>,
}

impl Files {
    fn put(&self, path: &str, text: &str) {
        let mut held = self.0.lock().unwrap();
        held.writes += 1;
        let version = held.writes;
        held.files.insert(path.into(), (text.into(), version));
    }

    fn lock(&self, path: Option<&str>) {
        self.0.lock().unwrap().locked = path.map(str::to_owned);
    }

    /// Keeps writes waiting until what it gives is cancelled.
    fn shut(&self) -> CancelToken {
        let gate = CancelToken::new();
        self.0.lock().unwrap().gate = Some(gate.clone());
        gate
    }

    fn all(&self) -> Vec<(String, String)> {
        let held = self.0.lock().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        held.files.iter().map(|(path, (bytes, _))| (path.clone(), text(bytes))).collect()
    }

    fn get(&self, path: &str) -> Result<(Vec<u8>, u64)> {
        let held = self.0.lock().unwrap();
        held.files.get(path).cloned().ok_or_else(|| Error::not_found(format!("read {path:?}: there is none")))
    }

    fn check(&self, path: &str) -> Result<()> {
        match self.0.lock().unwrap().locked.as_deref() == Some(path) {
            true => Err(Error::invalid(format!("write {path:?}: it is locked"))),
            false => Ok(()),
        }
    }
}

impl EnvLayer for Files {
    fn inner(&self) -> Env {
        Env::new(Nowhere)
    }

    async fn resolve(&self, resolve: ResolvePath) -> Result<Resolved> {
        let kind = self.get(&resolve.path).ok().map(|_| FileKind::File);
        Ok(Resolved { path: resolve.path, kind, links: u64::from(kind.is_some()) })
    }

    async fn stat(&self, path: String) -> Result<Stat> {
        let (bytes, version) = self.get(&path)?;
        let version = FileVersion::new(version.to_string());
        Ok(Stat { kind: FileKind::File, size: bytes.len() as u64, version })
    }

    async fn read(&self, read: ReadFile) -> Result<Vec<u8>> {
        let (bytes, _) = self.get(&read.path)?;
        let from = usize::try_from(read.offset).unwrap().min(bytes.len());
        Ok(bytes[from..bytes.len().min(from + read.limit)].to_vec())
    }

    async fn write(&self, write: WriteFile) -> Result<Written> {
        tokio::task::yield_now().await;
        let gate = self.0.lock().unwrap().gate.clone();
        if let Some(gate) = gate {
            gate.cancelled().await;
        }
        self.check(&write.path)?;
        self.put(&write.path, std::str::from_utf8(&write.bytes).unwrap());
        let version = self.get(&write.path)?.1;
        Ok(Written { version: FileVersion::new(version.to_string()), replaced: None })
    }

    async fn remove(&self, path: String) -> Result<()> {
        self.check(&path)?;
        self.get(&path)?;
        self.0.lock().unwrap().files.remove(&path);
        Ok(())
    }
}

/// A tool that has a sub-agent do it.
struct Delegate;

impl SessionTool for Delegate {
    const NAME: &'static str = "delegate";
    type Arguments = Empty;

    fn description(&self) -> &'static str {
        "Has it done."
    }

    async fn run(&self, _: &SessionCall, _: Empty) -> std::result::Result<Does, ToolError> {
        Ok(Does::Spawn(Spawn::new("child")))
    }
}

/// Tools: `do` writes each file that its arguments name, or removes it for null; `delegate` has a sub-agent write.
fn tools() -> Extension {
    let write = Doing::<0>::new(|cx: CallContext, arguments| async move {
        for (path, text) in arguments.as_object().unwrap() {
            match text.as_str() {
                Some(text) => {
                    let write = WriteFile { path: path.clone(), bytes: text.into(), expect: Expect::Any };
                    cx.env.write(write).await?;
                }
                None => cx.env.remove(path.clone()).await?,
            }
        }
        Ok("written".into())
    });
    Extension::new("test").tool(write.contract(Contract::safe())).session_tool(Delegate)
}

/// A model whose turn `write` writes over two calls and a child.
fn writer() -> Scripted {
    Scripted::answering(|request: &Request| {
        let is_user = |message: &&Arc<Message>| matches!(&***message, Message::User(_));
        let asked = request.messages.iter().rev().find(is_user).unwrap();
        match (asked.text().as_str(), results_since_asked(request)) {
            ("write", 0) => Reply::calls([("do", r#"{"a":"a2","b":"b2"}"#), ("do", r#"{"new":"n2"}"#)]),
            ("write", 2) => Reply::calls([("do", r#"{"a":"a3","gone":null}"#), ("delegate", "{}")]),
            ("child", 0) => Reply::calls([("do", r#"{"c":"c2"}"#)]),
            ("more", 0) => Reply::calls([("do", r#"{"b":"b3"}"#)]),
            _ => Reply::text("done"),
        }
    })
}

fn files() -> Files {
    let files = Files::default();
    for (path, text) in [("a", "a1"), ("b", ""), ("c", "c1"), ("gone", "g1"), ("other", "o1")] {
        files.put(path, text);
    }
    files
}

async fn open(store: &Store, model: &Scripted, files: &Files) -> (Harness, LiveSession) {
    let env = files.clone();
    let builder = builder(store, model).env(move |_| Ok(Env::new(Layered(env.clone()))));
    let harness = builder.install(tools()).unwrap().open().await.unwrap();
    let spec = SessionSpec { request: Some("the session".into()), ..spec() };
    let session = harness.create(spec).await.unwrap();
    (harness, session)
}

#[tokio::test]
async fn what_a_turn_and_its_child_wrote_is_restored() {
    let (files, model) = (files(), writer());
    let before = files.all();
    let (harness, session) = open(&store(), &model, &files).await;
    let turn = ask(&session, "write").await.turn.unwrap();
    let after = [("a", "a3"), ("b", "b2"), ("c", "c2"), ("new", "n2"), ("other", "o1")];
    assert_eq!(files.all(), after.map(|(path, text)| (path.into(), text.into())));
    files.put("other", "o2");
    assert_eq!(session.undo(turn).await.unwrap(), ["a", "b", "c", "gone", "new"]);
    files.put("other", "o1");
    assert_eq!(files.all(), before);
    ask(&session, "b").await;
    let told = model.requests().pop().unwrap().texts();
    let note = &told[told.len() - 2];
    assert!(note.contains("a, b, c, gone, new") && note.contains("What commands did stays."), "{note}");
    assert_eq!(harness.verify(session.id()).await.unwrap(), []);
    assert_legal(&model);
}

#[tokio::test]
async fn nothing_is_restored_where_a_file_has_changed_since() {
    for (path, text) in [("b", Some("mine")), ("c", Some("mine")), ("new", None), ("gone", Some("back"))] {
        let (files, model) = (files(), writer());
        let (_, session) = open(&store(), &model, &files).await;
        let turn = ask(&session, "write").await.turn.unwrap();
        match text {
            Some(text) => files.put(path, text),
            None => _ = files.0.lock().unwrap().files.remove(path),
        }
        let before = files.all();
        if path == "new" {
            // What is as it was before the turn needs no restoring, whoever restored it.
            assert!(session.undo(turn).await.is_ok());
            continue;
        }
        let error = session.undo(turn).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Conflict);
        assert!(
            error.to_string().contains(&format!("changed since: {path}; nothing was restored")),
            "{error}"
        );
        assert_eq!(files.all(), before);
        assert_legal(&model);
    }
}

#[tokio::test]
async fn a_later_turn_keeps_an_earlier_one_from_being_undone() {
    let (files, model) = (files(), writer());
    let before = files.all();
    let (_, session) = open(&store(), &model, &files).await;
    let first = ask(&session, "write").await.turn.unwrap();
    let second = ask(&session, "more").await.turn.unwrap();
    assert!(session.undo(first).await.unwrap_err().to_string().contains("changed since: b"));
    assert_eq!(session.undo(second).await.unwrap(), ["b"]);
    session.undo(first).await.unwrap();
    assert_eq!(files.all(), before);
    assert_legal(&model);
}

#[tokio::test]
async fn where_one_file_cannot_be_restored_none_is() {
    let (files, model) = (files(), writer());
    let (_, session) = open(&store(), &model, &files).await;
    let turn = ask(&session, "write").await.turn.unwrap();
    let after = files.all();
    files.lock(Some("gone"));
    let error = session.undo(turn).await.unwrap_err();
    assert!(error.to_string().contains("it is locked"), "{error}");
    assert_eq!(files.all(), after);
    files.lock(None);
    session.undo(turn).await.unwrap();
    assert_legal(&model);
}

// A write that failed was recorded before it was tried: the file was then taken for one that someone had changed since.
// Guards: what a call only tried does not keep its turn from being undone.
#[tokio::test]
async fn a_write_that_failed_does_not_keep_a_turn_from_being_undone() {
    let (files, model) = (files(), writer());
    let before = files.all();
    let (_, session) = open(&store(), &model, &files).await;
    files.lock(Some("gone"));
    let turn = ask(&session, "write").await.turn.unwrap();
    files.lock(None);
    let failed = results(&session).await;
    assert!(failed.iter().any(|(_, text)| text.contains("it is locked")), "{failed:?}");
    session.undo(turn).await.unwrap();
    assert_eq!(files.all(), before);
    assert_legal(&model);
}

#[test]
fn a_crash_while_files_are_restored_leaves_all_of_them_restored() {
    let model = writer();
    // The turn itself crashes nowhere here: the undo does, before and after each of its commits.
    for stop in stops() {
        let (memory, files) = (store(), files());
        let before = files.all();
        let written = life(&memory, None, async |store| {
            let (_, session) = open(&store, &model, &files).await;
            let turn = ask(&session, "write").await.turn.unwrap();
            session.close().await.unwrap();
            turn
        });
        let turn: TaskId = written.unwrap();
        let undone = life(&memory, Some(stop), async |store| {
            let (_, session) = open(&store, &model, &files).await;
            session.undo(turn).await.unwrap();
        });
        life(&memory, None, async |store| {
            let (harness, session) = open(&store, &model, &files).await;
            session.root().wait_idle().await.unwrap();
            if files.all() != before {
                session.undo(turn).await.unwrap();
            }
            assert_eq!(files.all(), before, "{stop:?}");
            assert_eq!(harness.verify(session.id()).await.unwrap(), []);
        });
        if undone.is_some() {
            return;
        }
    }
}

#[test]
fn a_turn_that_crashed_anywhere_can_be_undone() {
    let model = writer();
    let reached = explore(files, async |store, files| {
        let (harness, session) = open(&store, &model, files).await;
        let asked = session.root().submit(Input::text("write").request("a")).await.unwrap();
        let turn = asked.answer().await.unwrap().turn.unwrap();
        session.undo(turn).await.unwrap();
        let held = files.all();
        assert_eq!(held, self::files().all());
        assert_eq!(harness.verify(session.id()).await.unwrap(), []);
    });
    assert!(reached > 20, "{reached} moments");
    assert_legal(&model);
}

#[tokio::test]
async fn a_turn_that_runs_is_not_undone() {
    let gate = CancelToken::new();
    let model = Scripted::new([Reply::text("one"), Reply::text("two").after_wait(&gate)]);
    let (_, session) = open(&store(), &model, &files()).await;
    let turn = ask(&session, "a").await.turn.unwrap();
    let running = session.root().submit(Input::text("b")).await.unwrap();
    let error = session.undo(turn).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict);
    let error = session.undo(running.turn().await.unwrap().unwrap()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound);
    gate.cancel();
    running.answer().await.unwrap();
    assert_eq!(session.undo(turn).await.unwrap(), Vec::<String>::new(), "it had changed no files");
    assert_legal(&model);
}

/// Waits until an undo restores files.
async fn is_restoring(session: &LiveSession) {
    let mut graph = session.task_graph();
    loop {
        let tasks = graph.next().await.unwrap().tasks;
        let restores = |view: &TaskView| {
            let checkpoint = view.record.checkpoint().map_or("", |checkpoint| checkpoint.get());
            view.record.kind == "et.undo" && checkpoint.contains("restoring")
        };
        if tasks.iter().any(restores) {
            return;
        }
    }
}

// A turn could begin while its session's files were being restored, and write what was then restored or refused.
// Guards: whoever asks meanwhile waits, in whichever conversation, and begins when the undo has ended.
#[tokio::test]
async fn no_turn_begins_while_files_are_restored() {
    let (files, model) = (files(), writer());
    let before = files.all();
    let (harness, session) = open(&store(), &model, &files).await;
    let earlier = ask(&session, "a").await.turn.unwrap();
    let turn = ask(&session, "more").await.turn.unwrap();
    let fork = session.root().fork(None, AgentChange::default()).await.unwrap();
    let gate = files.shut();
    let undo = session.take(Letter::Undo { turn }, Taking::default()).await.unwrap().unwrap();
    is_restoring(&session).await;

    let waits = [session.root().submit(Input::text("x")).await, fork.submit(Input::text("y")).await];
    let waits = waits.map(Result::unwrap);
    for asked in &waits {
        assert_eq!(asked.turn().await.unwrap(), None);
    }
    let refused = session.root().submit(Input::text("z").when_busy(WhenBusy::Reject)).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains(&format!("undo {undo} runs")), "{refused}");
    let again = session.take(Letter::Undo { turn }, Taking::default()).await.unwrap();
    assert_eq!(again, Some(undo), "it is being undone");
    let other = session.undo(earlier).await.unwrap_err();
    assert!(other.to_string().contains(&format!("undo {undo} runs; wait for it")), "{other}");

    gate.cancel();
    for asked in &waits {
        assert!(asked.answer().await.unwrap().is_answered());
        assert!(asked.turn().await.unwrap().unwrap() > TaskId(undo));
    }
    assert_eq!(files.all(), before);
    let told = model.requests().into_iter().filter(|request| request.texts().contains(&"x".into()));
    assert!(told.flat_map(|request| request.texts()).any(|text| text.contains("was undone")));
    assert_eq!(harness.verify(session.id()).await.unwrap(), []);
    assert_legal(&model);
}

#[tokio::test]
async fn whatever_becomes_of_an_undo_who_waited_for_it_goes_on() {
    for is_aborted in [false, true] {
        let (files, model) = (files(), writer());
        let (_, session) = open(&store(), &model, &files).await;
        let turn = ask(&session, "more").await.turn.unwrap();
        let gate = files.shut();
        let undo = session.take(Letter::Undo { turn }, Taking::default()).await.unwrap().unwrap();
        is_restoring(&session).await;
        let asked = session.root().submit(Input::text("x")).await.unwrap();
        assert_eq!(asked.turn().await.unwrap(), None);
        if is_aborted {
            session.abort_task(TaskId(undo), "enough", Reach::Ordinary).await.unwrap();
        } else {
            files.lock(Some("b"));
        }
        gate.cancel();
        assert!(asked.answer().await.unwrap().is_answered());
        assert_legal(&model);
    }
}

#[tokio::test]
async fn while_any_turn_of_the_session_runs_nothing_is_undone() {
    let gate = CancelToken::new();
    let model = Scripted::answering({
        let gate = gate.clone();
        move |request: &Request| match request.texts().last().is_some_and(|text| text == "slow") {
            true => Reply::text("slow").after_wait(&gate),
            false => Reply::text("done"),
        }
    });
    let (_, session) = open(&store(), &model, &files()).await;
    let turn = ask(&session, "a").await.turn.unwrap();
    let fork = session.root().fork(None, AgentChange::default()).await.unwrap();
    let running = fork.submit(Input::text("slow")).await.unwrap();
    let busy = running.turn().await.unwrap().unwrap();
    let refused = session.undo(turn).await.unwrap_err();
    assert!(refused.to_string().contains(&format!("turn {busy} runs")), "{refused}");
    gate.cancel();
    running.answer().await.unwrap();
    session.undo(turn).await.unwrap();
    assert_legal(&model);
}

#[test]
fn an_input_behind_an_undo_that_crashed_anywhere_is_answered() {
    let model = writer();
    let reached = explore(files, async |store, files| {
        let (harness, session) = open(&store, &model, files).await;
        let asked = session.root().submit(Input::text("more").request("a")).await.unwrap();
        let turn = asked.answer().await.unwrap().turn.unwrap();
        // In a second life it may be done already, or under way.
        let _ = session.take(Letter::Undo { turn }, Taking::default()).await;
        let next = session.root().submit(Input::text("x").request("b")).await.unwrap();
        assert!(next.answer().await.unwrap().is_answered());
        session.root().wait_idle().await.unwrap();
        assert_eq!(files.all(), self::files().all());
        assert_eq!(harness.verify(session.id()).await.unwrap(), []);
    });
    assert!(reached > 8, "{reached} moments");
    assert_legal(&model);
}

// Asked by mail, whether a turn has ended was decided elsewhere than for who has the session, and told in other words.
// Guards: both are asked the same, and told the same.
#[tokio::test]
async fn an_undo_by_mail_is_refused_as_one_of_the_owner_is() {
    let gate = CancelToken::new();
    let model = Scripted::new([Reply::text("one").after_wait(&gate)]);
    let (_, session) = open(&store(), &model, &files()).await;
    let running = session.root().submit(Input::text("a")).await.unwrap();
    let running_turn = running.turn().await.unwrap().unwrap();
    for turn in [running_turn, TaskId(running.id().0), TaskId(1), TaskId(u64::MAX)] {
        let by_owner = session.undo(turn).await.unwrap_err();
        let by_mail = session.take(Letter::Undo { turn }, Taking::default()).await.unwrap_err();
        assert_eq!(*by_owner.kind(), ErrorKind::NotFound);
        assert_eq!(
            (by_owner.kind(), by_owner.to_string()),
            (by_mail.kind(), by_mail.to_string()),
            "turn {turn}"
        );
    }
    gate.cancel();
    running.answer().await.unwrap();
    assert_legal(&model);
}

#[tokio::test]
async fn what_was_done_in_another_directory_is_restored_there() {
    let (model, here, there) = (writer(), files(), files());
    let (before, make) = (there.all(), (here.clone(), there.clone()));
    let builder = builder(&store(), &model).install(tools()).unwrap().env(move |agent| {
        let files = if agent.directory.as_deref() == Some("there") { &make.1 } else { &make.0 };
        Ok(Env::new(Layered(files.clone())))
    });
    let session = builder.open().await.unwrap().create(spec()).await.unwrap();
    let change = AgentChange { directory: Some("there".into()), ..AgentChange::default() };
    let asked = session.root().submit(Input::text("more").agent(change)).await.unwrap();
    let turn = asked.answer().await.unwrap().turn.unwrap();
    assert_ne!(there.all(), before);
    assert_eq!(session.undo(turn).await.unwrap(), ["b"]);
    assert_eq!((there.all(), here.all()), (before.clone(), before));
    assert_legal(&model);
}
