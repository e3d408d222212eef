//! Sub-agents in the background: the call that starts one ends at once, the conversation goes on, and what came of it is
//! reported once, as an input of its own. It goes on after a restart.

use everturn::{
    Extension, Harness, Input, LiveSession, Models, Result, SessionSpec, World,
    message::Message,
    model::Request,
    store,
    tool::{Does, SessionCall, SessionTool, Spawn, ToolError},
};
use everturn_testkit::scripted::{Reply, Scripted};
use std::path::Path;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

struct Research;

impl SessionTool for Research {
    const NAME: &'static str = "research";
    type Arguments = Nothing;

    fn description(&self) -> &'static str {
        "Starts research in the background."
    }

    async fn run(&self, _: &SessionCall, _: Nothing) -> std::result::Result<Does, ToolError> {
        Ok(Does::Spawn(Spawn { is_background: true, ..Spawn::new("Find out about frogs.") }))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("sessions.db");
    let slow = everturn::CancelToken::new();

    let harness = open(&file, &slow).await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    let id = session.id();
    assert_eq!(ask(&session, "Do some research.").await?, "It is under way.");
    assert_eq!(ask(&session, "What else?").await?, "Nothing else.", "the conversation goes on meanwhile");
    // The research hangs, and the process ends.
    drop((session, harness));

    slow.cancel();
    let harness = open(&file, &slow).await?;
    let session = harness.open_session(id).await?;
    session.resume();
    while session.history().await?.len() < 3 {
        tokio::task::yield_now().await;
    }
    session.root().wait_idle().await?;
    let entries = session.entries(session.root().id(), None, 100).await?;
    let reports: Vec<String> =
        entries.iter().map(|entry| entry.text()).filter(|text| text.starts_with("<report")).collect();
    assert_eq!(reports.len(), 1, "reported once");
    assert!(reports[0].contains("Frogs are green."));
    let history = session.history().await?;
    let reply = history[2].record.reply.expect("the report was answered");
    assert_eq!(session.entry(session.root().id(), reply).await?.text(), "So frogs are green.");
    println!("{}", reports[0]);
    Ok(())
}

async fn open(file: &Path, slow: &everturn::CancelToken) -> Result<Harness> {
    let options = store::Options::new(World::system().owner());
    let store = store::open(&format!("sqlite:{}", file.display()), options).await?;
    let slow = slow.clone();
    let models =
        Models::new().provider("scripted", Scripted::answering(move |request| reply(request, &slow)));
    Harness::builder(store).models(models).install(Extension::new("lab").session_tool(Research))?.open().await
}

async fn ask(session: &LiveSession, text: &str) -> Result<String> {
    Ok(session.root().submit(Input::text(text)).await?.answer().await?.text)
}

fn reply(request: &Request, slow: &everturn::CancelToken) -> Reply {
    match request.messages.last().map(|message| (&**message, message.text())) {
        Some((Message::Result(_), _)) => Reply::text("It is under way."),
        Some((_, text)) if text.starts_with("Find out") => Reply::text("Frogs are green.").after_wait(slow),
        Some((_, text)) if text.starts_with("<report") => Reply::text("So frogs are green."),
        Some((_, text)) if text == "What else?" => Reply::text("Nothing else."),
        _ => Reply::calls([("research", "{}")]),
    }
}
