//! Compaction: a summary takes the place of what came before, by hand, in the background ahead of need, and after a model said
//! that a request was too long. What is recent stays as it is, and everything stays stored.

use everturn::{
    Harness, Input, LiveSession, Models, Result, SessionSpec, Settings,
    entry::kind,
    kernel::Memory,
    model::{Abilities, DeltaStream, FaultClass, Model, Request},
    store::Store,
};
use everturn_testkit::scripted::{Reply, Scripted};

/// A model that says how many tokens it reads; or that does not, and finds out.
#[derive(Clone)]
struct Small(Scripted, Option<u64>);

impl Model for Small {
    fn stream(&self, request: Request) -> DeltaStream {
        self.0.stream(request)
    }

    fn abilities(&self, _: &str) -> Abilities {
        Abilities { window: self.1, output_max: Some(10), ..Abilities::default() }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    by_hand().await?;
    in_the_background().await?;
    after_an_overflow().await
}

async fn by_hand() -> Result<()> {
    let (session, model) = open(None, usize::MAX).await?;
    talk(&session, 4).await?;
    let before = session.entries(session.root().id(), None, usize::MAX).await?;
    session.root().compact(Some("pears".into())).await?;
    let asked = model.requests().pop().expect("it was asked for a summary").texts();
    assert!(asked.last().is_some_and(|text| text.contains("pears")), "it knows what to look at");

    assert_eq!(ask(&session, "And now?").await?, "An answer of some words.");
    let sent = model.requests().pop().expect("a request").texts();
    assert!(sent[0].contains("They talked of pears."));
    assert!(!sent.iter().any(|text| text.starts_with("Question 0")), "what is old is told by the summary");
    assert!(sent.iter().any(|text| text.starts_with("Question 3")), "what is recent stays as it is");
    let after = session.entries(session.root().id(), None, usize::MAX).await?;
    assert!(before.iter().all(|entry| after.contains(entry)), "all of it stays stored");
    println!("by hand:           {} messages instead of {}", sent.len(), 2 * 4 + 1);
    Ok(())
}

async fn in_the_background() -> Result<()> {
    let (session, model) = open(Some(160), usize::MAX).await?;
    talk(&session, 6).await?;
    session.quiescent().await?;
    assert!(compactions(&session).await? > 0, "nobody asked for it");
    ask(&session, "And now?").await?;
    let sent = model.requests().pop().expect("a request").texts();
    assert!(sent[0].contains("They talked of pears."));
    println!("in the background: done before a turn had to wait for it");
    Ok(())
}

async fn after_an_overflow() -> Result<()> {
    let (session, model) = open(None, 6).await?;
    talk(&session, 4).await?;
    assert_eq!(compactions(&session).await?, 1);
    let turn = session.history().await?.pop().expect("a turn").record;
    assert_eq!((turn.steps, turn.total.requests), (1, 2), "one retry, of the same step");
    println!("after an overflow: one summary, one retry; {} requests in all", model.count());
    Ok(())
}

/// A session whose model has such a window, and takes so many messages.
async fn open(window: Option<u64>, most: usize) -> Result<(LiveSession, Scripted)> {
    let model = Scripted::answering(move |request| match request.texts() {
        texts if texts.last().is_some_and(|text| text.contains("<conversation>")) => {
            Reply::text("They talked of pears.")
        }
        texts if texts.len() > most => Reply::fault(FaultClass::TooLong, "too many tokens"),
        _ => Reply::text("An answer of some words."),
    });
    let harness = Harness::builder(Store::new(Memory::new()))
        .models(Models::new().provider("scripted", Small(model.clone(), window)))
        .settings(Settings { keep_recent: 20, ..Settings::default() })
        .open()
        .await?;
    Ok((harness.create(SessionSpec::model("scripted".parse()?)).await?, model))
}

async fn talk(session: &LiveSession, turns: usize) -> Result<()> {
    for turn in 0..turns {
        ask(session, &format!("Question {turn}, which goes on for a while so that it weighs something."))
            .await?;
    }
    Ok(())
}

async fn ask(session: &LiveSession, text: &str) -> Result<String> {
    let answer = session.root().submit(Input::text(text)).await?.answer().await?;
    assert!(answer.is_answered(), "{answer:?}");
    Ok(answer.text)
}

async fn compactions(session: &LiveSession) -> Result<usize> {
    let entries = session.entries(session.root().id(), None, usize::MAX).await?;
    Ok(entries.iter().filter(|entry| entry.kind == kind::COMPACTION).count())
}
