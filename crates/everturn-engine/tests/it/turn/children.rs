//! Sub-agents: never more than who starts them may, never more of them than the host allows, one outcome each.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use everturn_core::{
    CancelToken,
    approval::Decision,
    id::{ConversationId, TaskId},
    json::RawJson,
    message::{Message, Outcome},
    model::{FaultClass, Request},
    policy::Policy,
    storage::{Store, TaskQuery},
    submission::End,
    task::{TaskRecord, tree::Reach},
    tool::ToolError,
};
use everturn_engine::{
    Agent, AgentChange, Extension, Harness, Input, LiveSession, SessionSpec, Settings,
    harness::Builder,
    tool::{Does, SessionCall, SessionTool, Spawn},
};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{
    Doing, ask, assert_legal, builder, explore, kinds, results, results_since_asked, rules, spec, store,
    until,
};

/// Starts a sub-agent as the arguments say.
struct Delegate;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    prompt: String,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    background: bool,
}

impl SessionTool for Delegate {
    const NAME: &'static str = "delegate";
    type Arguments = Work;

    fn description(&self) -> &'static str {
        "Has something done."
    }

    async fn run(&self, _: &SessionCall, work: Work) -> Result<Does, ToolError> {
        let agent = AgentChange { policy: work.policy, ..AgentChange::default() };
        Ok(Does::Spawn(Spawn { agent, is_background: work.background, ..Spawn::new(work.prompt) }))
    }
}

fn tools() -> Extension {
    Extension::new("test").session_tool(Delegate).tool(Doing::<0>::says("done"))
}

fn building(store: &Store, model: &Scripted) -> Builder {
    builder(store, model).install(tools()).unwrap()
}

/// What was asked last.
fn asked(request: &Request) -> String {
    let users = request.messages.iter().rev().filter(|message| matches!(&***message, Message::User(_)));
    users.map(|message| message.text()).next().unwrap_or_default()
}

fn delegate(work: &str) -> Reply {
    Reply::calls([("delegate", work)])
}

/// A model that does what prompts say: `call` calls the tool, `deeper` delegates a call, all else is answered.
fn obedient(first: &'static [&'static str]) -> Scripted {
    Scripted::answering(move |request| match (asked(request).as_str(), results_since_asked(request)) {
        ("begin", 0) => Reply::calls(first.iter().map(|work| ("delegate", *work))),
        ("deeper", 0) => delegate(r#"{"prompt":"call","policy":"loose"}"#),
        ("call", 0) => Reply::calls([("do", "{}")]),
        (_, 0) => Reply::text("so it is"),
        _ => Reply::text(request.texts().pop().unwrap()),
    })
}

async fn tasks(session: &LiveSession, kind: &str) -> Vec<TaskRecord> {
    let query = TaskQuery { session: session.id(), live: false, ids: None, owner: None };
    let tasks = session.store().tasks(query).await.unwrap();
    tasks.into_iter().filter(|task| task.kind == kind).collect()
}

#[tokio::test]
async fn a_child_never_may_more_than_its_owners() {
    let strict = || rules(&["allow tool(delegate)", "deny tool(do)"]);
    let loose = || rules(&["allow tool(*)"]);
    let check = async |default: Policy, override_: Option<&str>, work: &'static [&'static str]| {
        let model = obedient(work);
        let builder = building(&store(), &model).policy(default).policy_named("loose", loose());
        let harness = builder.policy_named("strict", strict()).open().await.unwrap();
        let session = harness.create(spec()).await.unwrap();
        let change = AgentChange { policy: override_.map(str::to_owned), ..AgentChange::default() };
        let answer = session.root().submit(Input::text("begin").agent(change)).await.unwrap();
        assert_legal(&model);
        answer.answer().await.unwrap().text
    };
    let refused = "Refused by policy: deny tool(do).";
    let call = &[r#"{"prompt":"call","policy":"loose"}"#];
    assert_eq!(check(loose(), None, call).await, "done", "both may");
    assert_eq!(check(strict(), None, call).await, refused, "its owner may not");
    assert_eq!(check(loose(), None, &[r#"{"prompt":"call","policy":"strict"}"#]).await, refused);
    let deeper = &[r#"{"prompt":"deeper","policy":"loose"}"#];
    assert_eq!(check(strict(), None, deeper).await, refused, "nor at any depth");
    assert_eq!(check(loose(), Some("strict"), call).await, refused, "nor where it is so for a turn");
    assert_eq!(check(loose(), Some("strict"), &[r#"{"prompt":"call"}"#]).await, refused);
    let nobody = &[r#"{"prompt":"call","policy":"unheard of"}"#];
    assert!(
        check(loose(), None, nobody).await.starts_with("Refused by policy: "),
        "nor by a policy that nobody knows"
    );
}

#[tokio::test]
async fn a_child_in_the_background_never_may_more_either() {
    let model =
        Scripted::answering(|request| match (asked(request).as_str(), results_since_asked(request)) {
            ("begin", 0) => delegate(r#"{"prompt":"call","policy":"loose","background":true}"#),
            ("call", 0) => Reply::calls([("do", "{}")]),
            _ => Reply::text(request.texts().pop().unwrap()),
        });
    let policy = rules(&["allow tool(delegate)", "deny tool(do)"]);
    let builder = building(&store(), &model).policy(policy);
    let harness = builder.policy_named("loose", rules(&["allow tool(*)"])).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    ask(&session, "begin").await;
    until("it has reported", || model.requests().last().is_some_and(|last| asked(last).contains("<report")))
        .await;
    let told = asked(model.requests().last().unwrap());
    assert!(told.contains("Refused by policy: deny tool(do)."), "{told}");
    assert_legal(&model);
}

async fn capped(settings: Settings, model: &Scripted) -> Harness {
    building(&store(), model).settings(settings).open().await.unwrap()
}

#[tokio::test]
async fn depth_fan_out_and_the_total_are_capped_by_one_gate() {
    let nested = || {
        Scripted::answering(|request| match results_since_asked(request) {
            0 => delegate(r#"{"prompt":"deeper still"}"#),
            _ => Reply::text(request.texts().pop().unwrap()),
        })
    };
    let model = nested();
    let harness = capped(Settings { depth_max: 2, ..Settings::default() }, &model).await;
    let session = harness.create(spec()).await.unwrap();
    let answer = ask(&session, "begin").await;
    assert!(answer.text.contains("it would be 3 deep, and 2 is all that may be"), "{}", answer.text);
    assert_eq!(tasks(&session, "et.turn").await.len(), 3);
    assert_legal(&model);

    let model = obedient(&[r#"{"prompt":"x"}"#, r#"{"prompt":"y"}"#, r#"{"prompt":"z"}"#]);
    let harness = capped(Settings { children_max: 2, ..Settings::default() }, &model).await;
    let session = harness.create(spec()).await.unwrap();
    ask(&session, "begin").await;
    let mut words: Vec<_> = results(&session).await.iter().map(|(outcome, _)| outcome.word()).collect();
    words.sort_unstable();
    assert_eq!(words, ["error", "ok", "ok"]);
    assert_legal(&model);

    let model = obedient(&[r#"{"prompt":"x"}"#]);
    let harness = capped(Settings { children_total_max: 2, ..Settings::default() }, &model).await;
    let session = harness.create(spec()).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(ask(&session, "begin").await.text);
    }
    assert_eq!(told[..2], ["so it is", "so it is"]);
    assert!(told[2].contains("the session has had 2"), "{}", told[2]);
    assert_legal(&model);
}

// Two that were started in the background by one response passed the gate together; the second then failed, and nothing
// was ever reported of it. Guards: whoever was told that a report comes gets one.
#[tokio::test]
async fn a_child_that_cannot_begin_in_the_background_is_reported_too() {
    let gate = CancelToken::new();
    let model = Scripted::answering({
        let gate = gate.clone();
        move |request| match (asked(request).as_str(), results_since_asked(request)) {
            ("begin", 0) => {
                let work = r#"{"prompt":"x","background":true}"#;
                Reply::calls([("delegate", work), ("delegate", work)])
            }
            ("x", _) => Reply::text("x is done").after_wait(&gate),
            _ => Reply::text("good"),
        }
    });
    let harness = capped(Settings { children_max: 1, ..Settings::default() }, &model).await;
    let session = harness.create(spec()).await.unwrap();
    ask(&session, "begin").await;
    gate.cancel();
    let started = results(&session).await;
    let started = started.iter().filter(|(outcome, _)| *outcome == Outcome::Ok).count();
    let reports = || {
        let requests = model.requests();
        let texts: std::collections::BTreeSet<String> = requests.iter().flat_map(Request::texts).collect();
        texts.into_iter().filter(|text| text.contains("<report")).collect::<Vec<_>>()
    };
    until("all have reported", || reports().len() == started).await;
    assert_eq!(reports().iter().filter(|report| report.contains("x is done")).count(), 1);
    session.root().wait_idle().await.unwrap();
    assert_legal(&model);
}

#[tokio::test]
async fn aborting_a_call_aborts_its_child() {
    let gate = CancelToken::new();
    let model = Scripted::answering({
        let gate = gate.clone();
        move |request| match (asked(request).as_str(), results_since_asked(request)) {
            ("begin", 0) => delegate(r#"{"prompt":"x"}"#),
            ("x", _) => Reply::words("half of ").then_wait(&gate),
            _ => Reply::text("then not"),
        }
    });
    let harness = building(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let submission = session.root().submit(Input::text("begin")).await.unwrap();
    until("the child is asked", || model.count() == 2).await;
    let call = tasks(&session, "et.call").await[0].id;
    session.abort_task(call, "not that", Reach::Ordinary).await.unwrap();
    assert_eq!(submission.answer().await.unwrap().text, "then not", "the turn goes on");
    let turns = tasks(&session, "et.turn").await;
    assert_eq!(turns[1].outcome().unwrap().word(), "aborted");
    assert_eq!(results(&session).await[0].0, Outcome::Cancelled);
    assert!(session.open_submissions().is_empty());
    assert_legal(&model);
}

#[tokio::test]
async fn cancelling_a_turn_cancels_its_children_and_leaves_the_background() {
    let gate = CancelToken::new();
    let model = Scripted::answering({
        let gate = gate.clone();
        move |request| match (asked(request).as_str(), results_since_asked(request)) {
            ("begin", 0) => Reply::calls([
                ("delegate", r#"{"prompt":"x"}"#),
                ("delegate", r#"{"prompt":"y","background":true}"#),
            ]),
            ("x" | "y", _) => Reply::text("done").after_wait(&gate),
            _ => Reply::text("good"),
        }
    });
    let harness = building(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let submission = session.root().submit(Input::text("begin")).await.unwrap();
    until("both are asked", || model.count() == 3).await;
    assert!(submission.cancel().await.unwrap());
    assert_eq!(submission.answer().await.unwrap().end, End::Cancelled);
    gate.cancel();
    until("the background has reported", || {
        model.requests().last().is_some_and(|last| asked(last).contains("<report"))
    })
    .await;
    let words: Vec<_> =
        tasks(&session, "et.turn").await.iter().map(|task| task.outcome().map(|o| o.word())).collect();
    assert_eq!(words[..3].iter().filter(|word| **word == Some("aborted")).count(), 2, "{words:?}");
    assert_legal(&model);
}

#[tokio::test]
async fn a_child_that_fails_is_an_error_result() {
    let model =
        Scripted::answering(|request| match (asked(request).as_str(), results_since_asked(request)) {
            ("begin", 0) => delegate(r#"{"prompt":"x"}"#),
            ("x", _) => Reply::fault(FaultClass::Quota, "no credit"),
            _ => Reply::text("I see"),
        });
    let harness = building(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "begin").await.text, "I see");
    let (outcome, text) = results(&session).await.pop().unwrap();
    assert_eq!(outcome, Outcome::Error);
    assert!(text.starts_with("The sub-agent did not finish:") && text.contains("no credit"), "{text}");
    assert_legal(&model);
}

#[tokio::test]
async fn what_a_child_is_asked_about_is_shown_with_the_child() {
    let model = obedient(&[r#"{"prompt":"call"}"#]);
    let policy = rules(&["allow tool(delegate)", "ask tool(do)"]);
    let harness = building(&store(), &model).policy(policy).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let submission = session.root().submit(Input::text("begin")).await.unwrap();
    session.quiescent().await.unwrap();
    let open = session.open_approvals().pop().unwrap();
    assert_ne!(open.conversation, ConversationId::ROOT);
    assert!(session.snapshot::<Agent>(open.conversation).await.unwrap().is_some());
    session.decide(open.id, Decision::Allow, "ada").await.unwrap();
    assert_eq!(submission.answer().await.unwrap().text, "done");
    assert_legal(&model);
}

async fn opened(store: &Store, model: &Scripted) -> (Harness, LiveSession) {
    let harness = building(store, model).open().await.unwrap();
    let spec = SessionSpec { request: Some("the session".into()), ..spec() };
    let session = harness.create(spec).await.unwrap();
    (harness, session)
}

#[test]
fn a_parent_gets_one_outcome_wherever_its_child_crashes() {
    let model = obedient(&[r#"{"prompt":"call"}"#, r#"{"prompt":"x"}"#]);
    let reached = explore(
        || (),
        async |store, ()| {
            let (harness, session) = opened(&store, &model).await;
            let submission = session.root().submit(Input::text("begin").request("a")).await.unwrap();
            assert!(submission.answer().await.unwrap().is_answered());
            let children = tasks(&session, "et.turn").await;
            assert_eq!(children.len(), 3, "each was started once");
            let results = results(&session).await;
            let words: Vec<_> = results.iter().map(|(outcome, _)| outcome.word()).collect();
            assert_eq!(words, ["ok", "ok"]);
            assert_eq!(harness.verify(session.id()).await.unwrap(), []);
        },
    );
    assert!(reached > 16, "{reached} moments");
    assert_legal(&model);
}

#[test]
fn a_report_from_the_background_comes_once_wherever_it_crashes() {
    let model =
        Scripted::answering(|request| match (asked(request).as_str(), results_since_asked(request)) {
            ("begin", 0) => delegate(r#"{"prompt":"x","background":true}"#),
            ("x", _) => Reply::text("x is done"),
            _ => Reply::text("good"),
        });
    let lives = Arc::new(AtomicUsize::new(0));
    let reached = explore(
        || (),
        async |store, ()| {
            lives.fetch_add(1, Ordering::SeqCst);
            let (harness, session) = opened(&store, &model).await;
            let submission = session.root().submit(Input::text("begin").request("a")).await.unwrap();
            assert!(submission.answer().await.unwrap().is_answered());
            let background = tasks(&session, "et.agent").await;
            assert_eq!(background.len(), 1);
            let id: TaskId = background[0].id;
            while tasks(&session, "et.agent").await[0].is_live() || !session.open_submissions().is_empty() {
                tokio::task::yield_now().await;
            }
            let entries = session.entries(ConversationId::ROOT, None, 99).await.unwrap();
            let told = format!("<report task=\"{id}\">\nx is done\n</report>");
            let reports: Vec<_> = entries.iter().filter(|entry| entry.text() == told).collect();
            assert_eq!(reports.len(), 1, "{:?}", kinds(&session).await);
            assert_eq!(tasks(&session, "et.turn").await.len(), 3, "the two of the parent, and the child's");
            assert_eq!(harness.verify(session.id()).await.unwrap(), []);
        },
    );
    assert!(reached > 16, "{reached} moments");
    assert!(lives.load(Ordering::SeqCst) > reached);
    assert_legal(&model);
}

#[tokio::test]
async fn what_a_child_came_to_names_it_for_people() {
    let model = obedient(&[r#"{"prompt":"x"}"#]);
    let harness = building(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    ask(&session, "begin").await;
    let entries = session.entries(ConversationId::ROOT, None, 99).await.unwrap();
    let details = entries.iter().flat_map(|entry| &entry.messages).find_map(|message| match &**message {
        Message::Result(result) => result.details.clone(),
        _ => None,
    });
    let details: serde_json::Value = details.as_ref().map(RawJson::read).unwrap().unwrap();
    let conversation: ConversationId = serde_json::from_value(details["conversation"].clone()).unwrap();
    assert_eq!(session.entries(conversation, None, 9).await.unwrap()[1].text(), "so it is");
    assert_legal(&model);
}

#[tokio::test]
async fn the_work_of_a_call_is_not_forked_away_from_what_is_above_it() {
    let model = obedient(&[r#"{"prompt":"call","policy":"loose"}"#]);
    let builder = building(&store(), &model).policy_named("loose", rules(&["allow tool(*)"]));
    let session = builder.open().await.unwrap().create(spec()).await.unwrap();
    ask(&session, "begin").await;
    let all = session.store().conversations(session.id()).await.unwrap();
    let child = all.iter().find(|one| one.owner.is_some()).unwrap().id;
    let error = session.conversation_handle(child).fork(None, AgentChange::default()).await.unwrap_err();
    assert!(error.to_string().contains("it is the work of task"), "{error}");
    assert_legal(&model);
}
