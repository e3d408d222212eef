//! Open, one turn, close; open again, one turn: the conversation goes on as if nothing had happened.

use everturn::{
    Harness, Input, Models, Result, SessionSpec, World,
    store::{self, Store},
};
use everturn_testkit::scripted::{Reply, Scripted};

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", directory.path().join("sessions.db").display());

    // The first process.
    let model = Scripted::new([Reply::text("Nice to meet you, Ada.")]);
    let harness = harness(open(&url).await?, &model).await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    let id = session.id();
    ask(&session, "I am Ada.").await?;
    session.close().await?;
    drop((session, harness));
    println!("first process:  one turn, closed");

    // The second process knows the file and the id, and nothing else.
    let model = Scripted::new([Reply::text("You are Ada.")]);
    let harness = self::harness(open(&url).await?, &model).await?;
    let session = harness.open_session(id).await?;
    let answer = ask(&session, "Who am I?").await?;
    println!("second process: {answer}");

    let history = session.history().await?;
    assert_eq!(history.len(), 2, "turns");
    assert_eq!(history[1].parent, Some(history[0].record.turn));
    let context = session.context(session.root().id(), None).await?;
    let said = context.texts();
    assert_eq!(said, ["I am Ada.", "Nice to meet you, Ada.", "Who am I?", "You are Ada."]);

    // The second model was told what the first had answered.
    assert_eq!(model.requests()[0].texts(), said[..3]);
    Ok(())
}

async fn open(url: &str) -> Result<Store> {
    store::open(url, store::Options::new(World::system().owner())).await
}

async fn harness(store: Store, model: &Scripted) -> Result<Harness> {
    let models = Models::new().provider("scripted", model.clone());
    Harness::builder(store).models(models).open().await
}

async fn ask(session: &everturn::LiveSession, what: &str) -> Result<String> {
    let answer = session.root().submit(Input::text(what)).await?.answer().await?;
    assert!(answer.is_answered(), "{:?}", answer.end);
    Ok(answer.text)
}
