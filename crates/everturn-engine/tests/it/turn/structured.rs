//! Answers that are values.

use everturn_core::submission::End;
use everturn_engine::{Extension, Input, QueueMode, Settings};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{assert_legal, builder, kinds, scripted, spec, store, until};

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Pond {
    frogs: u8,
}

#[tokio::test]
async fn an_answer_is_read_as_what_was_asked_for() {
    for text in [r#"{"frogs":3}"#, "```json\n{\"frogs\": 3}\n```", "  {\"frogs\":3}\n"] {
        let (session, model) = scripted([Reply::text(text)]).await;
        let asked = session.root().submit(Input::text("how many?").answer_as::<Pond>()).await.unwrap();
        let answer = asked.answer().await.unwrap();
        assert_eq!((answer.read::<Pond>().unwrap(), answer.steps), (Pond { frogs: 3 }, 1));
        assert!(model.requests()[0].schema.as_ref().unwrap().get().contains("frogs"));
        assert_legal(&model);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again_and_stays_stored() {
    let replies = ["three", r#"{"frogs":-1}"#, r#"{"frogs":3}"#].map(Reply::text);
    let (session, model) = scripted(replies).await;
    let asked = session.root().submit(Input::text("how many?").answer_as::<Pond>()).await.unwrap();
    let answer = asked.answer().await.unwrap();
    assert_eq!((answer.read::<Pond>().unwrap(), answer.steps), (Pond { frogs: 3 }, 3));
    let last = model.requests()[2].texts();
    assert_eq!((last[1].as_str(), last[3].as_str()), ("three", r#"{"frogs":-1}"#));
    assert!(last[2].contains("it is no JSON value"), "{}", last[2]);
    assert!(last[4].contains("-1 is less than the minimum of 0 at /frogs"), "{}", last[4]);
    assert_eq!(kinds(&session).await.iter().filter(|kind| *kind == "et.assistant").count(), 3);
    assert_legal(&model);
}

#[tokio::test]
async fn the_bound_of_repairs_ends_the_turn_and_a_steer_restarts_it() {
    let (session, model) = scripted(vec![Reply::text("three"); 3]).await;
    let asked = session.root().submit(Input::text("how many?").answer_as::<Pond>()).await.unwrap();
    let answer = asked.answer().await.unwrap();
    assert_eq!(answer.end, End::Failed { reason: "invalid_answer".into() });
    assert!(answer.error().unwrap().contains("no JSON value"));
    assert_eq!(answer.text, "three", "the last text is not lost");
    assert_eq!(model.count(), 3);
    assert_legal(&model);

    let gate = everturn_core::CancelToken::new();
    let waits = Reply::text("two").after_wait(&gate);
    let (session, model) =
        scripted([Reply::text("one"), waits, Reply::text("three"), Reply::text(r#"{"frogs":3}"#)]).await;
    let asked = session.root().submit(Input::text("how many?").answer_as::<Pond>()).await.unwrap();
    until("the second answer is under way", || model.count() == 2).await;
    let steer = session.root().submit(Input::text("as JSON").steer()).await.unwrap();
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().read::<Pond>().unwrap(), Pond { frogs: 3 });
    assert_eq!(steer.answer().await.unwrap().end, End::Answered);
    assert_legal(&model);
}

// Two follow-ups that began a turn together went by the options of the first: the value that the second wanted was never
// asked for. Guards: only inputs that want the same begin a turn together.
#[tokio::test]
async fn inputs_that_want_different_answers_begin_different_turns() {
    let gate = everturn_core::CancelToken::new();
    let model = Scripted::answering({
        let gate = gate.clone();
        move |request| match (request.texts().len(), &request.schema) {
            (1, _) => Reply::text("busy").after_wait(&gate),
            (_, Some(_)) => Reply::text(r#"{"frogs":3}"#),
            (_, None) => Reply::text("words"),
        }
    });
    let settings = Settings { follow_ups: QueueMode::All, ..Settings::default() };
    let builder = builder(&store(), &model).settings(settings).install(Extension::new("none")).unwrap();
    let session = builder.open().await.unwrap().create(spec()).await.unwrap();
    let submit = async |input: Input| session.root().submit(input).await.unwrap();
    submit(Input::text("a")).await;
    let words = [submit(Input::text("b")).await, submit(Input::text("c")).await];
    let value = submit(Input::text("d").answer_as::<Pond>()).await;
    gate.cancel();
    assert_eq!(value.answer().await.unwrap().read::<Pond>().unwrap(), Pond { frogs: 3 });
    let turns = [words[0].turn().await.unwrap(), words[1].turn().await.unwrap()];
    assert_eq!(turns[0], turns[1]);
    assert_ne!(turns[0], value.turn().await.unwrap());
    assert_legal(&model);
}
