//! Sub-agents in the foreground: a call starts a child conversation that it owns and waits for its answer. The child never
//! may more than its parent, whatever its own policy says.

use everturn::{
    AgentChange, Extension, Harness, Input, Models, Result, SessionSpec,
    kernel::Memory,
    message::Message,
    model::Request,
    policy::{Layer, Policy},
    store::Store,
    tool::{Does, SessionCall, SessionTool, Spawn, ToolError, ToolResult, tool},
};
use everturn_testkit::scripted::{Reply, Scripted};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    task: String,
}

/// Has a sub-agent do something, under a policy that would allow everything.
struct Delegate;

impl SessionTool for Delegate {
    const NAME: &'static str = "delegate";
    type Arguments = Work;

    fn description(&self) -> &'static str {
        "Has something done."
    }

    async fn run(&self, _: &SessionCall, work: Work) -> std::result::Result<Does, ToolError> {
        let agent = AgentChange {
            instructions: Some("You work for another agent.".into()),
            policy: Some("loose".into()),
            ..AgentChange::default()
        };
        Ok(Does::Spawn(Spawn { agent, ..Spawn::new(work.task) }))
    }
}

#[tool(replay = "safe")]
/// Counts the frogs.
async fn count() -> ToolResult {
    Ok("three frogs".into())
}

#[tool(replay = "safe")]
/// Drains the pond.
async fn drain() -> ToolResult {
    Ok("there is no pond any more".into())
}

#[tokio::main]
async fn main() -> Result<()> {
    let model = Scripted::answering(reply);
    let tools = Extension::new("pond").session_tool(Delegate).tool(count).tool(drain);
    let rule = |text: &str| text.parse();
    let own = Policy::new().rule(Layer::User, rule("deny tool(drain)")?);
    let loose = Policy::new().rule(Layer::User, rule("allow tool(*)")?);
    let harness = Harness::builder(Store::new(Memory::new()))
        .models(Models::new().provider("scripted", model.clone()))
        .policy(own)
        .policy_named("loose", loose)
        .install(tools)?
        .open()
        .await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    let answer = session.root().submit(Input::text("Look after the pond.")).await?.answer().await?;
    let expected = "They say: three frogs / Refused by policy: deny tool(drain).";
    assert_eq!(answer.text, expected);

    // Each child has a conversation of its own, which its call owns.
    let conversations = session.store().conversations(session.id()).await?;
    assert_eq!(conversations.len(), 3);
    assert!(conversations[1..].iter().all(|child| child.owner.is_some()));
    // The parent's account has its own two requests; each child's has two.
    assert_eq!(answer.total.requests, 2);
    for child in &conversations[1..] {
        assert_eq!(session.usage_of(child.id).await?.requests, 2);
    }
    println!("{}", answer.text);
    Ok(())
}

/// The parent delegates twice; a child does what it is told and reports what came of it.
fn reply(request: &Request) -> Reply {
    let texts = request.texts();
    let results = request.messages.iter().filter(|message| matches!(&***message, Message::Result(_)));
    let results: Vec<String> = results.map(|message| message.text()).collect();
    let is_asked = |what: &str| texts.iter().any(|text| text == what);
    match results.as_slice() {
        [] if is_asked("Count.") => Reply::calls([("count", "{}")]),
        [] if is_asked("Drain.") => Reply::calls([("drain", "{}")]),
        [] => Reply::calls([("delegate", r#"{"task":"Count."}"#), ("delegate", r#"{"task":"Drain."}"#)]),
        [result] => Reply::text(result),
        all => Reply::text(format!("They say: {}", all.join(" / "))),
    }
}
