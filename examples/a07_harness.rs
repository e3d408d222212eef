//! A harness, and sessions that are created once. What a [`SessionSpec`] says of the root conversation lands in the
//! commit that creates the session; creating it again, also after a restart, opens it and ignores the spec.

use everturn::{
    Harness, Models, Result, SessionSpec, World,
    id::{ConversationId, Seq},
    model::Thinking,
    storage::SessionQuery,
    store,
};
use everturn_testkit::scripted::Scripted;
use std::path::Path;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("sessions.db");

    let harness = open(&file).await?;
    let wanted = spec("pears", "scripted/large", Thinking::High)?;
    let session = harness.create(wanted.clone()).await?;
    let id = session.id();

    // The root conversation is number 1, and the very first commit already holds its agent.
    assert_eq!(session.root().id(), ConversationId(1));
    assert_eq!(session.head(), Seq(1));
    assert_eq!(session.root().agent().await?, wanted.agent);
    println!("session {id} begins with its agent: scripted/large, thinking hard");

    // The request id says that it is the same creation, and so it is the same session.
    drop(session);
    let other = spec("plums", "scripted/small", Thinking::Off)?;
    let again = harness.create(other.clone()).await?;
    assert_eq!((again.id(), again.head()), (id, Seq(1)));
    assert_eq!(again.root().agent().await?, wanted.agent, "the other spec is ignored");

    // Restart: everything is dropped, and the file is opened anew.
    drop((again, harness));
    let harness = open(&file).await?;
    let created = harness.create(other).await?;
    assert_eq!(created.id(), id);
    drop(created);
    let opened = harness.open_session(id).await?;
    assert_eq!((opened.root().id(), opened.head()), (ConversationId(1), Seq(1)));
    assert_eq!(opened.root().agent().await?, wanted.agent);

    let listed = harness.sessions(SessionQuery::default()).await?;
    let titles: Vec<_> = listed.iter().filter_map(|row| row.new.title.as_deref()).collect();
    assert_eq!(titles, ["pears"]);
    println!("created three times and opened by its id, it is one session, called {}", titles[0]);
    Ok(())
}

async fn open(file: &Path) -> Result<Harness> {
    let options = store::Options::new(World::system().owner());
    let store = store::open(&format!("sqlite:{}", file.display()), options).await?;
    let models = Models::new().provider("scripted", Scripted::new([]));
    Harness::builder(store).models(models).open().await
}

/// A spec with a request id, so that its creation can be repeated safely.
fn spec(title: &str, model: &str, thinking: Thinking) -> Result<SessionSpec> {
    let mut spec = SessionSpec::model(model.parse()?);
    spec.request = Some("fruit".into());
    spec.title = Some(title.into());
    spec.agent.thinking = thinking;
    Ok(spec)
}
