//! Events: what of a turn can be watched, by its owner and by anyone else.

use std::sync::Arc;

use everturn_core::{
    CancelToken, ErrorKind,
    approval::{ApprovalRecord, ApprovalState, Decision},
    clock::Timestamp,
    cursor::Cursor,
    document::ScopeKey,
    id::{ConversationId, Seq},
    message::Outcome,
    model::FaultClass,
    policy::{Layer, Policy},
    storage::Store,
    tool::{CallContext, Tool, ToolError, ToolResult},
};
use everturn_engine::{
    Event, EventKind, Events, Extension, Harness, Input, LiveSession, Models, SessionReader, Settings,
    SystemEntropy, World,
    tool::{Does, SessionCall, SessionTool, Spawn},
    view::{CallStanding, TurnPhase},
    watch::Start,
};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};

use crate::support::{Empty, spec, store};

const ROOT: ConversationId = ConversationId::ROOT;

/// A tool that writes a line, waits, writes another one, and waits again.
#[derive(Clone, Default)]
struct Pouring {
    first: CancelToken,
    last: CancelToken,
}

impl Tool for Pouring {
    const NAME: &'static str = "pour";
    type Arguments = Empty;

    fn description(&self) -> &str {
        "Pours."
    }

    async fn run(&self, cx: &CallContext, _: Empty) -> ToolResult {
        cx.output.write("né 🙂\n");
        self.first.cancelled().await;
        cx.output.write("zoë\n");
        self.last.cancelled().await;
        Ok(String::new().into())
    }
}

/// A tool that has a sub-agent do it.
struct Delegating;

impl SessionTool for Delegating {
    const NAME: &'static str = "delegate";
    type Arguments = Empty;

    fn description(&self) -> &str {
        "Has it done."
    }

    async fn run(&self, _: &SessionCall, _: Empty) -> Result<Does, ToolError> {
        Ok(Does::Spawn(Spawn::new("do it")))
    }
}

/// A session whose world stands still, and what is needed to watch it.
struct Scene {
    store: Store,
    clock: ManualClock,
    model: Scripted,
    pouring: Pouring,
}

impl Scene {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let clock = ManualClock::at(Timestamp(1_000));
        Self { store: store(), clock, model: Scripted::new(replies), pouring: Pouring::default() }
    }

    /// A harness that asks before it pours.
    async fn asking(&self) -> Harness {
        let harness = self.harness().await;
        harness.set_policy(None, Policy::default().rule(Layer::User, "ask tool(pour)".parse().unwrap()));
        harness
    }

    async fn harness(&self) -> Harness {
        let world = World { clock: Arc::new(self.clock.clone()), entropy: Arc::new(SystemEntropy) };
        Harness::builder(self.store.clone())
            .models(Models::new().provider("scripted", self.model.clone()))
            .install(Extension::new("test").tool(self.pouring.clone()).session_tool(Delegating))
            .unwrap()
            .settings(Settings { flush_ms: 0, ..Settings::default() })
            .world(world)
            .open()
            .await
            .unwrap()
    }

    async fn reader(&self, session: &LiveSession) -> SessionReader {
        SessionReader::open(self.store.clone(), session.id()).await.unwrap()
    }

    /// Events as one who does not own the session is told them. Only the store's doorbell says when to look.
    async fn stranger(&self, session: &LiveSession, from: impl Into<Start>) -> Events {
        let clock = Arc::new(ManualClock::default());
        self.reader(session).await.events(clock, ROOT, from).await.unwrap()
    }
}

async fn next(events: &mut Events) -> Event {
    events.next().await.expect("there is more").unwrap()
}

/// The events up to one that is wanted.
async fn until(events: &mut Events, wanted: impl Fn(&EventKind) -> bool) -> Vec<Event> {
    let mut told = Vec::new();
    loop {
        told.push(next(events).await);
        if wanted(&told.last().unwrap().kind) {
            return told;
        }
    }
}

async fn to_end(events: &mut Events) -> Vec<Event> {
    until(events, |kind| matches!(kind, EventKind::TurnEnded(_))).await
}

fn is_asked(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ApprovalAsked { .. })
}

fn is_output(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Output { .. })
}

/// What happened, with adjacent deltas joined, and without the commits.
fn joined(told: &[Event]) -> Vec<EventKind> {
    let mut joined: Vec<EventKind> = Vec::new();
    for event in told {
        match (joined.last_mut(), &event.kind) {
            (
                Some(EventKind::Text { step, attempt, delta }),
                EventKind::Text { step: same, attempt: too, delta: more },
            ) if (&*step, &*attempt) == (same, too) => delta.push_str(more),
            (
                Some(EventKind::Output { call, offset, delta }),
                EventKind::Output { call: same, offset: at, delta: more },
            ) if call == same => {
                assert_eq!(*at, *offset + delta.len(), "deltas follow each other");
                delta.push_str(more);
            }
            (_, kind) => joined.push(kind.clone()),
        }
    }
    joined
}

/// The types of events, deltas joined.
fn types(told: &[Event]) -> Vec<String> {
    let json = |kind: &EventKind| serde_json::to_value(kind).unwrap()["type"].as_str().unwrap().to_owned();
    joined(told).iter().map(json).collect()
}

fn last_cursor(told: &[Event]) -> Cursor {
    told.last().unwrap().cursor
}

fn assert_sorted(told: &[Event]) {
    assert!(told.is_sorted_by_key(|event| event.cursor.seq), "cursors never go back: {told:#?}");
}

#[tokio::test]
async fn joined_output_is_the_result() {
    let scene = Scene::new([Reply::calls([("pour", "{}")]), Reply::text("poured")]);
    let session = scene.harness().await.create(spec()).await.unwrap();
    let mut events = session.root().events(None).await.unwrap();
    session.root().submit(Input::text("pour")).await.unwrap();
    let mut told = until(&mut events, is_output).await;
    let EventKind::Output { call, offset: 0, delta } = &told.last().unwrap().kind else { panic!("{told:?}") };
    assert_eq!(delta, "né 🙂\n", "it is shown while the call runs");
    let view = session.root().view().await.unwrap().turn.unwrap();
    assert_eq!((view.phase, &view.calls[0].call, &view.calls[0].output), (TurnPhase::Calling, call, delta));
    assert_eq!(view.calls[0].state, CallStanding::Running);
    scene.pouring.first.cancel();
    told.extend(until(&mut events, is_output).await);
    scene.pouring.last.cancel();
    told.extend(to_end(&mut events).await);
    assert_eq!(
        types(&told),
        [
            "entry",
            "turn_started",
            "request_started",
            "call_proposed",
            "call_started",
            "output",
            "call_ended",
            "request_started",
            "text",
            "turn_ended"
        ]
    );
    let all = joined(&told);
    let EventKind::Output { delta, .. } = &all[5] else { panic!("{all:?}") };
    let EventKind::CallEnded { text, outcome: Outcome::Ok, .. } = &all[6] else { panic!("{all:?}") };
    assert_eq!((delta, text), (text, &"né 🙂\nzoë\n".to_owned()));
}

// What calls had shown of their output stayed stored beside their results for as long as the session lived.
// Guards: it goes with the commit of the result, which is what is kept and shown from then on.
#[tokio::test]
async fn what_a_call_has_shown_is_kept_by_its_result_alone() {
    let gate = CancelToken::new();
    let scene = Scene::new([Reply::calls([("pour", "{}")]), Reply::words("poured ").then_wait(&gate)]);
    let session = scene.harness().await.create(spec()).await.unwrap();
    let mut events = session.root().events(None).await.unwrap();
    let asked = session.root().submit(Input::text("pour")).await.unwrap();
    let told = until(&mut events, is_output).await;
    let EventKind::Output { call, .. } = &told.last().unwrap().kind else { panic!("{told:?}") };
    let documents = async || {
        let task = ScopeKey::Task(call.0[1..].parse().unwrap());
        session.documents(task).await.unwrap().iter().map(|one| one.record().kind.clone()).collect::<Vec<_>>()
    };
    assert_eq!(documents().await, ["et.output"]);
    scene.pouring.first.cancel();
    until(&mut events, is_output).await;
    scene.pouring.last.cancel();
    until(&mut events, |kind| matches!(kind, EventKind::Text { .. })).await;
    assert!(documents().await.is_empty());
    let view = session.root().view().await.unwrap().turn.unwrap();
    let shown = (CallStanding::Ended(Outcome::Ok), "né 🙂\nzoë\n".to_owned());
    assert_eq!((view.calls[0].state.clone(), view.calls[0].output.clone()), shown);
    assert_eq!(scene.reader(&session).await.view(ROOT).await.unwrap().turn, Some(view));
    gate.cancel();
    asked.answer().await.unwrap();
}

#[tokio::test]
async fn the_owner_and_a_stranger_are_told_the_same() {
    let gate = CancelToken::new();
    let scene = Scene::new([
        Reply::words("half of").then_fault(FaultClass::Overloaded, "busy"),
        Reply::calls([("pour", "{}"), ("none", "{}")]).after_text("I shall pour.").usage(3, 2),
        Reply::words("The jug ").then_wait(&gate).then_text("is empty.").usage(5, 2),
    ]);
    let session = scene.asking().await.create(spec()).await.unwrap();
    let (mut own, mut other) =
        (session.root().events(None).await.unwrap(), scene.stranger(&session, None).await);
    // Both have begun before anything happens.
    session.root().submit(Input::write(everturn_core::entry::Entry::new("app.note"))).await.unwrap();
    let mut told = [vec![next(&mut own).await], vec![next(&mut other).await]];
    let asked = session.root().submit(Input::text("pour")).await.unwrap();

    let is_wait = |kind: &EventKind| matches!(kind, EventKind::Retry { .. });
    told[0].extend(until(&mut own, is_wait).await);
    told[1].extend(until(&mut other, is_wait).await);
    assert!(matches!(session.root().view().await.unwrap().turn.unwrap().phase, TurnPhase::WaitingUntil(_)));
    scene.clock.advance(std::time::Duration::from_secs(60));

    told[0].extend(until(&mut own, is_asked).await);
    told[1].extend(until(&mut other, is_asked).await);
    let view = scene.reader(&session).await.view(ROOT).await.unwrap();
    assert_eq!(view.turn.as_ref().unwrap().phase, TurnPhase::WaitingForPerson);
    assert_eq!(view.turn.unwrap().calls[0].state, CallStanding::Asking);
    let steer = session.root().submit(Input::text("gently").steer()).await.unwrap();
    let queued = scene.reader(&session).await.view(ROOT).await.unwrap().queued;
    assert_eq!((queued[0].submission, queued[0].text.as_str()), (steer.id(), "gently"));
    session.decide(view.approvals[0].id, Decision::Allow, "someone").await.unwrap();

    told[0].extend(until(&mut own, is_output).await);
    told[1].extend(until(&mut other, is_output).await);
    scene.pouring.first.cancel();
    told[0].extend(until(&mut own, is_output).await);
    told[1].extend(until(&mut other, is_output).await);
    scene.pouring.last.cancel();
    gate.cancel();
    told[0].extend(to_end(&mut own).await);
    told[1].extend(to_end(&mut other).await);

    asked.answer().await.unwrap();
    assert_eq!(joined(&told[0]), joined(&told[1]));
    assert_eq!(
        types(&told[0]),
        [
            "entry",
            "entry",
            "turn_started",
            "request_started",
            "text",
            "attempt_discarded",
            "retry",
            "request_started",
            "text",
            "call_proposed",
            "call_proposed",
            "usage",
            "approval_asked",
            "call_ended",
            "approval_decided",
            "call_started",
            "output",
            "call_ended",
            "steered",
            "request_started",
            "text",
            "usage",
            "turn_ended",
        ]
    );
    told.iter().for_each(|told| assert_sorted(told));

    // One who comes when all is over is told the same; only what was waited for has passed.
    let begin = Cursor { seq: Seq(1), ..told[0][0].cursor };
    let mut late = to_end(&mut scene.stranger(&session, begin).await).await;
    let passed: Vec<EventKind> = joined(&told[0]).into_iter().filter(|kind| !is_wait(kind)).collect();
    assert_eq!(joined(&late), passed);
    assert_sorted(&late);
    late = to_end(&mut session.root().events(begin).await.unwrap()).await;
    assert_eq!(joined(&late), passed);
}

#[tokio::test]
async fn a_decision_is_told_with_who_made_it() {
    let scene = Scene::new([Reply::calls([("pour", "{}")]), Reply::text("then not")]);
    let session = scene.asking().await.create(spec()).await.unwrap();
    let mut events = scene.stranger(&session, None).await;
    session.root().submit(Input::text("pour")).await.unwrap();
    let told = until(&mut events, is_asked).await;
    let EventKind::ApprovalAsked { approval } = told.last().unwrap().kind.clone() else { panic!("{told:?}") };
    assert!(approval.is_open());
    let no = Decision::Deny { reason: "not here".into() };
    session.decide(approval.id, no.clone(), "someone").await.unwrap();
    let told = to_end(&mut events).await;
    let state = ApprovalState::Decided { decision: no, actor: "someone".into(), time: Timestamp(1_000) };
    assert_eq!(told[0].kind, EventKind::ApprovalDecided { approval: ApprovalRecord { state, ..approval } });
    assert_eq!(
        types(&told)[1..],
        ["call_ended", "request_started", "text", "turn_ended"],
        "it never started"
    );
}

#[tokio::test]
async fn from_a_cursor_in_the_middle_of_an_attempt_it_is_told_anew() {
    let gate = CancelToken::new();
    let scene = Scene::new([Reply::words("The pond has ").then_wait(&gate).then_text("three frogs.")]);
    let session = scene.harness().await.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("How many?")).await.unwrap();
    let middle = until(&mut asked.events(), |kind| matches!(kind, EventKind::Text { .. })).await;
    let (mut own, mut other) = (
        session.root().events(last_cursor(&middle)).await.unwrap(),
        scene.stranger(&session, last_cursor(&middle)).await,
    );
    let withdrawn = EventKind::AttemptDiscarded { step: 1, attempt: 1 };
    assert_eq!(next(&mut own).await.kind, withdrawn);
    gate.cancel();
    asked.answer().await.unwrap();
    for told in [to_end(&mut own).await, to_end(&mut other).await[1..].to_vec()] {
        assert_eq!(types(&told), ["request_started", "text", "turn_ended"]);
        let text = EventKind::Text { step: 1, attempt: 1, delta: "The pond has three frogs.".into() };
        assert_eq!(joined(&told)[1], text);
    }
    let over = to_end(&mut session.root().events(last_cursor(&middle)).await.unwrap()).await;
    assert_eq!(types(&over), ["attempt_discarded", "request_started", "text", "turn_ended"]);
}

#[tokio::test]
async fn from_a_cursor_in_the_middle_of_a_call_its_output_comes_from_its_beginning() {
    let scene = Scene::new([Reply::calls([("pour", "{}")]), Reply::text("poured")]);
    let session = scene.harness().await.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("pour")).await.unwrap();
    let middle = until(&mut asked.events(), is_output).await;
    scene.pouring.first.cancel();
    scene.pouring.last.cancel();
    asked.answer().await.unwrap();
    let told = to_end(&mut scene.stranger(&session, last_cursor(&middle)).await).await;
    assert_eq!(types(&told), ["output", "call_ended", "request_started", "text", "turn_ended"]);
    assert!(matches!(&joined(&told)[0], EventKind::Output { offset: 0, .. }));
}

#[tokio::test]
async fn joined_over_a_reopening_no_event_comes_twice() {
    let scene = Scene::new([Reply::calls([("pour", "{}")]), Reply::text("poured").usage(1, 1)]);
    scene.pouring.first.cancel();
    scene.pouring.last.cancel();
    let harness = scene.asking().await;
    let session = harness.create(spec()).await.unwrap();
    let mut all = scene.stranger(&session, None).await;
    let mut events = session.root().events(None).await.unwrap();
    session.root().submit(Input::text("pour")).await.unwrap();
    let mut told = until(&mut events, is_asked).await;
    let mut whole = until(&mut all, is_asked).await;
    session.close().await.unwrap();
    drop((session, events));

    let session = harness.open_session(last_cursor(&told).session).await.unwrap();
    let mut events = session.root().events(last_cursor(&told)).await.unwrap();
    let open = session.open_approvals()[0].id;
    session.decide(open, Decision::Allow, "someone").await.unwrap();
    told.extend(to_end(&mut events).await);
    whole.extend(to_end(&mut all).await);
    assert_eq!(joined(&told), joined(&whole));
    assert_sorted(&told);
    assert_eq!(types(&told).iter().filter(|one| *one == "approval_asked").count(), 1);

    // The same when all has happened before one comes back.
    let asked = told.iter().position(|event| is_asked(&event.kind)).unwrap();
    let again = to_end(&mut scene.stranger(&session, told[asked].cursor).await).await;
    assert_eq!(joined(&again), joined(&told[asked + 1..]));
}

#[tokio::test]
async fn a_cursor_that_is_none_of_its_own_is_refused_or_begins_anew() {
    let gate = CancelToken::new();
    let scene = Scene::new([Reply::words("one ").then_wait(&gate).then_text("two")]);
    let session = scene.harness().await.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("count")).await.unwrap();
    let told = until(&mut asked.events(), |kind| matches!(kind, EventKind::Text { .. })).await;
    let here = last_cursor(&told);

    let elsewhere = scene.harness().await.create(spec()).await.unwrap();
    let foreign = session.root().events(Cursor { session: elsewhere.id(), ..here }).await;
    assert_eq!(*foreign.unwrap_err().kind(), ErrorKind::Invalid);

    let beyond = Cursor { seq: Seq(1_000), ..here };
    let mut own = session.root().events(beyond).await.unwrap();
    let mut other = scene.stranger(&session, beyond).await;
    let mut own = (next(&mut own).await, own);
    let mut other = (next(&mut other).await, other);
    assert_eq!((&own.0.kind, &other.0.kind), (&EventKind::Resync, &EventKind::Resync));
    gate.cancel();
    for told in [to_end(&mut own.1).await, to_end(&mut other.1).await] {
        assert_eq!(types(&told), ["turn_started", "request_started", "text", "turn_ended"]);
    }
}

#[tokio::test]
async fn a_view_goes_on_with_the_events_behind_its_cursor() {
    let gate = CancelToken::new();
    let scene = Scene::new([Reply::words("one ").then_wait(&gate).then_text("two").usage(2, 1)]);
    let session = scene.harness().await.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("count")).await.unwrap();
    until(&mut asked.events(), |kind| matches!(kind, EventKind::Text { .. })).await;
    let view = session.root().view().await.unwrap();
    assert_eq!(scene.reader(&session).await.view(ROOT).await.unwrap(), view, "whoever looks");
    let turn = view.turn.as_ref().unwrap();
    assert_eq!((turn.step, turn.attempt, turn.phase), (1, 1, TurnPhase::Requesting));
    assert_eq!(turn.response.text, "one ");
    assert_eq!(view.agent.model, spec().agent.model);
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["cursor"], view.cursor.to_string());
    gate.cancel();
    let told = to_end(&mut session.root().events(view.cursor).await.unwrap()).await;
    assert_eq!(types(&told), ["attempt_discarded", "request_started", "text", "usage", "turn_ended"]);
    let view = session.root().view().await.unwrap();
    assert_eq!((view.turn, view.usage.requests, view.usage.usage.input), (None, 1, Some(2)));
}

#[tokio::test]
async fn a_view_shows_the_sub_agents_at_work() {
    let gate = CancelToken::new();
    let scene = Scene::new([
        Reply::calls([("delegate", "{}")]),
        Reply::words("at it ").then_wait(&gate),
        Reply::text("it is done"),
    ]);
    let session = scene.harness().await.create(spec()).await.unwrap();
    let mut events = session.root().events(None).await.unwrap();
    let asked = session.root().submit(Input::text("see to it")).await.unwrap();
    until(&mut events, |kind| matches!(kind, EventKind::CallStarted { .. })).await;
    let view = loop {
        let view = scene.reader(&session).await.view(ROOT).await.unwrap();
        if !view.children.is_empty() {
            break view;
        }
        tokio::task::yield_now().await;
    };
    let turn = view.turn.unwrap();
    let child = &view.children[0];
    assert_eq!((turn.phase, &turn.calls[0].state), (TurnPhase::Calling, &CallStanding::Running));
    assert_eq!(turn.calls[0].call.0, format!("c{}", child.owner));
    assert_eq!((child.phase, child.is_background), (Some(TurnPhase::Requesting), false));
    let inside = session.conversation_handle(child.conversation).view().await.unwrap();
    assert_eq!(inside.turn.map(|turn| turn.turn), child.turn);
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().text, "it is done");
    assert!(session.root().view().await.unwrap().children.is_empty(), "nobody works any more");
}
