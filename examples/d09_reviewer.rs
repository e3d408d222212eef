//! A reviewer: a sub-agent with another model, fewer tools and instructions of its own looks at the work before it is called
//! done.

use everturn::{
    AgentChange, Choice, Extension, Harness, Input, Models, Result, SessionSpec,
    kernel::Memory,
    store::Store,
    tool::{Does, SessionCall, SessionTool, Spawn, ToolError, ToolResult, tool},
};
use everturn_testkit::scripted::{Reply, Scripted};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    what: String,
}

struct Review;

impl SessionTool for Review {
    const NAME: &'static str = "review";
    type Arguments = Work;

    fn description(&self) -> &'static str {
        "Has a reviewer look at something."
    }

    async fn run(&self, _: &SessionCall, work: Work) -> std::result::Result<Does, ToolError> {
        let agent = AgentChange {
            model: Some("careful/large".parse()?),
            tools: Some(Choice::Exactly(vec!["look".into()])),
            instructions: Some("Find what is wrong.".into()),
            ..AgentChange::default()
        };
        Ok(Does::Spawn(Spawn { agent, ..Spawn::new(format!("Review {}.", work.what)) }))
    }
}

#[tool(replay = "safe")]
/// Looks at the pond.
async fn look() -> ToolResult {
    Ok("it leaks".into())
}

#[tool(replay = "safe")]
/// Digs.
async fn dig() -> ToolResult {
    Ok("dug".into())
}

#[tokio::main]
async fn main() -> Result<()> {
    let worker = Scripted::new([
        Reply::calls([("dig", "{}")]),
        Reply::calls([("review", r#"{"what":"the pond"}"#)]),
        Reply::text("It is dug, and it leaks."),
    ]);
    let reviewer = Scripted::new([Reply::calls([("look", "{}"), ("dig", "{}")]), Reply::text("It leaks.")]);
    let models = Models::new().provider("quick", worker.clone()).provider("careful", reviewer.clone());
    let garden = Extension::new("garden").tool(look).tool(dig).session_tool(Review);
    let harness = Harness::builder(Store::new(Memory::new())).models(models).install(garden)?.open().await?;
    let session = harness.create(SessionSpec::model("quick/small".parse()?)).await?;
    let answer = session.root().submit(Input::text("Make a pond.")).await?.answer().await?;
    assert_eq!(answer.text, "It is dug, and it leaks.");

    let asked = reviewer.requests();
    assert_eq!(asked[0].model, "large");
    let tools: Vec<&str> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["look"], "it is not offered what changes something");
    let told = ["<instructions>\nFind what is wrong.\n</instructions>", "Review the pond."];
    assert_eq!(asked[0].texts(), told, "and it knows nothing of the conversation");
    let results = asked[1].texts();
    assert_eq!(results[3..], ["it leaks", "There is no tool \"dig\"."], "asking all the same does not help");
    assert_eq!(worker.requests()[2].texts().pop().as_deref(), Some("It leaks."));

    // Who answered what, and with which model, is in the ledger.
    let rows = session.usage().await?;
    let models: Vec<&str> = rows.iter().map(|row| row.model.as_str()).collect();
    assert_eq!(models, ["quick/small", "quick/small", "careful/large", "careful/large", "quick/small"]);
    println!("{}", answer.text);
    Ok(())
}
