//! Mail: what can be asked of a session by someone who does not own it, taken once, with a receipt.

use everturn_core::{
    CancelToken,
    approval::Decision,
    id::{ConversationId, SubmissionId, TaskId},
    message::Outcome,
    policy::Effect,
    storage::{Posted, Receipt, Store},
    submission::End,
    tool::Replay,
};
use everturn_engine::{AgentChange, Extension, Harness, Input, Letter, LiveSession, Models, Sender, Taking};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{Counting, ask, assert_legal, builder, kinds, results, rules, spec, store, until};

const ROOT: ConversationId = ConversationId::ROOT;

/// Someone else, who does not own the session.
async fn stranger(store: &Store) -> Harness {
    Harness::builder(store.clone()).models(Models::new()).open().await.unwrap()
}

/// Posts a letter and waits for what comes of it.
async fn post(store: &Store, session: &LiveSession, letter: Letter) -> Receipt {
    let stranger = stranger(store).await;
    let mut sender = Sender::key(format!("{letter:?}"));
    sender.key.truncate(200);
    let key = letter.key(&sender);
    let posted = stranger.post(session.id(), letter, sender).await.unwrap();
    if let Posted::Ended(receipt) = posted {
        return receipt;
    }
    let mut heard = 0;
    loop {
        if let Some(receipt) = stranger.receipt(session.id(), &key).await.unwrap() {
            return receipt;
        }
        heard = store.doorbell(heard).await;
    }
}

fn refused(receipt: &Receipt) -> &str {
    match receipt {
        Receipt::Refused { kind, .. } => kind,
        Receipt::Accepted { .. } => panic!("{receipt:?} is no refusal"),
    }
}

#[tokio::test]
async fn an_input_by_mail_is_the_same_as_one_by_hand() {
    let (store, model) = (store(), Scripted::new([Reply::text("one")]));
    let session = builder(&store, &model).open().await.unwrap().create(spec()).await.unwrap();
    session.resume();
    let input = || Input::text("a").request("r-1").actor("ann");
    let Receipt::Accepted { id } =
        post(&store, &session, Letter::Submit { conversation: ROOT, input: input() }).await
    else {
        panic!("it is accepted")
    };
    let asked = session.submission(SubmissionId(id.unwrap())).await.unwrap();
    assert_eq!(asked.answer().await.unwrap().text, "one");
    let again = session.root().submit(input()).await.unwrap();
    assert_eq!(again.id(), asked.id(), "both roads know the request id");
    assert_legal(&model);
}

#[tokio::test]
async fn a_steer_by_mail_comes_into_the_turn_that_runs() {
    let gate = CancelToken::new();
    let store = store();
    let model = Scripted::new([Reply::calls([("count", "{}")]), Reply::text("en français")]);
    let tool = Counting { gate: Some(gate.clone()), ..Counting::new(Replay::Safe) };
    let harness = builder(&store, &model).install(Extension::new("test").tool(tool)).unwrap();
    let session = harness.open().await.unwrap().create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    let steer = Input::text("in French").steer();
    let receipt = post(&store, &session, Letter::Submit { conversation: ROOT, input: steer }).await;
    assert!(matches!(receipt, Receipt::Accepted { .. }));
    gate.cancel();
    asked.answer().await.unwrap();
    assert_eq!(model.requests()[1].texts().last().unwrap(), "in French");
    assert_legal(&model);
}

#[tokio::test]
async fn an_approval_is_decided_by_mail() {
    let store = store();
    let model = Scripted::new([Reply::calls([("count", "{}")]), Reply::text("done")]);
    let policy = rules(&["ask tool(count)"]).otherwise(Effect::Deny);
    let tool = Counting::new(Replay::Safe);
    let harness =
        builder(&store, &model).policy(policy).install(Extension::new("test").tool(tool.clone())).unwrap();
    let session = harness.open().await.unwrap().create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    until("it is asked", || !session.open_approvals().is_empty()).await;
    let approval = session.open_approvals()[0].id;
    let no = Letter::Decide { approval, decision: Decision::Happened { text: None } };
    assert_eq!(refused(&post(&store, &session, no).await), "invalid");
    assert_eq!(tool.count(), 0);
    post(&store, &session, Letter::Decide { approval, decision: Decision::Allow }).await;
    asked.answer().await.unwrap();
    assert_eq!((tool.count(), results(&session).await[0].0.clone()), (1, Outcome::Ok));
    let late = Letter::Decide { approval, decision: Decision::Deny { reason: "late".into() } };
    assert_eq!(refused(&post(&store, &session, late).await), "conflict");
}

#[tokio::test]
async fn a_conversation_is_configured_forked_and_begun_anew_by_mail() {
    let store = store();
    let model = Scripted::new([Reply::text("one"), Reply::text("two")]);
    let session = builder(&store, &model).open().await.unwrap().create(spec()).await.unwrap();
    ask(&session, "a").await;
    let change = AgentChange { instructions: Some("Be brief.".into()), ..AgentChange::default() };
    post(&store, &session, Letter::Configure { conversation: ROOT, change }).await;
    assert_eq!(session.root().agent().await.unwrap().instructions.as_deref(), Some("Be brief."));
    let unknown = AgentChange { model: Some("nobody/x".parse().unwrap()), ..AgentChange::default() };
    let letter = Letter::Configure { conversation: ROOT, change: unknown };
    assert_eq!(refused(&post(&store, &session, letter).await), "not_found");
    let fork = Letter::Fork { conversation: ROOT, at: None, change: AgentChange::default() };
    let Receipt::Accepted { id: Some(fork) } = post(&store, &session, fork).await else { panic!("a fork") };
    assert!(session.conversation(ConversationId(fork)).await.unwrap().parent.is_some());
    post(&store, &session, Letter::Reset { conversation: ROOT, hand_off: Some("so far".into()) }).await;
    ask(&session, "b").await;
    assert_eq!(&model.requests()[1].texts()[1..], ["so far", "b"], "nothing of before");
    let undo = post(&store, &session, Letter::Undo { turn: TaskId(9_999) }).await;
    assert_eq!(refused(&undo), "not_found");
    assert!(kinds(&session).await.contains(&"et.reset".to_owned()));
    assert_legal(&model);
}

#[tokio::test]
async fn turns_are_cancelled_and_conversations_aborted_by_mail() {
    let store = store();
    let gate = CancelToken::new();
    let model = Scripted::new([
        Reply::text("half").then_wait(&gate),
        Reply::text("two").then_wait(&gate),
        Reply::text("three"),
    ]);
    let session = builder(&store, &model).open().await.unwrap().create(spec()).await.unwrap();
    let first = session.root().submit(Input::text("a")).await.unwrap();
    let second = session.root().submit(Input::text("b")).await.unwrap();
    until("the first request is out", || model.count() == 1).await;
    post(&store, &session, Letter::Cancel { conversation: ROOT }).await;
    assert_eq!(first.answer().await.unwrap().end, End::Cancelled);
    until("the queue goes on", || model.count() == 2).await;
    let third = session.root().submit(Input::text("c")).await.unwrap();
    post(&store, &session, Letter::Withdraw { submission: third.id() }).await;
    assert_eq!(third.answer().await.unwrap().end, End::Withdrawn);
    let fourth = session.root().submit(Input::text("d")).await.unwrap();
    post(&store, &session, Letter::Abort { conversation: ROOT, background: false }).await;
    assert_eq!(second.answer().await.unwrap().end, End::Cancelled);
    assert_eq!(fourth.answer().await.unwrap().end, End::Withdrawn);
    assert_legal(&model);
}

// Guards: a request that was decided where a provider was, and is to be sent where it is not, ends its turn in one word.
#[tokio::test]
async fn a_turn_whose_model_nobody_answers_for_any_more_ends_no_model() {
    let (store, model) = (store(), Scripted::new([Reply::text("never")]));
    let session = builder(&store, &model).open().await.unwrap().create(spec()).await.unwrap();
    let letter = Letter::Submit { conversation: ROOT, input: Input::text("a") };
    let only_noted = Taking { runs: false, ..Taking::default() };
    let asked = SubmissionId(session.take(letter, only_noted).await.unwrap().unwrap());
    let id = session.id();
    session.close().await.unwrap();
    drop(session);
    let session = stranger(&store).await.open_session(id).await.unwrap();
    let answer = session.submission(asked).await.unwrap().answer().await.unwrap();
    assert_eq!(answer.end, End::Failed { reason: "no_model".into() });
    assert_eq!((model.count(), kinds(&session).await.pop().as_deref()), (0, Some("et.turn")));
}
