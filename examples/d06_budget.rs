//! Budgets: what a request may cost at most is reserved before it is sent, and settled to what it did cost. A turn whose budget
//! is used up ends with the limit's name, also after a restart; to go on is another input.

use everturn::{
    AgentChange, Answer, Extension, Harness, Input, LiveSession, Models, Result, SessionSpec, TurnEnd, World,
    budget::Budget,
    model::{Abilities, DeltaStream, Model, Request},
    store,
    tool::{ToolResult, tool},
    usage::Price,
};
use everturn_testkit::scripted::{Reply, Scripted};
use std::path::Path;

/// A model with a price: a dollar for a million tokens of output, of which it writes 100 at most.
#[derive(Clone)]
struct Priced(Scripted);

impl Model for Priced {
    fn stream(&self, request: Request) -> DeltaStream {
        self.0.stream(request)
    }

    fn abilities(&self, _: &str) -> Abilities {
        let (source, date) = ("the provider's price list".to_owned(), "2026-08-22".to_owned());
        let price = Price { input: 0, output: 1_000_000, cached: None, cache_written: None, source, date };
        Abilities { output_max: Some(100), price: Some(price), ..Abilities::default() }
    }
}

#[tool(replay = "safe")]
/// Counts the frogs.
async fn count() -> ToolResult {
    Ok("three frogs".into())
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let model = Scripted::new([
        Reply::calls([("count", "{}")]).usage(10, 40),
        Reply::text("Three.").usage(20, 40),
        Reply::text("Never sent."),
    ]);
    let harness = open(directory.path(), &model).await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;

    // A budget of one turn.
    let one = Budget { steps: Some(1), ..Budget::default() };
    let ended = ask(&session, Input::text("Count the frogs.").budget(one)).await?;
    assert!(ended.error().is_some_and(|error| error.contains("its budget of steps is used up")));
    assert_eq!(outcome(&session).await?, TurnEnd::OutOfBudget { limit: "steps".into() });
    assert_eq!(model.count(), 1, "what is not in the budget is not sent");
    let answer = ask(&session, Input::text("Go on.").budget(one)).await?;
    assert_eq!(answer.text, "Three.", "to go on is another turn, with a budget of its own");

    // A budget of the conversation, in money: 80,000 nano-dollars are spent, and a request may cost 100,000.
    let purse = Budget { cost: Some(150_000), ..Budget::default() };
    let change = AgentChange { budget: Some(purse), ..AgentChange::default() };
    session.root().configure(change).await?;
    let (id, spent) = (session.id(), session.usage_of(session.root().id()).await?);
    assert_eq!((spent.requests, spent.cost), (2, Some(80_000)));
    session.close().await?;
    drop((session, harness));

    // Another process finds what was spent in the store.
    let harness = open(directory.path(), &model).await?;
    let session = harness.open_session(id).await?;
    let ended = ask(&session, Input::text("And the toads?")).await?;
    assert!(ended.error().is_some_and(|error| error.contains("its budget of cost is used up")));
    assert_eq!((model.count(), session.usage().await?.len()), (2, 2), "nothing was sent, nothing was spent");
    println!("{} requests cost {} nano-dollars", spent.requests, spent.cost.unwrap_or_default());
    println!("the next: {}", ended.error().unwrap_or_default());
    Ok(())
}

async fn open(directory: &Path, model: &Scripted) -> Result<Harness> {
    let options = store::Options::new(World::system().owner());
    let store = store::open(&format!("sqlite:{}", directory.join("sessions.db").display()), options).await?;
    let models = Models::new().provider("scripted", Priced(model.clone()));
    Harness::builder(store).models(models).install(Extension::new("pond").tool(count))?.open().await
}

async fn ask(session: &LiveSession, input: Input) -> Result<Answer> {
    session.root().submit(input).await?.answer().await
}

async fn outcome(session: &LiveSession) -> Result<TurnEnd> {
    Ok(session.history().await?.pop().expect("a turn").record.outcome)
}
