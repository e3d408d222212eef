//! The system prompt, in sections: with and without a tag, one that reads a document, one that sub-agents do not have, one that
//! lists the tools with the application's words about them, one with something around it. The transcript is only ever told
//! what differs.

use everturn::{
    Document, Extension, Harness, Input, LiveSession, Models, Result, SessionSpec,
    extension::{PromptSection, SectionContext, SectionWrap},
    id::ConversationId,
    json::RawJson,
    kernel::Memory,
    message::Message,
    store::Store,
    tool::{CallContext, Contract, Does, SessionCall, SessionTool, Spawn, Tool, ToolError, ToolResult},
};
use everturn_testkit::scripted::{Reply, Scripted};
use serde::{Deserialize, Serialize};

#[derive(Default, Document, Serialize, Deserialize)]
#[document(kind = "example.plan", version = 1, scope = "conversation")]
struct Plan {
    steps: Vec<String>,
}

/// One section of each kind, by its key.
struct Section(&'static str);

impl PromptSection for Section {
    fn key(&self) -> &str {
        self.0
    }

    fn is_tagged(&self) -> bool {
        self.0 != "greeting"
    }

    async fn render(&self, cx: &SectionContext<'_>) -> Option<String> {
        let metadata = |tool: &everturn::tool::AnyTool| tool.contract().metadata.clone();
        match self.0 {
            "greeting" => (!cx.is_sub_agent()).then(|| "A person reads your answers.".into()),
            "plan" => Some(cx.snapshot::<Plan>(cx.conversation()).await.ok()??.steps.join(", ")),
            "tools" => {
                Some(cx.tools().iter().filter_map(metadata).map(|words| words.get().to_owned()).collect())
            }
            _ => Some("be brief".into()),
        }
    }
}

struct Loud;

impl SectionWrap for Loud {
    fn key(&self) -> &'static str {
        "rules"
    }

    async fn wrap(&self, _: &SectionContext<'_>, text: Option<String>) -> Option<String> {
        text.map(|text| text.to_uppercase())
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Nothing {}

struct Count;

impl Tool for Count {
    const NAME: &'static str = "count";
    type Arguments = Nothing;

    fn description(&self) -> &'static str {
        "Counts."
    }

    fn contract(&self) -> Contract {
        Contract { metadata: RawJson::parse(r#"{"icon":"abacus"}"#).ok(), ..Contract::safe() }
    }

    async fn run(&self, _: &CallContext, _: Nothing) -> ToolResult {
        Ok("3".into())
    }
}

/// Has a sub-agent do it.
struct Delegate;

impl SessionTool for Delegate {
    const NAME: &'static str = "delegate";
    type Arguments = Nothing;

    fn description(&self) -> &'static str {
        "Has it done."
    }

    async fn run(&self, _: &SessionCall, _: Nothing) -> std::result::Result<Does, ToolError> {
        Ok(Does::Spawn(Spawn::new("count")))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let delegate = Reply::calls([("delegate", "{}")]);
    let replies =
        [Reply::text("a"), Reply::text("b"), Reply::text("c"), delegate, Reply::text("3"), Reply::text("d")];
    let model = Scripted::new(replies);
    let mut words = Extension::new("words").wrap(Loud).tool(Count).session_tool(Delegate);
    for key in ["rules", "greeting", "plan", "tools"] {
        words = words.section(Section(key));
    }
    let models = Models::new().provider("scripted", model.clone());
    let harness = Harness::builder(Store::new(Memory::new())).models(models).install(words)?.open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;

    ask(&session).await?;
    ask(&session).await?;
    let mut tx = session.begin().await?;
    tx.doc::<Plan>(ConversationId::ROOT).await?.steps = vec!["look".into(), "count".into()];
    tx.commit().await?;
    ask(&session).await?;
    ask(&session).await?;

    let rules = "<rules>\nBE BRIEF\n</rules>";
    let tools = "<tools>\n{\"icon\":\"abacus\"}\n</tools>";
    let all = format!("{rules}\n\nA person reads your answers.\n\n{tools}");
    assert_eq!(told(&model, 0), [all.as_str()]);
    assert_eq!(told(&model, 1), [all.as_str()], "nothing differs, nothing is told");
    // The plan stands ahead of the tools, so these are told anew behind it.
    let changed = told(&model, 2);
    assert_eq!(changed[0], all);
    assert!(changed[1].starts_with("<plan>\nlook, count\n</plan>"), "{}", changed[1]);
    assert_eq!(
        told(&model, 4),
        [format!("{rules}\n\n{tools}")],
        "a sub-agent talks to nobody, and has no plan"
    );
    println!("{}\n---\n{}", changed[0], changed[1]);
    Ok(())
}

async fn ask(session: &LiveSession) -> Result<()> {
    session.root().submit(Input::text("hello")).await?.answer().await.map(drop)
}

/// What a request says of the system prompt.
fn told(model: &Scripted, request: usize) -> Vec<String> {
    let messages = model.requests()[request].messages.clone();
    let is_system = |message: &&std::sync::Arc<Message>| matches!(&***message, Message::System(_));
    messages.iter().filter(is_system).map(|message| message.text()).collect()
}
