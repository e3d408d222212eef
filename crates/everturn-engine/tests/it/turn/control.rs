//! What results ask of their turn, and in which order calls run.

use std::sync::{Arc, Mutex};

use everturn_core::{
    CancelToken,
    tool::{CallContext, Contract, Control, ToolOutput},
};
use everturn_engine::{CallOrder, Extension, Input, Settings, TurnEnd};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{Doing, ask, assert_legal, builder, kinds, spec, store, until};

/// A tool whose result asks for this.
fn asks<const KIND: usize>(control: Control) -> Doing<KIND> {
    Doing::new(move |_, _| {
        let control = control.clone();
        async move { Ok(ToolOutput { control, ..ToolOutput::from("asked") }) }
    })
}

fn end_turn() -> Control {
    Control { end_turn: true, ..Control::default() }
}

#[tokio::test]
async fn calls_end_the_turn_when_all_of_them_say_so() {
    let model = Scripted::new([
        Reply::calls([("do", "{}"), ("do_1", "{}")]),
        Reply::text("not yet"),
        Reply::calls([("do", "{}"), ("do", "{}")]),
        Reply::text("more"),
    ]);
    let tools = Extension::new("test").tool(asks::<0>(end_turn())).tool(Doing::<1>::says("done"));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "a").await.text, "not yet", "one of them did not");
    let answer = ask(&session, "b").await;
    assert_eq!((answer.is_answered(), answer.text.as_str(), answer.steps), (true, "", 1));
    assert_eq!(ask(&session, "c").await.text, "more");
    assert_legal(&model);
}

#[tokio::test]
async fn a_hand_off_begins_anew_with_its_text_and_what_waits_goes_on() {
    let gate = CancelToken::new();
    let calls = Reply::calls([("do", "{}"), ("do_1", "{}")]).after_wait(&gate);
    let model = Scripted::new([Reply::text("before"), calls, Reply::text("after")]);
    let hand_off = Control { hand_off: Some("We have three frogs.".into()), ..Control::default() };
    let tools = Extension::new("test").tool(asks::<0>(hand_off)).tool(Doing::<1>::says("done"));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    ask(&session, "a").await;
    let handing = session.root().submit(Input::text("b")).await.unwrap();
    let waiting = session.root().submit(Input::text("c")).await.unwrap();
    gate.cancel();
    assert!(handing.answer().await.unwrap().is_answered());
    assert_eq!(waiting.answer().await.unwrap().text, "after");
    assert_eq!(model.requests()[2].texts(), ["We have three frogs.", "c"]);
    assert_eq!(session.history().await.unwrap()[1].record.outcome, TurnEnd::HandedOff);
    assert!(kinds(&session).await.contains(&"et.reset".to_owned()));
    assert_legal(&model);
}

#[tokio::test]
async fn a_result_adds_tools_from_the_next_request_on() {
    let model = Scripted::new([
        Reply::calls([("do", "{}"), ("do_2", "{}")]),
        Reply::calls([("do_2", "{}")]),
        Reply::text("both"),
        Reply::text("still"),
    ]);
    let add = Control { add_tools: vec!["do_2".into(), "unheard_of".into()], ..Control::default() };
    let tools = Extension::new("test").tool(asks::<0>(add)).tool_on_demand(Doing::<2>::says("two"));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "a").await.text, "both");
    ask(&session, "b").await;
    let requests = model.requests();
    let offered = requests.iter().map(|request| request.tools.len()).collect::<Vec<_>>();
    assert_eq!(offered, [1, 2, 2, 2]);
    assert_eq!(requests[2].texts().pop().as_deref(), Some("two"));
    assert_legal(&model);
}

/// A tool that notes when it begins and ends, and waits in between until others had a chance.
fn noting<const KIND: usize>(log: &Arc<Mutex<Vec<String>>>, is_sequential: bool) -> Doing<KIND> {
    let log = log.clone();
    let tool = Doing::new(move |_: CallContext, arguments| {
        let log = log.clone();
        async move {
            log.lock().unwrap().push(format!("begin {arguments}"));
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            log.lock().unwrap().push(format!("end {arguments}"));
            Ok("done".into())
        }
    });
    tool.contract(Contract { is_sequential, ..Contract::safe() })
}

#[tokio::test]
async fn calls_run_one_after_the_other_where_the_host_or_a_tool_says_so() {
    let calls = || Reply::calls([("do", r#"{"n":1}"#), ("do", r#"{"n":2}"#), ("do_1", r#"{"n":3}"#)]);
    for (order, is_sequential) in
        [(CallOrder::Sequential, false), (CallOrder::Parallel, true), (CallOrder::Parallel, false)]
    {
        let log = Arc::default();
        let model = Scripted::new([calls(), Reply::text("done")]);
        let tools =
            Extension::new("test").tool(noting::<0>(&log, false)).tool(noting::<1>(&log, is_sequential));
        let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
        harness.set(Settings { calls: order, ..harness.settings() }).unwrap();
        let session = harness.create(spec()).await.unwrap();
        ask(&session, "a").await;
        let log = log.lock().unwrap();
        let one_by_one = (1..=3).flat_map(|n| [format!("begin {{\"n\":{n}}}"), format!("end {{\"n\":{n}}}")]);
        let is_one_by_one = log.iter().eq(one_by_one.collect::<Vec<_>>().iter());
        assert_eq!(is_one_by_one, order == CallOrder::Sequential || is_sequential, "{log:?}");
        assert_legal(&model);
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_among_its_calls_runs_none_of_those_behind() {
    let (gate, log) = (CancelToken::new(), Arc::new(Mutex::new(Vec::new())));
    let waiting = Doing::<0>::new({
        let gate = gate.clone();
        move |cx: CallContext, _| {
            let gate = gate.clone();
            async move {
                gate.cancel();
                cx.cancel.cancelled().await;
                Err(everturn_core::tool::ToolError::new("stopped"))
            }
        }
    });
    let model = Scripted::new([Reply::calls([("do", "{}"), ("do_1", "{}")]), Reply::text("more")]);
    let tools = Extension::new("test").tool(waiting).tool(noting::<1>(&log, true));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    until("the first call runs", || gate.is_cancelled()).await;
    asked.cancel().await.unwrap();
    asked.answer().await.unwrap();
    let words: Vec<_> =
        crate::support::results(&session).await.iter().map(|(outcome, _)| outcome.word()).collect();
    assert_eq!(words, ["cancelled", "cancelled"]);
    assert_eq!(log.lock().unwrap().len(), 0);
    assert_eq!(ask(&session, "b").await.text, "more");
    assert_legal(&model);
}
