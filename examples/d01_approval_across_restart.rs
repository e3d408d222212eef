//! A question to a person outlives the process that asked it. The call waits, nothing of it is held in memory; another process
//! opens the file, shows what would happen, and decides. One decision wins, and the next is told so.

use everturn::{
    ErrorKind, Extension, Harness, Input, Models, Result, SessionSpec, World,
    approval::{Decision, Question},
    json::RawJson,
    model::Request,
    policy::{Layer, Policy},
    store,
    tool::{CallContext, Tool, ToolResult},
};
use everturn_testkit::scripted::{Reply, Scripted};
use std::path::{Path, PathBuf};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Payment {
    to: String,
    euros: u32,
}

/// Pays, and books it in a file.
struct Pay(PathBuf);

impl Tool for Pay {
    const NAME: &'static str = "pay";
    type Arguments = Payment;

    fn description(&self) -> &'static str {
        "Pays."
    }

    async fn run(&self, _: &CallContext, payment: Payment) -> ToolResult {
        let line = format!("{} got {} euros", payment.to, payment.euros);
        std::fs::write(self.0.join("booked"), &line)?;
        Ok(line.into())
    }

    async fn preview(&self, _: &CallContext, payment: Payment) -> Option<RawJson> {
        RawJson::of(&format!("{} will get {} euros", payment.to, payment.euros)).ok()
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, booked) = (directory.path().join("sessions.db"), directory.path().join("booked"));

    let harness = open(&file).await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    session.root().submit(Input::text("Pay Ada.")).await?;
    session.quiescent().await?;
    let id = session.id();
    session.close().await?;
    drop((session, harness));
    assert!(!booked.exists(), "nothing runs while it is asked about");

    // Another process; it knows the id and nothing else.
    let harness = open(&file).await?;
    let session = harness.open_session(id).await?;
    let asked = session.open_approvals().pop().expect("the question is still open");
    let Question::Call { tool, preview, verdict, .. } = &asked.question else {
        unreachable!("a call is asked")
    };
    println!("may {tool} run? {} ({})", preview.as_ref().expect("the tool shows it").get(), verdict.rule);
    let less = Decision::Edit { arguments: RawJson::parse(r#"{"to":"ada","euros":5}"#)? };
    session.decide(asked.id, less, "ben").await?;
    let error = session.decide(asked.id, Decision::Allow, "cleo").await.expect_err("it was decided");
    assert_eq!(*error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("ben has decided it"));

    session.root().wait_idle().await?;
    assert_eq!(std::fs::read_to_string(booked).expect("it was booked"), "ada got 5 euros");
    let history = session.history().await?;
    let reply = history[0].record.reply.expect("the turn has its answer");
    let answer = session.entry(session.root().id(), reply).await?.text();
    assert_eq!(answer, "Done: ada got 5 euros");
    println!("{answer}; and cleo was told: {error}");
    Ok(())
}

async fn open(file: &Path) -> Result<Harness> {
    let options = store::Options::new(World::system().owner());
    let store = store::open(&format!("sqlite:{}", file.display()), options).await?;
    let directory = file.parent().expect("the file is in a directory").to_owned();
    let policy = Policy::new().rule(Layer::User, "ask tool(pay)".parse()?);
    let models = Models::new().provider("scripted", Scripted::answering(reply));
    let tools = Extension::new("bank").tool(Pay(directory));
    Harness::builder(store).models(models).policy(policy).install(tools)?.open().await
}

fn reply(request: &Request) -> Reply {
    match request.texts().as_slice() {
        [.., last] if request.messages.len() > 2 => Reply::text(format!("Done: {last}")),
        _ => Reply::calls([("pay", r#"{"to":"ada","euros":500}"#)]),
    }
}
