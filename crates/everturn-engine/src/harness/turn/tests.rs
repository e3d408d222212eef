//! The decision, as a table.

use everturn_core::{
    id::{EntryId, TaskId},
    message::{Call, CallId, CallResult, Outcome, Stop},
    model::{Fault, FaultClass, Thinking},
    tool::Control,
};

use super::{
    standstill::Repeats,
    state::{
        Asked, Counts, Ending, IRREDUCIBLE, Judged, Limits, Next, Phase, Pinned, Reason, TurnState, next,
    },
};

fn turn(phase: Phase) -> TurnState {
    let limits = Limits { steps_max: 3, ..Limits::default() };
    TurnState { phase, step: 1, attempt: 1, limits, ..TurnState::begin(EntryId(9)) }
}

fn asked() -> TurnState {
    TurnState { step: 0, attempt: 0, ..turn(Phase::Asked) }
}

fn request() -> Pinned {
    let model = "demo".parse().expect("a model reference");
    Pinned { model, thinking: Thinking::Default, cutoff: EntryId(2), schema: None }
}

fn pinned() -> TurnState {
    turn(Phase::Pinned(request()))
}

fn responded(stop: Stop) -> TurnState {
    judged(stop, Judged::Open)
}

fn judged(stop: Stop, judged: Judged) -> TurnState {
    turn(Phase::Responded { stop, reply: EntryId(9), judged })
}

fn calling(open: usize) -> TurnState {
    TurnState { open, ..turn(Phase::Calling { calls: vec![TaskId(5), TaskId(6)] }) }
}

fn faulted(class: FaultClass, counts: Counts) -> TurnState {
    let fault = Fault::new(class, "why");
    TurnState { counts, ..turn(Phase::Faulted { fault, pinned: request() }) }
}

fn cancelled(state: TurnState) -> TurnState {
    TurnState { is_aborted: true, ..state }
}

fn wait() -> Next {
    Next::Wait { on: vec![TaskId(5), TaskId(6)] }
}

fn answered() -> Next {
    Next::End(Ending::Answered { reply: EntryId(9) })
}

fn check(why: &str, state: &TurnState, expected: &Next) {
    assert_eq!(&next(state), expected, "{why}");
}

#[test]
fn what_comes_next() {
    check("a question is prepared", &asked(), &Next::Prepare);
    check("a pinned request is sent", &pinned(), &Next::Request);
    check("calls are waited for", &calling(2), &wait());
    check("one open call is enough to wait", &calling(1), &wait());
    check("settled calls go back to the model", &calling(0), &Next::Prepare);
    check("an answer ends the turn", &responded(Stop::Answer), &answered());
    check("a pause is sent back", &responded(Stop::Paused), &Next::Prepare);
    let compacting = turn(Phase::Compacting { task: TaskId(5), was_sent: false });
    let open = TurnState { open: 1, ..compacting.clone() };
    check("a compaction is waited for", &open, &Next::Wait { on: vec![TaskId(5)] });
    check("and then the request is prepared", &compacting, &Next::Prepare);
}

#[test]
fn an_end_that_is_no_answer_is_never_success() {
    for (stop, kind) in [(Stop::Length, "length"), (Stop::Refused, "refused"), (Stop::Filtered, "filtered")] {
        let Next::End(Ending::Failed(reason)) = next(&responded(stop)) else { panic!("{kind} must fail") };
        assert_eq!(reason.kind, kind);
    }
    let reason = Reason::new("quota", "no credit");
    check("what cannot go on ends", &turn(Phase::Failed(reason.clone())), &Next::End(Ending::Failed(reason)));
    let spent = turn(Phase::Spent { limit: "cost".into() });
    let limit = "cost".into();
    check("a budget that is used up ends the turn", &spent, &Next::End(Ending::OutOfBudget { limit }));
}

#[test]
fn a_cancelled_turn_ends_before_the_next_effect() {
    check("before the first request", &cancelled(asked()), &Next::Stop);
    check("before a request is sent again", &cancelled(pinned()), &Next::Stop);
    let fault = faulted(FaultClass::Transient, Counts::default());
    check("before a failed request is tried again", &cancelled(fault), &Next::Stop);
    check("when its calls have ended", &cancelled(calling(0)), &Next::Stop);
    check("but not while calls run: they end first", &cancelled(calling(1)), &wait());
    check("an answer that is there is kept", &cancelled(responded(Stop::Answer)), &answered());
    let gates = |state: TurnState| TurnState { limits: Limits { gates: 1, ..state.limits }, ..state };
    check(
        "one that the gates have not seen is none",
        &cancelled(gates(responded(Stop::Answer))),
        &Next::Stop,
    );
    for no in [Judged::Refused("no".into()), Judged::Invalid("no".into())] {
        check("nor is one that must not stand", &cancelled(judged(Stop::Answer, no)), &Next::Stop);
    }
    check("one that passed is", &cancelled(judged(Stop::Answer, Judged::Passed)), &answered());
}

#[test]
fn a_turn_has_no_more_steps_than_it_may() {
    let last = |state| TurnState { step: 3, ..state };
    let end = Next::End(Ending::MaxSteps { steps: 3 });
    check("the limit ends it", &last(calling(0)), &end);
    check("a model that pauses without end is stopped too", &last(responded(Stop::Paused)), &end);
    check("open calls end first", &last(calling(1)), &wait());
    let refused = judged(Stop::Answer, Judged::Refused("no".into()));
    check("a refused answer stands at the last step", &last(refused), &answered());
}

#[test]
fn what_fails_in_passing_is_tried_again_and_nothing_else() {
    let retry = |class| Next::Retry { fault: Fault::new(class, "why"), pinned: request() };
    let end = |class| Next::End(Ending::Failed(Reason::fault(&Fault::new(class, "why"))));
    for class in [FaultClass::Transient, FaultClass::RateLimited, FaultClass::Overloaded] {
        check("again", &faulted(class, Counts { retries: 2, ..Counts::default() }), &retry(class));
        check("not for ever", &faulted(class, Counts { retries: 3, ..Counts::default() }), &end(class));
    }
    for class in
        [FaultClass::Quota, FaultClass::Auth, FaultClass::Invalid, FaultClass::Refused, FaultClass::Bug]
    {
        check("never", &faulted(class, Counts::default()), &end(class));
    }
    let said = Fault { retry: Some(false), ..Fault::new(FaultClass::Overloaded, "why") };
    let state = turn(Phase::Faulted { fault: said.clone(), pinned: request() });
    check("what the server says decides", &state, &Next::End(Ending::Failed(Reason::fault(&said))));
}

#[test]
fn a_fallback_is_asked_when_the_model_cannot_be() {
    let limits = Limits { fallbacks: 1, ..Limits::default() };
    let with = |class, counts| TurnState { limits, ..faulted(class, counts) };
    check(
        "at once, where trying again is of no use",
        &with(FaultClass::Quota, Counts::default()),
        &Next::FallBack,
    );
    let tired = Counts { retries: 3, ..Counts::default() };
    check("when all tries are used up", &with(FaultClass::Overloaded, tired), &Next::FallBack);
    let used = Counts { retries: 3, fallback: 1, ..Counts::default() };
    let end = Next::End(Ending::Failed(Reason::new("overloaded", "why")));
    check("and no more than there are", &with(FaultClass::Overloaded, used), &end);
    let wrong = Next::End(Ending::Failed(Reason::new("invalid", "why")));
    check("never for what is wrong with the request", &with(FaultClass::Invalid, Counts::default()), &wrong);
}

#[test]
fn what_does_not_fit_is_made_shorter_once() {
    check("once", &faulted(FaultClass::TooLong, Counts::default()), &Next::Compact);
    let again = Counts { compactions: 1, ..Counts::default() };
    let end = Next::End(Ending::Failed(Reason::new(IRREDUCIBLE, "why")));
    check("and then it ends", &faulted(FaultClass::TooLong, again), &end);
    check("signed items are dropped once", &faulted(FaultClass::Binding, Counts::default()), &Next::Rebind);
    let again = Counts { epochs: 1, ..Counts::default() };
    let end = Next::End(Ending::Failed(Reason::new("binding", "why")));
    check("and then it ends too", &faulted(FaultClass::Binding, again), &end);
}

#[test]
fn an_answer_has_to_pass_what_was_asked_for_and_the_gates() {
    let gates = |state: TurnState| TurnState { limits: Limits { gates: 1, ..state.limits }, ..state };
    check("the gates are asked", &gates(responded(Stop::Answer)), &Next::Gate { reply: EntryId(9) });
    check("what passed stands", &gates(judged(Stop::Answer, Judged::Passed)), &answered());
    let refused = judged(Stop::Answer, Judged::Refused("run the tests".into()));
    check("what was refused goes on", &refused, &Next::SendOn { message: "run the tests".into() });
    let often = TurnState { counts: Counts { refusals: 3, ..Counts::default() }, ..refused };
    check("but not for ever", &often, &answered());
    let invalid = judged(Stop::Answer, Judged::Invalid("it is no JSON value".into()));
    assert!(matches!(next(&invalid), Next::SendOn { message } if message.contains("no JSON value")));
    let often = TurnState { counts: Counts { repairs: 2, ..Counts::default() }, ..invalid };
    let Next::End(Ending::Failed(reason)) = next(&often) else { panic!("it must fail") };
    assert_eq!(reason.kind, "invalid_answer");
}

#[test]
fn calls_may_end_the_turn() {
    let ends = TurnState { asked: Asked { end_turn: true, hand_off: None }, ..calling(0) };
    check("when all say so", &ends, &Next::End(Ending::Ended));
    let hands_off = Asked { end_turn: false, hand_off: Some("go on with this".into()) };
    let text = "go on with this".into();
    let state = TurnState { asked: hands_off, ..calling(0) };
    check("one is enough to hand off", &state, &Next::End(Ending::HandedOff { text }));
    let result = |control| CallResult { control, ..CallResult::new(CallId("c".into()), Outcome::Ok, "") };
    let (end, on) = (result(Control { end_turn: true, ..Control::default() }), result(Control::default()));
    assert!(Asked::of([Some(&end), Some(&end)].into_iter()).end_turn);
    assert!(!Asked::of([Some(&end), Some(&on)].into_iter()).end_turn);
}

#[test]
fn a_turn_that_stands_still_ends() {
    let call = |name: &str, arguments: &str| Call {
        id: CallId(name.into()),
        provider: None,
        name: name.into(),
        arguments: everturn_core::json::RawJson::parse(arguments).unwrap(),
    };
    let result = |text: &str| CallResult::new(CallId("c".into()), Outcome::Ok, text);
    let (a, b, same, other) = (call("a", "{}"), call("b", "{}"), result("1"), result("2"));
    let once = Repeats::default().count([(&a, Some(&same)), (&b, Some(&same))].into_iter());
    let twice = once.count([(&b, Some(&same)), (&a, Some(&same))].into_iter());
    assert_eq!((once.count, twice.count), (1, 2), "the order of calls says nothing");
    assert_eq!(twice.count([(&a, Some(&other)), (&b, Some(&same))].into_iter()).count, 1);
    assert_eq!(
        twice.count([(&call("a", r#"{"n":1}"#), Some(&same)), (&b, Some(&same))].into_iter()).count,
        1
    );

    let still = |count| TurnState { repeats: Repeats { count, ..twice.clone() }, ..calling(0) };
    check("not before", &still(5), &Next::Prepare);
    check("but then", &still(6), &Next::End(Ending::Standstill { repeats: 6 }));
}
