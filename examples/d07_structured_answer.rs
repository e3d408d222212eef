//! An answer that is a value: asked for by a Rust type, checked against its schema, asked for again where it does not fit, and
//! read as the type. Answers that did not fit stay stored.

use everturn::{
    Harness, Input, Models, Result, SessionSpec, entry::kind, kernel::Memory, store::Store, submission::End,
};
use everturn_testkit::scripted::{Reply, Scripted};

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Pond {
    /// How many frogs there are.
    frogs: u8,
    /// What they sit on.
    leaves: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let model = Scripted::new([
        Reply::text("There are three frogs."),
        Reply::text(r#"{"frogs":"three","leaves":["lily"]}"#),
        Reply::text("```json\n{\"frogs\":3,\"leaves\":[\"lily\"]}\n```"),
    ]);
    let models = Models::new().provider("scripted", model.clone());
    let harness = Harness::builder(Store::new(Memory::new())).models(models).open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;

    let asked = session.root().submit(Input::text("Describe the pond.").answer_as::<Pond>()).await?;
    let answer = asked.answer().await?;
    let pond: Pond = answer.read()?;
    assert_eq!(pond, Pond { frogs: 3, leaves: vec!["lily".into()] });
    assert_eq!(answer.steps, 3);

    // The model was told what was wrong, each time.
    let texts = model.requests()[2].texts();
    assert!(texts[2].contains("it is no JSON value"), "{}", texts[2]);
    assert!(texts[4].contains("at /frogs"), "{}", texts[4]);
    let entries = session.entries(session.root().id(), None, 100).await?;
    assert_eq!(entries.iter().filter(|entry| entry.kind == kind::ASSISTANT).count(), 3);

    // It is asked so often and no longer.
    (0..3).for_each(|_| model.push(Reply::text("Many.")));
    let asked = session.root().submit(Input::text("And now?").answer_as::<Pond>()).await?;
    let answer = asked.answer().await?;
    assert_eq!(answer.end, End::Failed { reason: "invalid_answer".into() });
    assert_eq!(answer.text, "Many.", "the last text is kept");
    assert!(answer.read::<Pond>().is_err());
    println!("{pond:?}; then: {}", answer.error().expect("it failed"));
    Ok(())
}
