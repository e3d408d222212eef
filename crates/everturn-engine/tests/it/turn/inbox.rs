//! What is handed to a conversation in which a turn runs: each leaves the queue once, whatever happens.

use std::sync::{Arc, Mutex};

use everturn_core::{
    BoxFuture, CancelToken, Error, Result,
    entry::{Entry, kind},
    id::{SubmissionId, TaskId},
    message::Message,
    model::FaultClass,
    storage::{Batch, Committed, Layer, Layered, Store, SubmissionFilter, SubmissionQuery, Write},
    submission::{End, Late, SubmissionState},
    task::tree::Reach,
    tool::Contract,
};
use everturn_engine::{Extension, Harness, Input, LiveSession, QueueMode, SessionSpec, Settings, WhenBusy};
use everturn_testkit::{
    scripted::{Reply, Scripted},
    watched::Watched,
};

use crate::support::{
    Doing, Stop, ask, assert_legal, builder, explore, life, rules, spec, stops, store, until,
};

/// A model that takes two steps with calls for the first question of a conversation, and answers all others at once.
fn two_steps() -> Scripted {
    Scripted::answering(|request| {
        let is_result = |message: &&Arc<Message>| matches!(&***message, Message::Result(_));
        match request.messages.iter().filter(is_result).count() {
            0 => Reply::calls([("do", "{}"), ("do_1", "{}")]).after_text("I look. "),
            2 => Reply::calls([("do", "{}")]),
            _ => Reply::words("so it is"),
        }
    })
}

fn tools() -> Extension {
    let safe = Contract::safe;
    Extension::new("test")
        .tool(Doing::<0>::says("done").contract(safe()))
        .tool(Doing::<1>::says("done too").contract(safe()))
}

async fn open(store: &Store, model: &Scripted) -> (Harness, LiveSession) {
    let harness = builder(store, model).install(tools()).unwrap().open().await.unwrap();
    let spec = SessionSpec { request: Some("the session".into()), ..spec() };
    let session = harness.create(spec).await.unwrap();
    (harness, session)
}

/// Proves that a steer ended once: it stands in the transcript once, it was sent, and what is stored agrees with itself.
async fn check_steer(harness: &Harness, session: &LiveSession, steer: SubmissionId) {
    let query = SubmissionQuery { session: session.id(), only: SubmissionFilter::Id(steer) };
    let record = session.store().submissions(query).await.unwrap().pop().unwrap();
    let SubmissionState::Settled { end: End::Answered, place: Some(place) } = record.state else {
        panic!("the steer has not ended well: {record:?}")
    };
    let entries = session.entries(session.root().id(), None, 1_000).await.unwrap();
    let says: Vec<_> = entries.iter().filter(|entry| entry.text() == "in French").collect();
    assert_eq!(says.len(), 1, "it was placed once");
    assert_eq!((says[0].id, says[0].task), (place.entry, Some(place.turn)));
    assert_eq!(harness.verify(session.id()).await.unwrap(), []);
    assert!(session.open_submissions().is_empty());
}

async fn steered_at(stop: Stop) -> bool {
    let (memory, model, fire) = (store(), two_steps(), CancelToken::new());
    let tell = {
        let fire = fire.clone();
        move |moment, number| -> BoxFuture<'static, ()> {
            let is_it = stop == (moment, number);
            let fire = fire.clone();
            Box::pin(async move {
                if is_it {
                    fire.cancel();
                    // The commit under way waits until the steer stands in line behind it.
                    for _ in 0..8 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        }
    };
    let watched = Store::new(Layered(Watched::new(memory, tell)));
    let (harness, session) = open(&watched, &model).await;
    let steering = tokio::spawn({
        let (session, fire) = (session.clone(), fire.clone());
        async move {
            fire.cancelled().await;
            let steer = Input::text("in French").steer().request("steer");
            let steer = session.root().submit(steer).await.unwrap();
            assert_eq!(steer.answer().await.unwrap().end, End::Answered);
            steer.id()
        }
    });
    let answer = ask(&session, "look").await;
    assert_eq!((answer.text.as_str(), answer.is_answered()), ("so it is", true));
    if !fire.is_cancelled() {
        return false;
    }
    let steer = steering.await.unwrap();
    check_steer(&harness, &session, steer).await;
    let requests = model.requests();
    assert!(requests.last().unwrap().texts().contains(&"in French".into()), "{stop:?}: it was sent");
    assert_legal(&model);
    true
}

#[tokio::test]
async fn a_steer_at_any_commit_of_a_turn_ends_once() {
    let mut reached = 0;
    for stop in stops() {
        if !steered_at(stop).await {
            break;
        }
        reached += 1;
    }
    assert!(reached > 14, "the turn has more than seven commits, and {reached} moments");
}

#[test]
fn a_steer_before_a_crash_at_any_commit_ends_once() {
    let model = two_steps();
    let reached = explore(
        || (),
        async |store, ()| {
            let (harness, session) = open(&store, &model).await;
            let asked = session.root().submit(Input::text("look").request("look")).await.unwrap();
            let steer = Input::text("in French").steer().request("steer");
            let steer = session.root().submit(steer).await.unwrap();
            assert_eq!(asked.answer().await.unwrap().text, "so it is");
            assert_eq!(steer.answer().await.unwrap().end, End::Answered);
            check_steer(&harness, &session, steer.id()).await;
            assert_legal(&model);
        },
    );
    assert!(reached > 14, "{reached} moments");
}

/// A session whose first request waits for the gate, and which then answers.
async fn busy(replies: impl IntoIterator<Item = Reply>) -> (LiveSession, Scripted, CancelToken) {
    let gate = CancelToken::new();
    let first = Reply::text("one").after_wait(&gate);
    let model = Scripted::new([first].into_iter().chain(replies));
    let (harness, session) = open(&store(), &model).await;
    let all = Settings { steers: QueueMode::All, ..harness.settings() };
    harness.set(all).unwrap();
    (session, model, gate)
}

#[tokio::test]
async fn order_is_kept_within_a_kind_and_the_receipt_names_turn_and_step() {
    let (gate, calls) = (CancelToken::new(), Reply::calls([("do", "{}")]));
    let model = Scripted::new([calls.after_wait(&gate), Reply::text("two"), Reply::text("three")]);
    let (_, session) = open(&store(), &model).await;
    let submit = async |input: Input| session.root().submit(input).await.unwrap();
    let asked = submit(Input::text("a")).await;
    let follow_up = submit(Input::text("later")).await;
    let steers = [submit(Input::text("s1").steer()).await, submit(Input::text("s2").steer()).await];
    let note = Entry::new("app.note").message(Message::user("w1"));
    let write = submit(Input::write(note)).await;
    gate.cancel();
    let turn = asked.answer().await.unwrap().turn;
    for steer in &steers {
        assert_eq!(steer.answer().await.unwrap().turn, turn);
        let query = SubmissionQuery { session: session.id(), only: SubmissionFilter::Id(steer.id()) };
        let record = session.store().submissions(query).await.unwrap().pop().unwrap();
        assert_eq!(record.place().unwrap().step, 2);
    }
    assert!(matches!(write.answer().await.unwrap().end, End::Written { .. }));
    assert_ne!(follow_up.answer().await.unwrap().turn, turn);
    let requests = model.requests();
    assert_eq!(requests[1].texts(), ["a", "", "done", "w1", "s1", "s2"]);
    assert_eq!(requests[2].texts()[6..], ["two", "later"]);
    assert_legal(&model);
}

#[tokio::test]
async fn steers_are_placed_one_at_a_time_where_the_host_says_so() {
    let (gate, calls) = (CancelToken::new(), || Reply::calls([("do", "{}")]));
    let model = Scripted::new([calls().after_wait(&gate), calls(), Reply::text("two"), Reply::text("three")]);
    let (harness, session) = open(&store(), &model).await;
    harness.set(Settings { steers: QueueMode::One, ..harness.settings() }).unwrap();
    let submit = async |input: Input| session.root().submit(input).await.unwrap();
    let asked = submit(Input::text("a")).await;
    let steers = [submit(Input::text("s1").steer()).await, submit(Input::text("s2").steer()).await];
    gate.cancel();
    asked.answer().await.unwrap();
    for (steer, step) in steers.iter().zip([2, 3]) {
        steer.answer().await.unwrap();
        let query = SubmissionQuery { session: session.id(), only: SubmissionFilter::Id(steer.id()) };
        let record = session.store().submissions(query).await.unwrap().pop().unwrap();
        assert_eq!(record.place().unwrap().step, step);
    }
    assert_legal(&model);
}

#[tokio::test]
async fn a_steer_that_comes_too_late_begins_a_turn_or_is_returned() {
    let (session, model, gate) = busy([Reply::text("two")]).await;
    let submit = async |input: Input| session.root().submit(input).await.unwrap();
    let steer = |late| WhenBusy::Steer { late, declining: false };
    let asked = submit(Input::text("a")).await;
    let returned = submit(Input::text("b").when_busy(steer(Late::Return))).await;
    let later = submit(Input::text("c").when_busy(steer(Late::FollowUp))).await;
    gate.cancel();
    let turn = asked.answer().await.unwrap().turn;
    let reason = "the turn that it should steer is over".to_owned();
    assert_eq!(returned.answer().await.unwrap().end, End::Returned { reason });
    let answer = later.answer().await.unwrap();
    assert_eq!(answer.text, "two");
    assert_ne!(answer.turn, turn);
    let idle = submit(Input::text("d").when_busy(steer(Late::Return))).await;
    let reason = "no turn runs that it could steer".to_owned();
    assert_eq!(idle.answer().await.unwrap().end, End::Returned { reason });
    assert_legal(&model);
}

#[tokio::test]
async fn what_is_to_be_kept_goes_on_behind_a_failure() {
    let gate = CancelToken::new();
    let fails = Reply::fault(FaultClass::Auth, "no key").after_wait(&gate);
    let model = Scripted::new([fails, Reply::text("two")]);
    let (_, session) = open(&store(), &model).await;
    let submit = async |input: Input| session.root().submit(input).await.unwrap();
    let asked = submit(Input::text("a")).await;
    let returned = submit(Input::text("b")).await;
    let steer = submit(Input::text("c").steer()).await;
    let kept = submit(Input::text("d").keep()).await;
    let written = submit(Input::write(Entry::new("app.note"))).await;
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().end, End::Failed { reason: "auth".into() });
    for one in [returned, steer] {
        let reason = "the turn before it failed: auth".to_owned();
        assert_eq!(one.answer().await.unwrap().end, End::Returned { reason });
    }
    assert!(matches!(written.answer().await.unwrap().end, End::Written { .. }));
    assert_eq!(kept.answer().await.unwrap().text, "two");
    assert_legal(&model);
}

#[tokio::test]
async fn a_steer_waits_for_an_open_approval_unless_it_declines() {
    let model = Scripted::new([
        Reply::calls([("do", "{}"), ("do_1", "{}")]),
        Reply::text("then not"),
        Reply::text("more"),
    ]);
    let policy = rules(&["ask tool(do)", "allow tool(do_1)"]);
    let harness = builder(&store(), &model).install(tools()).unwrap().policy(policy).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    session.quiescent().await.unwrap();
    let waits = session.root().submit(Input::text("hurry").steer()).await.unwrap();
    session.quiescent().await.unwrap();
    assert_eq!((session.open_approvals().len(), waits.turn().await.unwrap()), (1, None));
    let declines = WhenBusy::Steer { late: Late::default(), declining: true };
    let head = session.head();
    let declined =
        session.root().submit(Input::text("not today").when_busy(declines).actor("ada")).await.unwrap();
    assert!(session.open_approvals().is_empty(), "in the same commit");
    assert!(session.head() > head);
    let turn = asked.answer().await.unwrap().turn;
    assert_eq!(waits.answer().await.unwrap().turn, turn);
    assert_eq!(declined.answer().await.unwrap().turn, turn);
    let texts = model.requests()[1].texts();
    assert_eq!(texts[2..], ["Declined by ada: not today", "done too", "hurry", "not today"]);
    assert_legal(&model);
}

#[tokio::test]
async fn a_request_id_that_is_repeated_after_a_restart_gives_the_first_submission() {
    let (store, model) = (store(), Scripted::new([Reply::text("one"), Reply::text("two")]));
    let (harness, session) = open(&store, &model).await;
    let first = session.root().submit(Input::text("a").request("r")).await.unwrap();
    first.answer().await.unwrap();
    session.close().await.unwrap();
    drop((session, harness));
    let (_, session) = open(&store, &model).await;
    let again = session.root().submit(Input::text("something else").steer().request("r")).await.unwrap();
    assert_eq!(again.id(), first.id());
    assert_eq!((again.answer().await.unwrap().text.as_str(), model.count()), ("one", 1));
    assert_legal(&model);
}

#[tokio::test]
async fn a_request_id_that_is_repeated_while_it_waits_waits_once() {
    let (session, model, gate) = busy([Reply::text("two")]).await;
    let submit = async |input: Input| session.root().submit(input).await.unwrap();
    let asked = submit(Input::text("a").request("a")).await;
    let waiting = submit(Input::text("b").request("b")).await;
    assert_eq!(submit(Input::text("b").request("b")).await.id(), waiting.id());
    assert_eq!(submit(Input::text("a").request("a")).await.id(), asked.id());
    gate.cancel();
    assert_eq!(waiting.answer().await.unwrap().text, "two");
    assert_eq!(model.count(), 2);
    assert_legal(&model);
}

#[tokio::test]
async fn an_abort_withdraws_inputs_and_keeps_writes() {
    let (session, model, _gate) = busy([Reply::text("two")]).await;
    let submit = async |input: Input| session.root().submit(input).await.unwrap();
    let asked = submit(Input::text("a")).await;
    let inputs = [submit(Input::text("b")).await, submit(Input::text("c").steer()).await];
    let write = submit(Input::write(Entry::new("app.note"))).await;
    until("the model was asked", || model.count() == 1).await;
    session.root().abort(Reach::Ordinary).await.unwrap();
    assert_eq!(asked.answer().await.unwrap().end, End::Cancelled);
    for input in inputs {
        assert_eq!(input.answer().await.unwrap().end, End::Withdrawn);
    }
    assert!(matches!(write.answer().await.unwrap().end, End::Written { .. }));
    assert_eq!(ask(&session, "d").await.text, "two");
    assert_legal(&model);
}

#[tokio::test]
async fn what_waits_can_be_withdrawn_and_what_was_placed_cannot() {
    let (session, model, gate) = busy([]).await;
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let waiting = session.root().submit(Input::text("b")).await.unwrap();
    waiting.withdraw().await.unwrap();
    assert!(asked.withdraw().await.is_err() && waiting.withdraw().await.is_err());
    gate.cancel();
    assert_eq!(waiting.answer().await.unwrap().end, End::Withdrawn);
    assert_eq!(asked.answer().await.unwrap().text, "one");
    assert_legal(&model);
}

/// A store that does not take the end of the first turn: no code can say any more what that turn leaves.
struct NoEnd {
    store: Store,
    first: Arc<Mutex<Option<TaskId>>>,
}

impl Layer for NoEnd {
    fn inner(&self) -> Store {
        self.store.clone()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed> {
        let end = batch.writes.iter().find_map(|write| match write {
            Write::Entry(entry) if entry.kind == kind::TURN => entry.task,
            _ => None,
        });
        let is_first = end.is_some_and(|turn| *self.first.lock().unwrap().get_or_insert(turn) == turn);
        if is_first {
            return Err(Error::invalid("the end of the first turn is not stored"));
        }
        self.store.commit(batch).await
    }
}

// What waited behind a turn whose code could not say what it leaves waited for ever, after a restart too.
// Guards: it is given back, or goes on where it is to be kept, wherever the process ends meanwhile.
#[test]
fn what_waits_behind_a_turn_that_left_nothing_is_returned_or_goes_on() {
    let make = || (Arc::new(Mutex::new(None)), CancelToken::new());
    let reached = explore(make, async |store, (first, gate)| {
        let model = Scripted::answering({
            let gate = gate.clone();
            move |request| match request.texts().contains(&"c".into()) {
                true => Reply::text("three"),
                false => Reply::text("one").after_wait(&gate),
            }
        });
        let store = Store::new(Layered(NoEnd { store, first: first.clone() }));
        let (harness, session) = open(&store, &model).await;
        let submit = async |input: Input| session.root().submit(input).await.unwrap();
        let asked = submit(Input::text("a").request("a")).await;
        let returned = submit(Input::text("b").request("b")).await;
        let kept = submit(Input::text("c").request("c").keep()).await;
        gate.cancel();
        assert_eq!(asked.answer().await.unwrap().end, End::Failed { reason: "faulted".into() });
        let reason = "what ran before it broke off".to_owned();
        assert_eq!(returned.answer().await.unwrap().end, End::Returned { reason });
        assert_eq!(kept.answer().await.unwrap().text, "three");
        assert!(session.open_submissions().is_empty());
        assert_eq!(harness.verify(session.id()).await.unwrap(), []);
        assert_legal(&model);
    });
    assert!(reached > 10, "{reached} moments");
}

#[test]
fn what_waits_survives_a_crash_in_its_order() {
    let (memory, gate) = (store(), CancelToken::new());
    let model = Scripted::answering({
        let gate = gate.clone();
        move |request| {
            let asked = request.texts().pop().unwrap();
            let reply = Reply::text(format!("answer to {asked}"));
            if asked == "a" { reply.after_wait(&gate) } else { reply }
        }
    });
    let names = ["a", "b", "c"];
    life(&memory, None, async |store| {
        let (_, session) = open(&store, &model).await;
        for name in names {
            session.root().submit(Input::text(name).request(name)).await.unwrap();
        }
        until("the model was asked", || model.count() == 1).await;
    });
    gate.cancel();
    life(&memory, None, async |store| {
        let (_, session) = open(&store, &model).await;
        let waiting = session.open_submissions();
        assert_eq!(waiting.len(), 3);
        for (one, name) in waiting.iter().zip(names) {
            assert_eq!(one.answer().await.unwrap().text, format!("answer to {name}"));
        }
    });
    assert_legal(&model);
}
