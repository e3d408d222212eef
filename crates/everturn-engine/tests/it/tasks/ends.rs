//! Code that errs, panics, hangs, or returns what cannot be kept.

use std::{collections::BTreeMap, time::Duration};

use everturn_core::{Error, entry::Entry, task::TaskOutcome};
use everturn_engine::{Step, Task, TaskContext, TaskError, task::Remains};
use serde_json::{Value, json};

use super::probe::{Log, Probe, ROOT, install, outcome, session, start};

fn fault(outcome: &TaskOutcome) -> String {
    match outcome {
        TaskOutcome::Faulted { error, .. } => error.to_string(),
        other => panic!("it is not faulted: {other:?}"),
    }
}

// Rule 10.
#[tokio::test]
async fn a_panic_faults_its_task_and_the_session_lives_on() {
    let (session, ..) = session(install(Probe::<0>::new(|_, input, _| async move {
        assert!(input != json!("bad"), "bad input");
        Ok(Step::done(Value::Null))
    })))
    .await;
    let bad = start(&session, json!("bad")).await;
    assert_eq!(fault(bad.ended().await.unwrap().outcome()), "panic: bad input");
    assert!(start(&session, json!("good")).await.ended().await.unwrap().outcome().is_completed());
}

#[tokio::test]
async fn an_error_that_escapes_faults_its_task() {
    let (session, ..) = session(install(Probe::<0>::new(|_, input, _| async move {
        let text = input.as_str().unwrap();
        if text == "engine" {
            return Err(Error::not_found("look for a thing: there is none").into());
        }
        text.parse::<u32>()?;
        Ok(Step::done(Value::Null))
    })))
    .await;
    for (input, said) in [
        ("x", "error: invalid digit found in string"),
        ("engine", "not_found: look for a thing: there is none"),
    ] {
        let task = start(&session, json!(input)).await;
        assert_eq!(fault(task.ended().await.unwrap().outcome()), said);
    }
}

#[tokio::test]
async fn what_a_broken_step_had_staged_is_not_stored_and_what_it_leaves_is() {
    let (session, ..) = session(install(
        Probe::<0>::new(|cx, _, _| async move {
            let mut tx = cx.begin().await?;
            tx.append(ROOT, Entry::new("test.staged"))?;
            panic!("with a transaction in its hands");
        })
        .fault(|cx, _, _| async move {
            let mut tx = cx.begin().await?;
            tx.append(ROOT, Entry::new("test.left"))?;
            Ok(Remains::output(json!("half")).with(tx))
        }),
    ))
    .await;
    let ended = start(&session, Value::Null).await.ended().await.unwrap();
    assert_eq!(ended.output().unwrap(), Some(json!("half")));
    let kinds: Vec<_> =
        session.entries(ROOT, None, 9).await.unwrap().into_iter().map(|e| e.entry.kind).collect();
    assert_eq!(kinds, ["test.left"]);
}

#[tokio::test]
async fn a_fault_whose_own_code_breaks_is_a_fault_all_the_same() {
    let (session, ..) = session(install(
        Probe::<0>::new(|_, _, _| async { Err(TaskError::new("first", "broken")) })
            .fault(|_, _, _| async { panic!("broken too") }),
    ))
    .await;
    let task = start(&session, Value::Null).await;
    assert_eq!(fault(task.ended().await.unwrap().outcome()), "first: broken");
}

/// A task whose checkpoint is what it was told to return.
struct Keeps;

#[derive(serde::Serialize, serde::Deserialize)]
enum Kept {
    Begin,
    Float(f64),
    Keys(BTreeMap<Option<u32>, u32>),
    Long(String),
    Deep(Value),
}

impl Task for Keeps {
    const NAME: &'static str = "test.keeps";
    type Input = String;
    type State = Kept;
    type Output = ();

    fn start(&self, _: &String) -> Kept {
        Kept::Begin
    }

    async fn step(&self, _: &TaskContext, input: &String, _: Kept) -> Result<Step<Self>, TaskError> {
        Ok(Step::go(match input.as_str() {
            "float" => Kept::Float(f64::NAN),
            "keys" => Kept::Keys([(None, 1)].into()),
            "long" => Kept::Long("x".repeat(2 << 20)),
            _ => Kept::Deep((0..200).fold(Value::Null, |inside, _| json!([inside]))),
        }))
    }
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_kept_faults_its_task() {
    let (session, ..) = session(everturn_engine::Extension::new("test").task(Keeps)).await;
    for (input, kind, said) in [
        ("float", "invalid", "a number that is NaN"),
        ("keys", "invalid", "write the checkpoint of a task test.keeps"),
        ("long", "too_large", "at most 1048576 are allowed"),
        ("deep", "too_large", "levels"),
    ] {
        let ended = session.start_task::<Keeps>(ROOT, &input.into()).await.unwrap().ended().await.unwrap();
        let TaskOutcome::Faulted { error, .. } = ended.outcome() else { panic!("{:?}", ended.outcome()) };
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(said), "{error}");
    }
}

#[tokio::test]
async fn a_move_that_does_not_fit_faults_its_task() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, _| async move {
        let mut tx = cx.begin().await?;
        tx.append(everturn_core::id::ConversationId(999), Entry::new("test.note"))?;
        Ok(Step::done(Value::Null).with(tx))
    })))
    .await;
    let task = start(&session, Value::Null).await;
    let said = fault(task.ended().await.unwrap().outcome());
    assert!(said.starts_with("invalid: ") && said.contains("there is no conversation 999"), "{said}");
}

// Rule 11.
#[tokio::test]
async fn a_step_past_its_deadline_is_told_and_then_given_up() {
    for does_stop in [true, false] {
        let (session, clock, _) = session(install(
            Probe::<0>::new(move |cx, _, _| async move {
                if does_stop {
                    cx.cancel().cancelled().await;
                    return Err(TaskError::new("stopped", "in the middle"));
                }
                std::future::pending().await
            })
            .deadline(Duration::from_secs(60)),
        ))
        .await;
        let task = start(&session, Value::Null).await;
        let id = task.id();
        let ending = tokio::spawn(async move { outcome(&session, id).await });
        while !ending.is_finished() {
            clock.advance(Duration::from_secs(10));
            tokio::task::yield_now().await;
        }
        assert_eq!(fault(&ending.await.unwrap()), "timed_out: its step had not ended after 60s");
    }
}

#[tokio::test]
async fn a_step_that_ends_in_its_grace_keeps_its_move() {
    let (session, clock, _) = session(install(
        Probe::<0>::new(|cx, _, _| async move {
            cx.cancel().cancelled().await;
            Ok(Step::done(json!("just in time")))
        })
        .deadline(Duration::from_secs(60)),
    ))
    .await;
    let task = start(&session, Value::Null).await;
    let ending = tokio::spawn(async move { task.ended().await.map(|ended| ended.outcome().clone()) });
    while !ending.is_finished() {
        clock.advance(Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    let ended = ending.await.unwrap().unwrap();
    assert_eq!(ended.read::<Value>().unwrap(), Some(json!("just in time")));
}

/// A task whose code panics before its first step: where it begins, or where it migrates.
struct Panics<const V: u32>;

impl<const V: u32> Task for Panics<V> {
    const NAME: &'static str = "test.panics";
    const VERSION: u32 = V;
    type Input = ();
    type State = u32;
    type Output = ();

    fn start(&self, _: &()) -> u32 {
        panic!("at the start")
    }

    async fn step(&self, _: &TaskContext, _: &(), _: u32) -> Result<Step<Self>, TaskError> {
        Ok(Step::done(()))
    }

    fn migrate(
        &self,
        _: everturn_core::json::RawJson,
        _: Option<everturn_core::json::RawJson>,
        _: u32,
    ) -> Result<(everturn_core::json::RawJson, Option<everturn_core::json::RawJson>), TaskError> {
        panic!("in the migration")
    }
}

// A panic outside of a step ended the loop that runs tasks, or ran the same task for ever.
// Guards: whatever of a task's code panics, it is the task that is faulted.
#[tokio::test]
async fn code_that_panics_before_its_first_step_is_faulted() {
    for (extension, said) in [
        (everturn_engine::Extension::new("test").task(Panics::<1>), "panic: at the start"),
        (everturn_engine::Extension::new("test").task(Panics::<2>), "panic: in the migration"),
    ] {
        let (session, ..) = session(extension).await;
        let task = session.start_task::<Panics<1>>(ROOT, &()).await.unwrap();
        assert_eq!(fault(task.ended().await.unwrap().outcome()), said);
    }
}

#[tokio::test]
async fn of_an_error_of_any_size_a_part_is_kept() {
    let (session, ..) = session(install(Probe::<0>::new(|_, _, _| async {
        Err(TaskError::new("x".repeat(1 << 20), "y".repeat(32 << 20)))
    })))
    .await;
    let task = start(&session, Value::Null).await;
    assert!(fault(task.ended().await.unwrap().outcome()).starts_with("xxx"));
}

// What an application's own code gets from the session as a conflict was taken for a transaction that was lost: its step
// ran again, effects included.
// Guards: what escapes a step faults its task, and its code is not run again.
#[tokio::test]
async fn a_conflict_that_escapes_a_step_faults_it_at_once() {
    let log = Log::default();
    let ran = log.clone();
    let (session, ..) = session(install(Probe::<0>::new(move |_, _, _| {
        ran.note("ran");
        async { Err(Error::conflict("signal task 7: it has ended").into()) }
    })))
    .await;
    let task = start(&session, Value::Null).await;
    assert_eq!(fault(task.ended().await.unwrap().outcome()), "conflict: signal task 7: it has ended");
    assert_eq!(log.count("ran"), 1);
}

/// A document whose type breaks when it is written.
#[derive(Debug, Default, PartialEq, everturn_core::document::Document, serde::Deserialize)]
#[document(kind = "test.breaks", scope = "session", crate = "everturn_core")]
struct Breaks {
    is_broken: bool,
}

impl serde::Serialize for Breaks {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(!self.is_broken, "it cannot be written");
        serializer.serialize_str("")
    }
}

// A document whose type panicked when it was written ended the session with the commit.
// Guards: it is the change that is refused, and the task that is faulted.
#[tokio::test]
async fn a_document_that_cannot_be_written_faults_its_task_and_nothing_else() {
    let (session, ..) = session(install(Probe::<0>::new(|cx, _, _| async move {
        let mut tx = cx.begin().await?;
        tx.doc::<Breaks>(()).await?.is_broken = true;
        Ok(Step::done(Value::Null).with(tx))
    })))
    .await;
    let task = start(&session, Value::Null).await;
    assert_eq!(
        fault(task.ended().await.unwrap().outcome()),
        "invalid: write document test.breaks: its type panicked"
    );
    assert!(session.begin().await.is_ok(), "the session lives on");
}
