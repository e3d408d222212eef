//! What a session does, seen from another process, and what it did, looked up.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Stdio},
    sync::Arc,
    time::Duration,
};

use everturn::{
    Agent, Extension, Harness, Input, LiveSession, Models, SessionSpec, Step, SystemClock, Task, TaskContext,
    TaskError, World,
    approval::Decision,
    conversation::Ownership,
    entry::Entry,
    env::Env,
    id::ApprovalId,
    models::Demo,
    policy::{Layer, Policy},
    store::{self, Options},
    tools::{Directory, coding},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::place::Place;

const QUESTION: &str = "which function under src returns the largest number?";

/// `everturn watch --json`, as it runs.
struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn from(place: &Place, id: &str, cursor: &str) -> Self {
        let mut command = place.command(&["watch", id, "--json", "--from", cursor]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The events up to one of a type.
    fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut told = Vec::new();
        loop {
            let line = self.lines.next().expect("it has not ended").unwrap();
            told.push(serde_json::from_str::<Value>(&line).unwrap());
            if told.last().unwrap()["type"] == kind {
                return told;
            }
        }
    }

    /// Ends it as Ctrl-C does; gives what it says.
    fn interrupt(self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Works in a conversation of its own, and waits.
struct Nest;

impl Task for Nest {
    const NAME: &'static str = "example.nest";
    type Input = ();
    type State = bool;
    type Output = ();

    fn start(&self, _: &()) -> bool {
        false
    }

    async fn step(&self, cx: &TaskContext, _: &(), is_built: bool) -> Result<Step<Self>, TaskError> {
        let mut tx = cx.begin().await?;
        if !is_built {
            tx.create_conversation(Ownership::Task(cx.id()));
        }
        Ok(Step::wait_signal("fly", true).with(tx))
    }
}

/// A harness of this process over the place's store, that asks before it reads.
async fn asking(place: &Place) -> Harness {
    let directory = place.path().join(".everturn");
    std::fs::create_dir_all(&directory).unwrap();
    let url = format!("sqlite:{}", directory.join("store.db").display());
    let store = store::open(&url, Options::new(World::system().owner())).await.unwrap();
    let root = place.path().to_owned();
    Harness::builder(store)
        .models(Models::new().provider("demo", Demo::new(Arc::new(SystemClock), Duration::ZERO)))
        .install(Extension::new("coding").tools(coding()).task(Nest))
        .unwrap()
        .policy(Policy::default().rule(Layer::User, "ask read(**)".parse().unwrap()))
        .env(move |_| Ok(Env::new(Directory::open(&root)?)))
        .open()
        .await
        .unwrap()
}

async fn session(place: &Place) -> LiveSession {
    let directory = Some(place.path().to_string_lossy().into_owned());
    let agent = Agent { directory, ..SessionSpec::model("demo".parse().unwrap()).agent };
    asking(place).await.create(SessionSpec { agent, ..SessionSpec::default() }).await.unwrap()
}

fn types(told: &[Value]) -> Vec<&str> {
    told.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_and_decisions_are_seen_from_another_process() {
    let place = Place::new();
    let session = session(&place).await;
    let id = session.id().to_string();
    let begin = session.root().view().await.unwrap().cursor.to_string();
    let mut watching = Watching::from(&place, &id, &begin);
    let asked = session.root().submit(Input::text(QUESTION)).await.unwrap();
    let told = watching.until("approval_asked");
    assert!(types(&told).contains(&"turn_started"), "{told:?}");
    let approval = ApprovalId(told.last().unwrap()["approval"]["id"].as_u64().unwrap());
    assert!(place.run(&["show", &id]).well().contains(&format!("`everturn approve {approval}` answers")));
    let no = Decision::Deny { reason: "not \u{1b}[2J here".into() };
    session.decide(approval, no, "someone").await.unwrap();
    let told = watching.until("approval_decided");
    assert_eq!(told.last().unwrap()["approval"]["state"]["decided"]["actor"], "someone");
    asked.cancel().await.unwrap();
    let cursor = watching.until("turn_ended").last().unwrap()["cursor"].as_str().unwrap().to_owned();
    assert!(watching.interrupt().contains(&format!("--from {cursor}")), "it says where to go on");

    let mut watching = Watching::from(&place, &id, &cursor);
    session.root().submit(Input::write(Entry::new("app.note"))).await.unwrap();
    let told = watching.until("entry");
    assert_eq!((told.len(), &told[0]["kind"]), (1, &json!("app.note")), "nothing comes twice");
    watching.interrupt();
    let shown = place.run(&["show", &id]).well();
    assert!(shown.contains("by someone: declined: not "), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    session.close().await.unwrap();
}

#[test]
fn a_session_at_rest_is_told_from_a_cursor() {
    let place = Place::new();
    let out = place.run(&["run", "--json", QUESTION]).well();
    let ran: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let id = place.newest();
    let begin = format!("{id}:1:1");
    let mut watching = Watching::from(&place, &id, &begin);
    let told = watching.until("turn_ended");
    watching.interrupt();
    let other = |events: &[Value]| -> Vec<String> {
        let types = types(events).into_iter();
        types
            .filter(|kind| !["session", "answer", "text", "entry", "output"].contains(kind))
            .map(Into::into)
            .collect()
    };
    assert_eq!(other(&told), other(&ran), "what was told live is told again");
}

#[test]
fn a_cursor_that_cannot_be_used_is_refused() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let id = place.newest();
    place.run(&["watch", &id, "--from", "7"]).refused(2, "SESSION:EPOCH:SEQ");
    let foreign = "0198c0de-0000-7000-8000-000000000000:1:7";
    place.run(&["watch", &id, "--from", foreign]).refused(1, "of another session");
}

#[test]
fn a_tree_names_branches_and_turns() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    place.run(&["run", "--continue", "hello again"]).well();
    let shown = place.run(&["tree", &place.newest()]).well();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines[0], lines.len()), ("conversation 1 (current)", 3), "{shown}");
    assert!(lines[1].starts_with("  turn ") && lines[1].contains(" answered: 1 request"), "{shown}");
}

#[tokio::test]
async fn a_tree_puts_a_branch_below_the_turn_that_it_leaves_from() {
    let place = Place::new();
    let session = session(&place).await;
    for _ in 0..2 {
        session.root().submit(Input::text("hello")).await.unwrap().answer().await.unwrap();
    }
    let first = session.turns().await.unwrap()[0].record.turn;
    session.start_task::<Nest>(session.root().id(), &()).await.unwrap();
    session.quiescent().await.unwrap();
    let fork = session.branch_from(first, everturn::Branch::default()).await.unwrap();
    fork.submit(Input::text("hello")).await.unwrap().answer().await.unwrap();
    session.close().await.unwrap();
    let shown = place.run(&["tree", &session.id().to_string()]).well();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let found: Vec<(usize, &str)> =
        shown.lines().map(|line| (depth(line), line.split_whitespace().next().unwrap())).collect();
    assert_eq!(
        found,
        [
            (0, "conversation"),
            (2, "turn"),
            (4, "conversation"),
            (6, "turn"),
            (2, "turn"),
            (2, "task"),
            (4, "conversation")
        ],
        "{shown}"
    );
    assert!(shown.contains(&format!("conversation {} (current)", fork.id())), "{shown}");
}

#[test]
fn usage_is_summed_by_model_conversation_and_turn() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    place.run(&["run", "--continue", "hello again"]).well();
    let shown = place.run(&["usage"]).well();
    let first = |word: &str| shown.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!([first("model demo"), first("conversation 1"), first("turn "), first("total")], [1, 1, 2, 1]);
    assert!(
        shown.lines().all(|line| line.ends_with("cost unknown")),
        "nobody knows what demo costs\n{shown}"
    );
    let out = place.run(&["usage", &place.newest(), "--json"]).well();
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let total = rows.last().unwrap();
    assert_eq!(
        (&total["of"], &total["requests"], &total["cost_nano_usd"]),
        (&json!("total"), &json!(2), &Value::Null)
    );
}

#[test]
fn epochs_say_why_the_model_was_told_anew() {
    let place = Place::new();
    place.run(&["run", "hello"]).well();
    let shown = place.run(&["show", &place.newest(), "--epochs"]).well();
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(shown.contains(" UTC: start, family demo/demo, ") && shown.contains(" tools"), "{shown}");
}
