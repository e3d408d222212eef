//! Calls: on record before they run, refused on record, and never the end of the session.

use std::sync::{Arc, Mutex};

use everturn_core::{
    id::SessionId,
    message::{Message, Outcome},
    policy::Act,
    storage::{Store, TaskQuery},
    task::{TaskRecord, TaskState},
    tool::{CallContext, Contract, Tool, ToolResult},
};
use everturn_engine::{Extension, Input, LiveSession};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{Empty, harness, spec, store};

/// The outcomes of the root conversation's calls, in order.
async fn outcomes(session: &LiveSession) -> Vec<(Outcome, String)> {
    let context = session.context(session.root().id(), None).await.unwrap();
    let results = context.messages().iter().filter_map(|message| match &**message {
        Message::Result(result) => Some((result.outcome.clone(), result.text.clone())),
        _ => None,
    });
    results.collect()
}

async fn tasks(store: &Store, session: SessionId, live: bool) -> Vec<TaskRecord> {
    let query = TaskQuery { session, live, ids: None, owner: None };
    store.tasks(query).await.unwrap().into_iter().filter(|task| task.kind == "et.call").collect()
}

/// A tool that looks for its own record while it runs.
struct Looking {
    store: Store,
    session: Arc<Mutex<Option<SessionId>>>,
}

impl Tool for Looking {
    const NAME: &'static str = "look";
    type Arguments = Empty;

    fn description(&self) -> &str {
        "Looks for its own record."
    }

    async fn run(&self, cx: &CallContext, _: Empty) -> ToolResult {
        let session = self.session.lock().unwrap().expect("the test has set it");
        let recorded = tasks(&self.store, session, true).await;
        let own = recorded.iter().find(|task| format!("c{}", task.id) == cx.call.0);
        Ok(own.map_or("not on record".into(), |own| own.input.get().to_owned()).into())
    }
}

#[tokio::test]
async fn a_call_is_on_record_before_it_runs() {
    let (store, id) = (store(), Arc::new(Mutex::new(None)));
    let model = Scripted::new([Reply::calls([("look", "{}")]), Reply::text("done")]);
    let looking = Looking { store: store.clone(), session: id.clone() };
    let harness = harness(&store, &model, Extension::new("test").tool(looking)).await;
    let session = harness.create(spec()).await.unwrap();
    *id.lock().unwrap() = Some(session.id());
    session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
    let seen = &outcomes(&session).await[0].1;
    let intent: serde_json::Value = serde_json::from_str(seen).expect("the call's own record");
    assert_eq!((&intent["name"], &intent["replay"]), (&"look".into(), &"never".into()));
    assert_eq!(
        (&intent["arguments"], &intent["verdict"]["rule"]),
        (&serde_json::json!({}), &"allow tool(look)".into())
    );
}

/// A tool that does what no rule allows.
struct Launching;

impl Tool for Launching {
    const NAME: &'static str = "launch";
    type Arguments = Empty;

    fn description(&self) -> &str {
        "Launches."
    }

    fn acts(&self, _: &Empty) -> Vec<Act> {
        vec![Act::Read("ok".into()), Act::Tool("rocket".into())]
    }

    async fn run(&self, _: &CallContext, _: Empty) -> ToolResult {
        panic!("a refused call must not run")
    }
}

#[tokio::test]
async fn a_refused_call_is_on_record_with_its_rule() {
    let store = store();
    let model = Scripted::new([Reply::calls([("launch", "{}")]), Reply::text("then not")]);
    let harness = harness(&store, &model, Extension::new("test").tool(Launching)).await;
    let session = harness.create(spec()).await.unwrap();
    let answer = session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
    assert_eq!(answer.text, "then not", "the turn goes on");
    let rule = "no rule allows tool(rocket)";
    assert_eq!(outcomes(&session).await[0].0, Outcome::Denied { rule: rule.into() });
    let recorded = tasks(&store, session.id(), false).await;
    let intent: serde_json::Value = recorded[0].input.read().unwrap();
    assert_eq!((&intent["verdict"]["effect"], &intent["verdict"]["rule"]), (&"deny".into(), &rule.into()));
    assert!(matches!(recorded[0].state, TaskState::Ended { .. }));
}

/// A tool that breaks.
struct Breaking;

impl Tool for Breaking {
    const NAME: &'static str = "break";
    type Arguments = Empty;

    fn description(&self) -> &str {
        "Breaks."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    async fn run(&self, _: &CallContext, _: Empty) -> ToolResult {
        panic!("the bottom fell out")
    }
}

#[tokio::test]
async fn a_tool_that_panics_is_an_error_result() {
    let model = Scripted::new([Reply::calls([("break", "{}")]), Reply::text("I see")]);
    let harness = harness(&store(), &model, Extension::new("test").tool(Breaking)).await;
    let session = harness.create(spec()).await.unwrap();
    let answer = session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap();
    assert_eq!(answer.text, "I see");
    let (outcome, text) = &outcomes(&session).await[0];
    assert_eq!(*outcome, Outcome::Error);
    assert!(text.contains("the bottom fell out"), "{text}");
}

/// A tool that prints much.
struct Printing;

impl Tool for Printing {
    const NAME: &'static str = "print";
    type Arguments = Empty;

    fn description(&self) -> &str {
        "Prints."
    }

    async fn run(&self, _: &CallContext, _: Empty) -> ToolResult {
        Ok("é".repeat(10 << 20).into())
    }
}

#[tokio::test]
async fn an_output_without_end_is_cut_and_says_so() {
    let model = Scripted::new([Reply::calls([("print", "{}")]), Reply::text("much")]);
    let harness = harness(&store(), &model, Extension::new("test").tool(Printing)).await;
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(session.root().submit(Input::text("a")).await.unwrap().answer().await.unwrap().text, "much");
    let (outcome, text) = &outcomes(&session).await[0];
    assert_eq!(*outcome, Outcome::Ok);
    assert!(text.len() < 70_000 && text.contains("(20971520 bytes in all, the rest is left out)"));
}
