//! What a conversation runs with.

use everturn_core::{ErrorKind, conversation::Ownership, model::Thinking};
use everturn_engine::{Agent, AgentChange, Branch, Choice, Extension, Input};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{Doing, ask, assert_legal, builder, spec, store};

fn tools() -> Extension {
    let tools = Extension::new("tools").tool(Doing::<0>::says("zero")).tool(Doing::<1>::says("one"));
    tools.tool_on_demand(Doing::<2>::says("two"))
}

fn choose(tools: Choice) -> AgentChange {
    AgentChange { tools: Some(tools), ..AgentChange::default() }
}

#[tokio::test]
async fn tools_are_chosen_ordered_and_come_back() {
    let model = Scripted::answering(|_| Reply::text("so it is"));
    let harness = builder(&store(), &model).install(tools()).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let offered = async || {
        ask(&session, "which?").await;
        let requests = model.requests();
        let tools = requests.last().unwrap().tools.iter().map(|tool| tool.name.clone());
        tools.collect::<Vec<_>>()
    };
    assert_eq!(offered().await, ["do", "do_1"], "all but those on demand");
    let exactly = Choice::Exactly(vec!["do_2".into(), "do".into()]);
    session.root().configure(choose(exactly.clone())).await.unwrap();
    assert_eq!(offered().await, ["do_2", "do"]);
    let head = session.head();
    let unknown = Choice::Exactly(vec!["do".into(), "fly".into()]);
    let error = session.root().configure(choose(unknown)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound);
    let more = AgentChange { extensions: Some(Choice::with(["wings"])), ..AgentChange::default() };
    assert_eq!(*session.root().configure(more).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(session.head(), head, "nothing was written");
    harness.install(Extension::new("tools").tool(Doing::<1>::says("one"))).unwrap();
    assert_eq!(offered().await, Vec::<String>::new());
    let again = Choice::Exactly(vec!["do".into(), "do_2".into()]);
    session.root().configure(choose(again)).await.expect("names that it had are not asked about again");
    harness.install(tools()).unwrap();
    assert_eq!(offered().await, ["do", "do_2"], "they come back with their tool");
    assert_legal(&model);
}

#[tokio::test]
async fn a_fork_has_the_agent_as_of_its_entry() {
    let model = Scripted::answering(|_| Reply::text("so it is"));
    let harness = builder(&store(), &model).install(tools()).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let set = async |thinking, instructions: &str| {
        let change = AgentChange {
            thinking: Some(thinking),
            instructions: Some(instructions.into()),
            ..AgentChange::default()
        };
        session.root().configure(change).await.unwrap();
    };
    set(Thinking::Low, "one").await;
    let first = ask(&session, "first").await;
    set(Thinking::High, "two").await;
    ask(&session, "second").await;
    let branched = session.branch_from(first.turn.unwrap(), Branch::default()).await.unwrap();
    let agent = branched.agent().await.unwrap();
    assert_eq!((agent.thinking, agent.instructions.as_deref()), (Thinking::Low, Some("one")));
    branched.submit(Input::text("third")).await.unwrap().answer().await.unwrap();
    let requests = model.requests();
    assert_eq!(requests[2].thinking, Thinking::Low);
    assert_eq!(requests[2].texts()[0], "<instructions>\none\n</instructions>");
    let entries = session.entries(session.root().id(), None, 1).await.unwrap();
    let mut tx = session.begin().await.unwrap();
    let fork = tx.fork(session.root().id(), entries[0].id, Ownership::Ownerless).await.unwrap();
    tx.commit().await.unwrap();
    let forked = session.snapshot::<Agent>(fork).await.unwrap().unwrap();
    assert_eq!(forked.thinking, Thinking::High);
    assert_legal(&model);
}

#[tokio::test]
async fn what_differs_for_a_turn_holds_for_its_calls_and_for_no_other_turn() {
    let model = Scripted::new([
        Reply::calls([("do_2", "{}")]),
        Reply::text("done"),
        Reply::calls([("do_2", "{}")]),
        Reply::text("not done"),
    ]);
    let harness = builder(&store(), &model).install(tools()).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let change = choose(Choice::with(["do_2"]));
    session.root().submit(Input::text("a").agent(change)).await.unwrap().answer().await.unwrap();
    ask(&session, "b").await;
    let results = crate::support::results(&session).await;
    let words: Vec<_> = results.iter().map(|(outcome, _)| outcome.word()).collect();
    assert_eq!(words, ["ok", "unavailable"]);
    assert_eq!(results[0].1, "two");
    assert_legal(&model);
}
