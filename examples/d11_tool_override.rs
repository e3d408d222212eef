//! A tool of someone else, changed without touching it: something stands around it, whichever extension has it. What it is
//! offered as stays the same; a call that it does not like never reaches the tool.

use everturn::{
    Extension, Harness, Input, Models, Result, SessionSpec,
    kernel::Memory,
    message::Outcome,
    store::Store,
    tool::{AnyTool, CallContext, Contract, Tool, ToolError, ToolResult, tool},
};
use everturn_testkit::scripted::{Reply, Scripted};
use std::collections::BTreeMap;

#[tool(replay = "safe")]
/// Feeds the frogs.
async fn feed(
    /// How many flies they get.
    flies: u32,
) -> ToolResult {
    Ok(format!("the frogs had {flies} flies").into())
}

/// The tool that it stands around, with a bound.
struct Bounded(AnyTool);

impl Tool for Bounded {
    const NAME: &'static str = "feed";
    type Arguments = BTreeMap<String, u32>;

    fn description(&self) -> &str {
        &self.0.spec().description
    }

    fn contract(&self) -> Contract {
        self.0.contract().clone()
    }

    async fn run(&self, cx: &CallContext, arguments: Self::Arguments) -> ToolResult {
        if arguments.get("flies").is_some_and(|flies| *flies > 9) {
            return Err(ToolError::new("that is too much for a frog"));
        }
        let arguments = everturn::json::RawJson::of(&arguments)?;
        self.0.run(cx, &arguments).await
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let model = Scripted::new([
        Reply::calls([("feed", r#"{"flies":3}"#), ("feed", r#"{"flies":300}"#)]),
        Reply::text("They had enough."),
        Reply::calls([("feed", r#"{"flies":300}"#)]),
        Reply::text("They had too much."),
    ]);
    let models = Models::new().provider("scripted", model.clone());
    let careful = || Extension::new("careful").wrap_tool("feed", |inner| AnyTool::new(Bounded(inner)));
    // The order of installing does not matter, nor does it hurt where there is no such tool.
    let builder = Harness::builder(Store::new(Memory::new())).models(models).install(careful())?;
    let harness = builder.install(Extension::new("pond").tool(feed))?.open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;

    session.root().submit(Input::text("Feed them.")).await?.answer().await?;
    let requests = model.requests();
    assert_eq!(requests[0].tools[0].description, "Feeds the frogs.");
    assert_eq!(requests[1].texts()[2..], ["the frogs had 3 flies", "that is too much for a frog"]);

    // Without what stands around it, the tool is as it was.
    harness.batch(|registry| {
        assert!(registry.remove("careful"));
        Ok(())
    })?;
    session.root().submit(Input::text("More!")).await?.answer().await?;
    let last = model.requests().pop().expect("the model was asked");
    let everturn::message::Message::Result(result) = &**last.messages.last().expect("a result") else {
        unreachable!("the last message of this request is a result")
    };
    assert_eq!((&result.outcome, result.text.as_str()), (&Outcome::Ok, "the frogs had 300 flies"));
    println!("{}; then {}", requests[1].texts()[3], result.text);
    Ok(())
}
