//! New code while the old one runs: a tool is replaced in one batch. No snapshot misses it, the call that runs ends with the
//! old code, and the next call has the new.

use everturn::{
    CancelToken, Extension, Harness, Input, Models, Registry, Result, SessionSpec,
    entry::kind,
    kernel::Memory,
    store::Store,
    tool::{CallContext, Contract, Tool, ToolResult},
};
use everturn_testkit::scripted::{Reply, Scripted};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A greeting; it says when it has begun, and waits until it may end.
struct Greet {
    word: &'static str,
    begun: CancelToken,
    may_end: CancelToken,
}

impl Tool for Greet {
    const NAME: &'static str = "greet";
    type Arguments = Nothing;

    fn description(&self) -> &'static str {
        "Greets."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    async fn run(&self, _: &CallContext, _: Nothing) -> ToolResult {
        self.begun.cancel();
        self.may_end.cancelled().await;
        Ok(self.word.into())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let (begun, may_end) = (CancelToken::new(), CancelToken::new());
    let greet = |word| Greet { word, begun: begun.clone(), may_end: may_end.clone() };
    let calls = || Reply::calls([("greet", "{}")]);
    let models = Models::new().provider("scripted", Scripted::new([calls(), calls(), Reply::text("done")]));
    let polite = Extension::new("polite").tool(greet("good day"));
    let harness = Harness::builder(Store::new(Memory::new())).models(models).install(polite)?.open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;

    let asked = session.root().submit(Input::text("greet me twice")).await?;
    begun.cancelled().await;

    // While it runs, the extension goes and another brings a tool of the same name. Others look all the time.
    let before = harness.registry();
    let looks = std::thread::spawn({
        let harness = harness.clone();
        move || (0..10_000).all(|_| harness.registry().tool("greet").is_some())
    });
    harness.batch(|registry: &mut Registry| {
        registry.remove("polite");
        registry.install(Extension::new("casual").tool(greet("hi")))
    })?;
    assert!(looks.join().expect("it looks"), "no snapshot misses the tool");
    let names =
        |registry: &Registry| registry.extensions().map(|one| one.name().to_owned()).collect::<Vec<_>>();
    assert_eq!((names(&before), names(&harness.registry())), (vec!["polite".into()], vec!["casual".into()]));

    may_end.cancel();
    asked.answer().await?;
    let entries = session.entries(session.root().id(), None, 100).await?;
    let said = entries.iter().rev().filter(|entry| entry.kind == kind::RESULT).map(|entry| entry.text());
    let said: Vec<String> = said.collect();
    assert_eq!(said, ["good day", "hi"]);
    println!("the running call said {:?}, the next one {:?}", said[0], said[1]);
    Ok(())
}
