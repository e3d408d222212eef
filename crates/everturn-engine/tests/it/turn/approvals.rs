//! Calls that a person is asked about: decided once, from wherever, and judged again when they run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use everturn_core::{
    CancelToken, ErrorKind,
    approval::{ApprovalRecord, ApprovalState, Decision, Question},
    clock::Timestamp,
    entry::kind,
    env::{Env, Nowhere},
    id::ApprovalId,
    json::RawJson,
    message::Outcome,
    policy::Act,
    storage::Store,
    submission::End,
    task::tree::Reach,
    tool::{CallContext, Contract, OnUnknown, Replay, Tool, ToolResult},
};
use everturn_engine::{
    AgentChange, ApproveAll, Approver, CallOrder, Extension, Harness, Input, LiveSession, SessionSpec,
    Settings, SystemEntropy, World, harness::Builder,
};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};

use crate::support::{
    Counting, Doing, assert_legal, builder, explore, life, results, results_since_asked, rules, spec, store,
    until,
};

/// A tool that writes a file, as far as policy knows.
#[derive(Clone, Default)]
struct Writing(Arc<AtomicUsize>);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Path {
    path: String,
}

impl Tool for Writing {
    const NAME: &'static str = "write";
    type Arguments = Path;

    fn description(&self) -> &'static str {
        "Writes."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    fn acts(&self, path: &Path) -> Vec<Act> {
        vec![Act::Write(path.path.clone())]
    }

    async fn run(&self, _: &CallContext, path: Path) -> ToolResult {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(format!("wrote {}", path.path).into())
    }

    async fn preview(&self, _: &CallContext, path: Path) -> Option<RawJson> {
        RawJson::of(&format!("+ {}", path.path)).ok()
    }
}

const POLICY: [&str; 3] = ["ask write(**)", "deny write(secret/**)", "allow tool(do)"];

fn building(store: &Store, model: &Scripted, tool: &Writing) -> Builder {
    let tools = Extension::new("test").tool(tool.clone()).tool(Doing::<0>::says("done"));
    builder(store, model).policy(rules(&POLICY)).install(tools).unwrap().env(|_| Ok(Env::new(Nowhere)))
}

fn writes<const N: usize>(paths: [&str; N]) -> Reply {
    let arguments = paths.map(|path| format!(r#"{{"path":"{path}"}}"#));
    Reply::calls(arguments.iter().map(|arguments| ("write", arguments.as_str())))
}

/// A session whose model calls and then says done, up to where it waits for a person.
async fn asking(calls: Reply) -> (Harness, LiveSession, Scripted, Writing) {
    let (model, tool) = (Scripted::new([calls, Reply::text("done")]), Writing::default());
    let harness = building(&store(), &model, &tool).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    session.root().submit(Input::text("a")).await.unwrap();
    session.quiescent().await.unwrap();
    (harness, session, model, tool)
}

fn open(session: &LiveSession) -> Vec<ApprovalId> {
    session.open_approvals().iter().map(|one| one.id).collect()
}

async fn decide(session: &LiveSession, approval: ApprovalId, decision: Decision) {
    session.decide(approval, decision, "ada").await.unwrap();
}

async fn answer(session: &LiveSession) -> (String, Vec<String>) {
    session.root().wait_idle().await.unwrap();
    let turn = session.history().await.unwrap().pop().unwrap();
    let reply = session.entry(session.root().id(), turn.record.reply.unwrap()).await.unwrap();
    (reply.text(), results(session).await.into_iter().map(|(_, text)| text).collect())
}

#[tokio::test]
async fn a_call_that_is_asked_about_waits_and_the_others_go_on() {
    let calls = Reply::calls([("write", r#"{"path":"a"}"#), ("do", "{}")]);
    let (_, session, model, tool) = asking(calls).await;
    let asked = session.open_approvals().pop().unwrap();
    let Question::Call { tool: name, arguments, acts, verdict, preview, .. } = &asked.question else {
        panic!("{asked:?}")
    };
    assert_eq!((name.as_str(), arguments.get()), ("write", r#"{"path":"a"}"#));
    assert_eq!((acts.as_slice(), verdict.rule.as_str()), (&[Act::Write("a".into())][..], "ask write(**)"));
    assert_eq!(preview.as_ref().unwrap().get(), r#""+ a""#);
    let entries = session.entries(session.root().id(), None, 9).await.unwrap();
    let response = entries.iter().find(|entry| entry.kind == kind::ASSISTANT).unwrap();
    assert_eq!(asked.time, response.time);
    assert_eq!(tool.0.load(Ordering::SeqCst), 0);
    assert_eq!(results(&session).await, [(Outcome::Ok, "done".into())], "the other call went on");
    assert_eq!(model.count(), 1, "the model is asked again when all are settled");
    decide(&session, asked.id, Decision::Allow).await;
    let told = answer(&session).await;
    assert_eq!(told, ("done".into(), vec!["done".into(), "wrote a".into()]));
    assert_eq!(model.requests()[1].texts()[2..], ["wrote a", "done"], "in the order of the calls");
    assert_legal(&model);
}

// Guards: the question is stored with the response that led to it, and not a moment later.
#[test]
fn the_question_is_asked_in_the_commit_that_stops_the_call() {
    let model = Scripted::answering(|_| writes(["a"]));
    for stop in crate::support::stops() {
        let (memory, tool) = (store(), Writing::default());
        let begin = async |store: Store| {
            let harness = building(&store, &model, &tool).open().await.unwrap();
            let spec = SessionSpec { request: Some("the session".into()), ..spec() };
            harness.create(spec).await.unwrap()
        };
        let ended = life(&memory, Some(stop), async |store| {
            let session = begin(store).await;
            session.root().submit(Input::text("a").request("a")).await.unwrap();
            session.quiescent().await.unwrap();
        });
        let has_ended = life(&memory, None, async |store| {
            let session = begin(store).await;
            let entries = session.entries(session.root().id(), None, 9).await.unwrap();
            let has_responded = entries.iter().any(|entry| entry.kind == kind::ASSISTANT);
            assert_eq!(session.open_approvals().len(), usize::from(has_responded), "{stop:?}");
        });
        assert!(has_ended.is_some());
        if ended.is_some() {
            return;
        }
    }
}

#[tokio::test]
async fn several_questions_are_answered_in_any_order() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let (_, session, model, _) = asking(writes(["a", "b", "c"])).await;
        let ids = open(&session);
        for at in order {
            let no = Decision::Deny { reason: "not b".into() };
            decide(&session, ids[at], if at == 1 { no } else { Decision::Allow }).await;
            session.quiescent().await.unwrap();
        }
        answer(&session).await;
        let texts = model.requests()[1].texts();
        assert_eq!(texts[2..], ["wrote a", "Declined by ada: not b", "wrote c"]);
        assert_legal(&model);
    }
}

#[tokio::test]
async fn a_second_process_decides_after_a_restart() {
    let (store, model) = (store(), Scripted::new([writes(["a"]), Reply::text("done")]));
    let tool = Writing::default();
    let first = building(&store, &model, &tool).open().await.unwrap();
    let session = first.create(spec()).await.unwrap();
    session.root().submit(Input::text("a")).await.unwrap();
    session.quiescent().await.unwrap();
    let (id, asked) = (session.id(), session.open_approvals().pop().unwrap());
    session.close().await.unwrap();
    drop((session, first));
    let second = building(&store, &model, &tool).open().await.unwrap();
    let session = second.open_session(id).await.unwrap();
    assert_eq!(session.open_approvals(), std::slice::from_ref(&asked));
    assert_eq!(tool.0.load(Ordering::SeqCst), 0);
    decide(&session, asked.id, Decision::Allow).await;
    assert_eq!(answer(&session).await, ("done".into(), vec!["wrote a".into()]));
    let decided = session.approval(asked.id).await.unwrap();
    let ApprovalState::Decided { decision, actor, .. } = decided.state else { panic!("{decided:?}") };
    assert_eq!((decision, actor.as_str()), (Decision::Allow, "ada"));
    assert_legal(&model);
}

#[tokio::test]
async fn a_second_decision_is_told_who_decided_what() {
    let (_, session, model, tool) = asking(writes(["a"])).await;
    let asked = open(&session)[0];
    let (allow, deny) = (Decision::Allow, Decision::Deny { reason: "no".into() });
    let both = tokio::join!(session.decide(asked, allow, "ada"), session.decide(asked, deny, "ben"));
    let loser = both.1.and(both.0).unwrap_err();
    assert_eq!(*loser.kind(), ErrorKind::Conflict);
    assert!(loser.to_string().contains("ada has decided it: allowed"), "{loser}");
    answer(&session).await;
    let later = session.decide(asked, Decision::Allow, "cleo").await.unwrap_err();
    assert!(later.to_string().contains("ada has decided it: allowed"), "{later}");
    assert_eq!(tool.0.load(Ordering::SeqCst), 1);
    let unknown = session.decide(ApprovalId(999), Decision::Allow, "cleo").await.unwrap_err();
    assert_eq!(*unknown.kind(), ErrorKind::NotFound);
    assert_legal(&model);
}

#[tokio::test]
async fn what_was_decided_is_said_in_words() {
    let (_, session, ..) = asking(writes(["a"])).await;
    let asked = open(&session)[0];
    let unfit = session.decide(asked, Decision::DidNotHappen, "ada").await.unwrap_err();
    assert!(unfit.to_string().ends_with(r#"to say "it has not run" does not fit what is asked"#), "{unfit}");
    decide(&session, asked, Decision::Deny { reason: "not on a Friday".into() }).await;
    let later = session.decide(asked, Decision::Allow, "ben").await.unwrap_err();
    assert!(later.to_string().ends_with("ada has decided it: denied: not on a Friday"), "{later}");
}

#[tokio::test]
async fn changed_arguments_are_validated_and_judged_again() {
    let edit = |json: &str| Decision::Edit { arguments: RawJson::parse(json).unwrap() };
    let (_, session, model, tool) = asking(writes(["a"])).await;
    let asked = open(&session)[0];
    let error = session.decide(asked, edit(r#"{"file":"b"}"#), "ada").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("missing field `path`"), "{error}");
    assert_eq!(open(&session), [asked], "nothing was changed");
    decide(&session, asked, edit(r#"{"path":"b"}"#)).await;
    assert_eq!(answer(&session).await.1, ["wrote b"]);
    assert_legal(&model);

    let (_, session, model, other) = asking(writes(["a"])).await;
    decide(&session, open(&session)[0], edit(r#"{"path":"secret/b"}"#)).await;
    assert_eq!(answer(&session).await.1, ["Refused by policy: deny write(secret/**)."]);
    assert_eq!((tool.0.load(Ordering::SeqCst), other.0.load(Ordering::SeqCst)), (1, 0));
    assert_legal(&model);
}

// A tool that broke over changed arguments broke whoever decided.
// Guards: it refuses them, as it refuses a call with such arguments.
#[tokio::test]
async fn changed_arguments_over_which_a_tool_breaks_are_refused() {
    let model = Scripted::new([Reply::calls([("do", "{}")]), Reply::text("done")]);
    let tools = Extension::new("test").tool(Doing::<0>::says("done"));
    let building = builder(&store(), &model).policy(rules(&["ask tool(do)"])).install(tools).unwrap();
    let session = building.open().await.unwrap().create(spec()).await.unwrap();
    session.root().submit(Input::text("a")).await.unwrap();
    session.quiescent().await.unwrap();
    let asked = open(&session)[0];
    let arguments = RawJson::parse(r#"{"panic":1}"#).unwrap();
    let error = session.decide(asked, Decision::Edit { arguments }, "ada").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("The tool do broke: no acts for this"), "{error}");
    assert_eq!(open(&session), [asked], "nothing was changed");
}

#[tokio::test]
async fn what_is_allowed_for_the_session_frees_its_like() {
    let (_, session, model, _) = asking(writes(["a", "b", "a"])).await;
    let ids = open(&session);
    decide(&session, ids[0], Decision::AllowForSession).await;
    session.quiescent().await.unwrap();
    assert_eq!(open(&session), [ids[1]], "the rule is for a, and for nothing else");
    assert!(matches!(session.approval(ids[2]).await.unwrap().state, ApprovalState::Void { .. }));
    decide(&session, ids[1], Decision::Allow).await;
    let mut told = answer(&session).await.1;
    told.sort();
    assert_eq!(told, ["wrote a", "wrote a", "wrote b"]);
    model.push(writes(["a"]));
    model.push(Reply::text("again"));
    let again = session.root().submit(Input::text("b")).await.unwrap();
    assert_eq!(again.answer().await.unwrap().text, "again", "nobody is asked again");
    assert_legal(&model);
}

#[tokio::test]
async fn a_question_expires_and_cannot_be_decided_from_then_on() {
    let clock = ManualClock::at(Timestamp(1_000_000));
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
    let (store, tool) = (store(), Writing::default());
    let model = Scripted::new([writes(["a"]), Reply::text("done")]);
    let settings = Settings { approval_ms: Some(60_000), ..Settings::default() };
    let building = || building(&store, &model, &tool).world(world.clone()).settings(settings.clone());
    let harness = building().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    session.root().submit(Input::text("a")).await.unwrap();
    session.quiescent().await.unwrap();
    let asked = session.open_approvals().pop().unwrap();
    assert_eq!(asked.until, Some(Timestamp(1_060_000)));
    clock.advance(Duration::from_millis(59_999));
    session.quiescent().await.unwrap();
    assert_eq!(open(&session).len(), 1);
    let id = session.id();
    session.close().await.unwrap();
    drop((session, harness));
    clock.advance(Duration::from_millis(1));
    let harness = building().open().await.unwrap();
    let session = harness.open_session(id).await.unwrap();
    let late = session.decide(asked.id, Decision::Allow, "ada").await.unwrap_err();
    assert_eq!(*late.kind(), ErrorKind::Conflict, "its time is over, though nobody has noticed yet");
    assert_eq!(answer(&session).await.1, ["This call was not allowed: nobody decided in time."]);
    let late = session.decide(asked.id, Decision::Allow, "ada").await.unwrap_err();
    assert!(late.to_string().contains("it is void: nobody decided in time"), "{late}");
    assert_eq!(tool.0.load(Ordering::SeqCst), 0);
    assert_legal(&model);
}

// A question about another directory could neither be decided nor be asked anew, until someone had all judged again.
// Guards: what changes the agent has open questions judged again at once.
#[tokio::test]
async fn a_question_is_asked_anew_where_the_directory_has_changed() {
    let (_, session, model, _) = asking(writes(["a"])).await;
    let asked = open(&session)[0];
    let elsewhere = AgentChange { directory: Some("/elsewhere".into()), ..AgentChange::default() };
    session.root().configure(elsewhere).await.unwrap();
    let error = session.decide(asked, Decision::Allow, "ada").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict);
    session.quiescent().await.unwrap();
    assert!(matches!(session.approval(asked).await.unwrap().state, ApprovalState::Void { .. }));
    let anew = session.open_approvals().pop().unwrap();
    let Question::Call { directory, .. } = &anew.question else { panic!("{anew:?}") };
    assert_eq!(directory.as_deref(), Some("/elsewhere"));
    decide(&session, anew.id, Decision::Allow).await;
    assert_eq!(answer(&session).await.1, ["wrote a"]);
    assert_legal(&model);
}

#[tokio::test]
async fn what_policy_denies_by_now_does_not_run_whatever_was_decided() {
    let (harness, session, model, tool) = asking(writes(["a"])).await;
    harness.set_policy(None, rules(&["deny write(**)"]));
    decide(&session, open(&session)[0], Decision::Allow).await;
    assert_eq!(answer(&session).await.1, ["Refused by policy: deny write(**)."]);
    assert_eq!(tool.0.load(Ordering::SeqCst), 0);
    assert_legal(&model);
}

#[tokio::test]
async fn open_questions_are_judged_again_when_policy_changes() {
    let (harness, session, model, _) = asking(writes(["a", "b", "c"])).await;
    let ids = open(&session);
    harness.set_policy(None, rules(&["ask write(**)", "deny write(b)"]));
    session.quiescent().await.unwrap();
    assert_eq!(open(&session), [ids[0], ids[2]]);
    harness.set_policy(None, rules(&["allow write(**)"]));
    answer(&session).await;
    let texts = model.requests()[1].texts();
    assert_eq!(texts[2..], ["wrote a", "Refused by policy: deny write(b).", "wrote c"]);
    assert_legal(&model);
}

#[tokio::test]
async fn open_questions_are_judged_again_where_a_session_runs_next() {
    let (store, model) = (store(), Scripted::new([writes(["a", "b"]), Reply::text("done")]));
    let tool = Writing::default();
    let first = building(&store, &model, &tool).open().await.unwrap();
    let session = first.create(spec()).await.unwrap();
    session.root().submit(Input::text("a")).await.unwrap();
    session.quiescent().await.unwrap();
    let (id, ids) = (session.id(), open(&session));
    session.close().await.unwrap();
    drop((session, first));
    let loosened =
        building(&store, &model, &tool).policy(rules(&["ask write(**)", "allow write(a)", "deny write(b)"]));
    let harness = loosened.open().await.unwrap();
    let session = harness.open_session(id).await.unwrap();
    assert_eq!(open(&session), ids, "opening runs nothing");
    session.quiescent().await.unwrap();
    assert_eq!(open(&session), [ids[0]], "in one layer ask beats allow, and deny both");
    harness.set_policy(None, rules(&["allow write(a)"]));
    assert_eq!(answer(&session).await.1.len(), 2);
    assert_eq!(model.requests()[1].texts()[2..], ["wrote a", "Refused by policy: deny write(b)."]);
    assert_legal(&model);
}

#[tokio::test]
async fn an_abort_voids_what_is_asked() {
    let (_, session, model, tool) = asking(writes(["a"])).await;
    let asked = open(&session)[0];
    session.root().abort(Reach::Ordinary).await.unwrap();
    assert!(open(&session).is_empty());
    let error = session.decide(asked, Decision::Allow, "ada").await.unwrap_err();
    assert!(error.to_string().contains("it is void: its call has"), "{error}");
    let results = results(&session).await;
    assert_eq!(results[0].0, Outcome::Cancelled);
    assert_eq!(tool.0.load(Ordering::SeqCst), 0);
    let next = session.root().submit(Input::text("b")).await.unwrap();
    assert_eq!(next.answer().await.unwrap().text, "done");
    assert_legal(&model);
}

/// Decides after it was told to; what it decides comes too late where someone else was faster.
struct Slow(CancelToken, Option<Decision>);

impl Approver for Slow {
    async fn decide(&self, _: &ApprovalRecord) -> Option<Decision> {
        self.0.cancelled().await;
        self.1.clone()
    }
}

async fn approved(approver: impl Approver, calls: Reply) -> (LiveSession, Scripted, Writing) {
    let (model, tool) = (Scripted::new([calls, Reply::text("done")]), Writing::default());
    let harness = building(&store(), &model, &tool).approver(approver).open().await.unwrap();
    harness.set(Settings { calls: CallOrder::Sequential, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    session.root().submit(Input::text("a")).await.unwrap();
    (session, model, tool)
}

#[tokio::test]
async fn whoever_decides_in_process_is_asked_at_once() {
    let (session, model, _) = approved(ApproveAll, writes(["a", "b", "secret/c"])).await;
    let told = answer(&session).await.1;
    assert_eq!(told, ["wrote a", "wrote b", "Refused by policy: deny write(secret/**)."]);
    assert_legal(&model);
}

// A person at the terminal who was slower than one on the web broke the call that the other had allowed.
// Guards: the first decision wins, and the loser changes nothing.
#[tokio::test]
async fn whoever_decides_in_process_may_be_too_late() {
    let (gate, no) = (CancelToken::new(), Decision::Deny { reason: "too late".into() });
    let (session, model, _) = approved(Slow(gate.clone(), Some(no)), writes(["a"])).await;
    until("it is asked", || !session.open_approvals().is_empty()).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    decide(&session, open(&session)[0], Decision::Allow).await;
    gate.cancel();
    assert_eq!(answer(&session).await.1, ["wrote a"]);
    assert_legal(&model);
}

#[tokio::test]
async fn what_is_left_open_in_process_waits_for_someone_else() {
    let gate = CancelToken::new();
    gate.cancel();
    let (session, model, _) = approved(Slow(gate, None), writes(["a"])).await;
    session.quiescent().await.unwrap();
    decide(&session, open(&session)[0], Decision::Allow).await;
    assert_eq!(answer(&session).await.1, ["wrote a"]);
    assert_legal(&model);
}

/// A tool that must not be repeated, and asks a person where nobody knows.
fn pausing(ran: &Arc<AtomicUsize>, gate: &CancelToken) -> Extension {
    let (ran, gate) = (ran.clone(), gate.clone());
    let tool = Doing::<0>::new(move |cx: CallContext, _| {
        let (run, gate) = (ran.fetch_add(1, Ordering::SeqCst) + 1, gate.clone());
        async move {
            cx.output.write("paying\n");
            gate.cancelled().await;
            Ok(format!("paid, run {run}").into())
        }
    });
    let contract = Contract { on_unknown: OnUnknown::Pause, ..Contract::default() };
    Extension::new("test").tool(tool.contract(contract))
}

fn unsure(decision: Decision) -> (Vec<(Outcome, String)>, End, usize) {
    let (memory, ran, gate) = (store(), Arc::new(AtomicUsize::new(0)), CancelToken::new());
    let model = Scripted::answering(|request| match results_since_asked(request) {
        0 => Reply::calls([("do", "{}")]),
        _ => Reply::text("done"),
    });
    life(&memory, None, async |store| {
        let harness = builder(&store, &model).install(pausing(&ran, &gate)).unwrap().open().await.unwrap();
        let session = harness.create(spec()).await.unwrap();
        session.root().submit(Input::text("a")).await.unwrap();
        until("it runs", || ran.load(Ordering::SeqCst) == 1).await;
    });
    gate.cancel();
    let ended = life(&memory, None, async |store| {
        let harness = builder(&store, &model).install(pausing(&ran, &gate)).unwrap().open().await.unwrap();
        let id = harness.sessions(Default::default()).await.unwrap()[0].id;
        let session = harness.open_session(id).await.unwrap();
        session.quiescent().await.unwrap();
        let asked = session.open_approvals().pop().expect("a person is asked");
        assert!(matches!(&asked.question, Question::Unknown { tool, .. } if tool == "do"));
        let refused = session.decide(asked.id, Decision::Allow, "ada").await.unwrap_err();
        assert_eq!(*refused.kind(), ErrorKind::Invalid);
        assert_eq!(ran.load(Ordering::SeqCst), 1, "it does not run meanwhile");
        let submission = session.open_submissions().pop().unwrap();
        decide(&session, asked.id, decision).await;
        let end = submission.answer().await.unwrap().end;
        (results(&session).await, end)
    });
    assert_legal(&model);
    let (results, end) = ended.unwrap();
    (results, end, ran.load(Ordering::SeqCst))
}

#[test]
fn a_call_that_nobody_knows_of_is_held_for_a_person() {
    let happened = Decision::Happened { text: Some("the bank says paid".into()) };
    let (results, end, ran) = unsure(happened);
    assert_eq!((end, ran), (End::Answered, 1));
    assert_eq!(results[0].0, Outcome::Ok);
    assert!(results[0].1.ends_with("the bank says paid"), "{results:?}");
    let (results, end, ran) = unsure(Decision::DidNotHappen);
    assert_eq!((end, ran, &results[0].0), (End::Answered, 2, &Outcome::Ok));
    assert!(results[0].1.ends_with("paid, run 2"), "{results:?}");
    let (results, end, ran) = unsure(Decision::Stop);
    assert_eq!((end, ran, &results[0].0), (End::Cancelled, 1, &Outcome::Unknown));
}

#[test]
fn a_tool_that_must_not_be_repeated_runs_at_most_once_wherever_it_crashes() {
    let model = Scripted::answering(|request| match results_since_asked(request) {
        0 => Reply::calls([("count", "{}")]),
        _ => Reply::text("done"),
    });
    let reached = explore(
        || Counting::new(Replay::Never),
        async |store, tool| {
            let tools = Extension::new("test").tool(tool.clone());
            let policy = rules(&["ask tool(count)"]);
            let harness =
                builder(&store, &model).policy(policy).install(tools).unwrap().open().await.unwrap();
            let spec = SessionSpec { request: Some("the session".into()), ..spec() };
            let session = harness.create(spec).await.unwrap();
            let asked = session.root().submit(Input::text("a").request("a")).await.unwrap();
            session.quiescent().await.unwrap();
            if let Some(open) = session.open_approvals().pop() {
                decide(&session, open.id, Decision::Allow).await;
            }
            assert_eq!(asked.answer().await.unwrap().text, "done");
            let results = results(&session).await;
            assert_eq!(results.len(), 1);
            match &results[0].0 {
                Outcome::Ok => assert_eq!(tool.count(), 1),
                Outcome::Unknown => assert!(tool.count() <= 1),
                other => panic!("it ended {other:?}"),
            }
            assert_eq!(harness.verify(session.id()).await.unwrap(), []);
        },
    );
    assert!(reached > 10, "{reached} moments");
    assert_legal(&model);
}

#[tokio::test]
async fn a_question_in_a_turn_of_another_directory_can_be_decided() {
    let (model, tool) = (Scripted::new([writes(["a"]), Reply::text("done")]), Writing::default());
    let harness = building(&store(), &model, &tool).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let elsewhere = AgentChange { directory: Some("/elsewhere".into()), ..AgentChange::default() };
    session.root().submit(Input::text("a").agent(elsewhere)).await.unwrap();
    session.quiescent().await.unwrap();
    decide(&session, open(&session)[0], Decision::Allow).await;
    assert_eq!(answer(&session).await.1, ["wrote a"]);
    assert_legal(&model);
}
