//! The decision, as a table.

use everturn_core::{
    id::{EntryId, TaskId},
    message::Stop,
    model::Thinking,
    usage::Total,
};

use super::state::{Ending, Next, Phase, Pinned, Reason, TurnState, next};

fn turn(phase: Phase) -> TurnState {
    TurnState {
        phase,
        step: 1,
        attempt: 1,
        last: EntryId(9),
        total: Total::default(),
        is_aborted: false,
        open: 0,
        steps_max: 3,
    }
}

fn asked() -> TurnState {
    TurnState { step: 0, attempt: 0, ..turn(Phase::Asked) }
}

fn pinned() -> TurnState {
    let model = "demo".parse().expect("a model reference");
    let pinned = Pinned { model, thinking: Thinking::Default, cutoff: EntryId(2) };
    turn(Phase::Pinned(pinned))
}

fn responded(stop: Stop) -> TurnState {
    turn(Phase::Responded { stop, reply: EntryId(9) })
}

fn calling(open: usize) -> TurnState {
    TurnState { open, ..turn(Phase::Calling { calls: vec![TaskId(5), TaskId(6)] }) }
}

fn cancelled(state: TurnState) -> TurnState {
    TurnState { is_aborted: true, ..state }
}

fn wait() -> Next {
    Next::Wait { on: vec![TaskId(5), TaskId(6)] }
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
    check(
        "an answer ends the turn",
        &responded(Stop::Answer),
        &Next::End(Ending::Answered { reply: EntryId(9) }),
    );
    check("a pause is sent back", &responded(Stop::Paused), &Next::Prepare);
}

#[test]
fn an_end_that_is_no_answer_is_never_success() {
    for (stop, kind) in [(Stop::Length, "length"), (Stop::Refused, "refused"), (Stop::Filtered, "filtered")] {
        let Next::End(Ending::Failed(reason)) = next(&responded(stop)) else { panic!("{kind} must fail") };
        assert_eq!(reason.kind, kind);
    }
    let reason = Reason::new("quota", "no credit");
    check("a fault ends the turn", &turn(Phase::Failed(reason.clone())), &Next::End(Ending::Failed(reason)));
}

#[test]
fn a_cancelled_turn_ends_before_the_next_effect() {
    check("before the first request", &cancelled(asked()), &Next::Stop);
    check("before a request is sent again", &cancelled(pinned()), &Next::Stop);
    check("when its calls have ended", &cancelled(calling(0)), &Next::Stop);
    check("but not while calls run: they end first", &cancelled(calling(1)), &wait());
    let answer = Next::End(Ending::Answered { reply: EntryId(9) });
    check("an answer that is there is kept", &cancelled(responded(Stop::Answer)), &answer);
}

#[test]
fn a_turn_has_no_more_steps_than_it_may() {
    let last = TurnState { step: 3, ..calling(0) };
    check("the limit ends it", &last, &Next::End(Ending::MaxSteps { steps: 3 }));
    let paused = TurnState { step: 3, ..responded(Stop::Paused) };
    check(
        "a model that pauses without end is stopped too",
        &paused,
        &Next::End(Ending::MaxSteps { steps: 3 }),
    );
    check("open calls end first", &TurnState { step: 3, ..calling(1) }, &wait());
}
