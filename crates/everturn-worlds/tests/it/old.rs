//! Work that an older version left in a store goes on by the code of this one.

use std::path::Path;

use everturn::{
    Extension, Harness, Models, World,
    store::{self, Options},
    tool::{CallContext, Contract, Tool, ToolResult},
};
use everturn_testkit::scripted::{Reply, Scripted};

/// The store that schema 2 left: in its first session a turn waits for two calls that were cut off, and a question waits
/// behind it.
const LEFT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../everturn-store/tests/fixtures/schema-2.db");

/// The tool that was called.
struct Hang;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl Tool for Hang {
    const NAME: &'static str = "hang";
    type Arguments = Nothing;

    fn description(&self) -> &str {
        "Does not hang any more."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    async fn run(&self, _: &CallContext, _: Nothing) -> ToolResult {
        Ok("done".into())
    }
}

#[tokio::test]
async fn a_turn_that_waits_for_calls_in_an_older_store_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("left.db");
    std::fs::copy(Path::new(LEFT), &file).unwrap();
    let url = format!("sqlite:{}", file.display());
    let store = store::open(&url, Options::new(World::system().owner())).await.unwrap();
    let model = Scripted::new([Reply::text("both have hung"), Reply::text("and then nothing")]);
    let models = Models::new().provider("scripted", model.clone());
    let builder = Harness::builder(store).models(models).install(Extension::new("old").tool(Hang));
    let harness = builder.unwrap().open().await.unwrap();
    let session =
        harness.open_session("00000000-03e8-7101-8101-010101010101".parse().unwrap()).await.unwrap();
    let mut answers = Vec::new();
    for asked in session.open_submissions() {
        answers.push(asked.answer().await.unwrap().text);
    }
    assert_eq!(answers, ["both have hung", "and then nothing"]);
    let texts = model.requests()[0].texts();
    assert_eq!(texts.iter().filter(|text| *text == "done").count(), 2, "each call ran again: {texts:?}");
    assert_eq!(harness.verify(session.id()).await.unwrap(), []);
}
