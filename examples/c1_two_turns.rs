//! Two turns of one conversation, in memory, with a model that answers by a script.

use everturn::{Harness, Input, Models, Result, SessionSpec, kernel::Memory, store::Store};
use everturn_testkit::scripted::{Reply, Scripted};

#[tokio::main]
async fn main() -> Result<()> {
    // Exchange these two lines for a model of yours, and nothing else changes.
    let model = Scripted::new([Reply::text("one"), Reply::text("two")]);
    let models = Models::new().provider("scripted", model.clone());

    let harness = Harness::builder(Store::new(Memory::new())).models(models).open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    let chat = session.root();

    let one = chat.submit(Input::text("Count.")).await?.answer().await?;
    let two = chat.submit(Input::text("Go on.")).await?.answer().await?;
    assert_eq!((one.text.as_str(), two.text.as_str()), ("one", "two"));
    assert!(one.is_answered() && two.is_answered());

    assert_eq!(session.history().await?.len(), 2, "turns");
    let context = session.context(chat.id(), None).await?;
    let said = context.texts();
    assert_eq!(said, ["Count.", "one", "Go on.", "two"]);

    // The second request carried the whole conversation so far.
    assert_eq!(model.requests()[1].texts(), said[..3]);

    println!("two turns, {} messages: {}", said.len(), said.join(" / "));
    Ok(())
}
