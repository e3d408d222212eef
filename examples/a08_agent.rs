//! What a conversation runs with: all tools by default, fewer or in another order when it says so. A name that nobody knows is
//! refused and nothing is written; a name that it had outlives its tool, and has it again when the tool is back.

use everturn::{
    AgentChange, Choice, ErrorKind, Extension, Harness, Input, LiveSession, Models, Result, SessionSpec,
    json::RawJson,
    kernel::Memory,
    store::Store,
    tool::{CallContext, Contract, Tool, ToolResult, tool},
};
use everturn_testkit::scripted::{Reply, Scripted};

#[tool(replay = "safe")]
/// Counts frogs.
async fn count() -> ToolResult {
    Ok("three".into())
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A tool with the application's own words about it.
struct Draw;

impl Tool for Draw {
    const NAME: &'static str = "draw";
    type Arguments = Nothing;

    fn description(&self) -> &'static str {
        "Draws a frog."
    }

    fn contract(&self) -> Contract {
        let metadata = RawJson::parse(r#"{"icon":"pencil"}"#).ok();
        Contract { metadata, ..Contract::safe() }
    }

    async fn run(&self, _: &CallContext, _: Nothing) -> ToolResult {
        Ok("~(o o)~".into())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let model = Scripted::answering(|_| Reply::text("fine"));
    let models = Models::new().provider("scripted", model.clone());
    let pond = || Extension::new("pond").tool(count).tool(Draw);
    let harness = Harness::builder(Store::new(Memory::new())).models(models).install(pond())?.open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;

    assert_eq!(offered(&session, &model).await?, ["count", "draw"], "all of them, without a word");

    // In another order, and then fewer.
    choose(&session, ["draw", "count"]).await?;
    assert_eq!(offered(&session, &model).await?, ["draw", "count"]);
    choose(&session, ["draw"]).await?;
    assert_eq!(offered(&session, &model).await?, ["draw"]);

    // An unknown name is refused, and nothing is written.
    let head = session.head();
    let error = choose(&session, ["draw", "dance"]).await.expect_err("nobody knows it");
    assert_eq!(*error.kind(), ErrorKind::NotFound);
    assert_eq!(session.head(), head);
    println!("{error}");

    // The tool goes; its name stays, is not asked about again, and is not offered meanwhile.
    harness.install(Extension::new("pond").tool(count))?;
    choose(&session, ["draw", "count"]).await?;
    assert_eq!(offered(&session, &model).await?, ["count"]);
    harness.install(pond())?;
    assert_eq!(offered(&session, &model).await?, ["draw", "count"], "and it is back");

    let back = harness.registry().tool("draw").expect("it is installed");
    assert_eq!(back.contract().metadata.as_ref().map(RawJson::get), Some(r#"{"icon":"pencil"}"#));
    println!("the tools came and went; what the conversation wants stayed");
    Ok(())
}

async fn choose<const N: usize>(session: &LiveSession, names: [&str; N]) -> Result<()> {
    let tools = Some(Choice::Exactly(names.map(String::from).into()));
    session.root().configure(AgentChange { tools, ..AgentChange::default() }).await
}

/// What the model is offered by now.
async fn offered(session: &LiveSession, model: &Scripted) -> Result<Vec<String>> {
    session.root().submit(Input::text("hello")).await?.answer().await?;
    let request = model.requests().pop().expect("the model was asked");
    Ok(request.tools.iter().map(|tool| tool.name.clone()).collect())
}
