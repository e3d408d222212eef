//! Each turn leaves its record in the commit that ends it, whether it was answered, failed or was cancelled. A second
//! connection to the file reads it back at once, while the first still works.

use everturn::{
    CancelToken, EventKind, Harness, Input, Models, Result, SessionSpec, TurnEnd, TurnRecord, World,
    conversation::Lineage,
    entry::EntryRecord,
    id::{ConversationId, SessionId},
    message::{End, Message},
    model::FaultClass,
    storage::{EntryQuery, Order},
    store::{self, Store},
};
use everturn_testkit::scripted::{Reply, Scripted};

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", directory.path().join("sessions.db").display());
    let never = CancelToken::new();
    let models = Models::new().provider(
        "scripted",
        Scripted::new([
            Reply::text("one"),
            Reply::text("two, th").then_fault(FaultClass::Quota, "the counting of the day is used up"),
            Reply::text("three, fo").then_wait(&never),
        ]),
    );
    let harness = Harness::builder(open(&url).await?).models(models).open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    let chat = session.root();

    // A second handle: it owns nothing and waits for nobody.
    let reader = open(&url).await?;

    let answer = chat.submit(Input::text("Count.")).await?.answer().await?;
    assert!(answer.is_answered());
    assert_eq!(checkpoints(&reader, session.id()).await?, ["answered"]);

    let answer = chat.submit(Input::text("Go on.")).await?.answer().await?;
    assert_eq!(answer.error(), Some("quota: the counting of the day is used up"));
    assert_eq!(checkpoints(&reader, session.id()).await?, ["answered", "failed"]);

    let asked = chat.submit(Input::text("Again.")).await?;
    let mut events = asked.events();
    while let Some(event) = events.next().await {
        if let EventKind::Text { .. } = event?.kind {
            asked.cancel().await?;
        }
    }
    let ends = checkpoints(&reader, session.id()).await?;
    assert_eq!(ends, ["answered", "failed", "cancelled"]);
    println!("read by a second handle: {}", ends.join(", "));

    // What was said is still there, and says itself whether it is whole.
    let said = entries(&reader, session.id()).await?;
    let said: Vec<(String, End)> = said.iter().filter_map(answered).collect();
    let expected = [("one", End::Complete), ("two, th", End::Error), ("three, fo", End::Aborted)];
    assert_eq!(said, expected.map(|(text, end)| (text.to_owned(), end)));
    said.iter().for_each(|(text, end)| println!("{text:?} is {end:?}"));
    Ok(())
}

async fn open(url: &str) -> Result<Store> {
    store::open(url, store::Options::new(World::system().owner())).await
}

/// How each turn of the root conversation ended, in one word.
async fn checkpoints(store: &Store, session: SessionId) -> Result<Vec<&'static str>> {
    let entries = entries(store, session).await?;
    let records = entries.iter().filter_map(|entry| entry.read::<TurnRecord>().transpose());
    records.map(|record| Ok(TurnEnd::word(&record?.outcome))).collect()
}

async fn entries(store: &Store, session: SessionId) -> Result<Vec<EntryRecord>> {
    let all = EntryQuery::of(session, Lineage::new(ConversationId::ROOT));
    store.entries(EntryQuery { order: Order::OldestFirst, ..all }).await
}

fn answered(entry: &EntryRecord) -> Option<(String, End)> {
    match entry.messages.first().map(|message| &**message) {
        Some(Message::Assistant(answer)) => Some((answer.text(), answer.end)),
        _ => None,
    }
}
