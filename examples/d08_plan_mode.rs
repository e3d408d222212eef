//! Plan mode, as an extension with a document of its own: while it plans, a section of the prompt says so and a hook blocks what
//! would change something; the tool that ends planning changes the document in the commit of its call.

use everturn::{
    Document, Extension, Harness, Input, Models, Result, SessionSpec,
    extension::{BeforeTool, CallView, Hooked, PromptSection, SectionContext},
    id::ConversationId,
    kernel::Memory,
    model::Request,
    store::Store,
    tool::{Does, SessionCall, SessionTool, ToolError, ToolResult, Writes, tool},
};
use everturn_testkit::scripted::{Reply, Scripted};
use serde::{Deserialize, Serialize};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

#[derive(Default, Document, Serialize, Deserialize)]
#[document(kind = "example.mode", version = 1, scope = "conversation")]
struct Mode {
    plan: Option<String>,
}

struct Planning;

impl PromptSection for Planning {
    fn key(&self) -> &'static str {
        "mode"
    }

    async fn render(&self, cx: &SectionContext<'_>) -> Option<String> {
        let mode = cx.snapshot::<Mode>(cx.conversation()).await.ok()?.unwrap_or_default();
        Some(match mode.plan {
            None => "You plan. Change nothing yet.".into(),
            Some(plan) => format!("Your plan, which you carry out: {plan}"),
        })
    }
}

/// Blocks what changes something until there is a plan. What it goes by is set from the document.
struct NoChanges(Arc<AtomicBool>);

impl BeforeTool for NoChanges {
    async fn before(&self, call: &CallView) -> Hooked {
        match call.tool.as_str() {
            "dig" if !self.0.load(Ordering::SeqCst) => Hooked::Block("plan first".into()),
            _ => Hooked::Pass,
        }
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Plan {
    plan: String,
}

struct EndPlanning(Arc<AtomicBool>);

impl SessionTool for EndPlanning {
    const NAME: &'static str = "end_planning";
    type Arguments = Plan;

    fn description(&self) -> &'static str {
        "Ends planning, with a plan."
    }

    async fn run(&self, cx: &SessionCall, Plan { plan }: Plan) -> std::result::Result<Does, ToolError> {
        let conversation = cx.conversation;
        let writes = Writes::new(move |mut tx| async move {
            tx.doc::<Mode>(conversation).await?.plan = Some(plan);
            Ok(tx)
        });
        self.0.store(true, Ordering::SeqCst);
        Ok(Does::Stored("go ahead".into(), writes))
    }
}

#[tool(replay = "safe")]
/// Digs.
async fn dig() -> ToolResult {
    Ok("a hole".into())
}

#[tokio::main]
async fn main() -> Result<()> {
    let model = Scripted::new([
        Reply::calls([("dig", "{}")]),
        Reply::calls([("end_planning", r#"{"plan":"dig by the tree"}"#)]),
        Reply::calls([("dig", "{}")]),
        Reply::text("There is a hole by the tree."),
    ]);
    let is_planned = Arc::new(AtomicBool::new(false));
    let plan_mode = Extension::new("plan_mode")
        .section(Planning)
        .before_tool(NoChanges(is_planned.clone()))
        .session_tool(EndPlanning(is_planned));
    let models = Models::new().provider("scripted", model.clone());
    let builder = Harness::builder(Store::new(Memory::new())).models(models).install(plan_mode)?;
    let harness = builder.install(Extension::new("garden").tool(dig))?.open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    let answer = session.root().submit(Input::text("Make a pond.")).await?.answer().await?;
    assert_eq!(answer.text, "There is a hole by the tree.");

    let requests = model.requests();
    let last = |request: &Request| request.texts().pop().expect("it says something");
    assert_eq!(requests[0].texts()[0], "<mode>\nYou plan. Change nothing yet.\n</mode>");
    assert_eq!(last(&requests[1]), "Refused by the host: plan first");
    // The commit that stored the plan prepared the next request: it is told of it at once.
    let told = last(&requests[2]);
    assert!(told.contains("The section mode now says:"), "{told}");
    assert!(told.contains("which you carry out: dig by the tree"), "{told}");
    assert_eq!(last(&requests[3]), "a hole");
    let mode = session.snapshot::<Mode>(ConversationId::ROOT).await?.unwrap_or_default();
    assert_eq!(mode.plan.as_deref(), Some("dig by the tree"));
    println!("{told}");
    Ok(())
}
