//! What the tests set up.

use everturn_core::{
    memory::Memory,
    storage::{NewSession, Store},
    tool::{CallContext, Contract, Replay, Tool, ToolResult},
};
use everturn_engine::{Extension, Harness, LiveSession, Models, Opener, Session, SessionSpec, World};
use everturn_testkit::scripted::{Reply, Scripted};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

pub(crate) fn store() -> Store {
    Store::new(Memory::new())
}

pub(crate) async fn session() -> Session {
    let opener = Opener::new(store(), World::system()).await;
    Session::create(&opener, NewSession::default()).await.expect("a session")
}

/// A harness over a store, with a scripted model and the given tools.
pub(crate) async fn harness(store: &Store, model: &Scripted, extension: Extension) -> Harness {
    let models = Models::new().provider("scripted", model.clone());
    Harness::builder(store.clone())
        .models(models)
        .install(extension)
        .expect("tools")
        .open()
        .await
        .expect("a harness")
}

pub(crate) fn spec() -> SessionSpec {
    SessionSpec::model("scripted".parse().expect("a model reference"))
}

/// A session whose model answers by a script, without tools.
pub(crate) async fn scripted(replies: impl IntoIterator<Item = Reply>) -> (LiveSession, Scripted) {
    let model = Scripted::new(replies);
    let harness = harness(&store(), &model, Extension::new("none")).await;
    (harness.create(spec()).await.expect("a session"), model)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Empty {}

/// A tool that counts how often it ran.
#[derive(Clone)]
pub(crate) struct Counting {
    pub(crate) ran: Arc<AtomicUsize>,
    pub(crate) replay: Replay,
    pub(crate) gate: Option<everturn_core::CancelToken>,
}

impl Counting {
    pub(crate) fn new(replay: Replay) -> Self {
        Self { ran: Arc::new(AtomicUsize::new(0)), replay, gate: None }
    }

    pub(crate) fn count(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }
}

impl Tool for Counting {
    const NAME: &'static str = "count";
    type Arguments = Empty;

    fn description(&self) -> &str {
        "Counts its own runs."
    }

    fn contract(&self) -> Contract {
        Contract { replay: self.replay, ..Contract::default() }
    }

    async fn run(&self, cx: &CallContext, _: Empty) -> ToolResult {
        let ran = self.ran.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(gate) = &self.gate {
            tokio::select! {
                () = gate.cancelled() => {}
                () = cx.cancel.cancelled() => return Err(everturn_core::tool::ToolError::new("stopped")),
            }
        }
        Ok(format!("run {ran}").into())
    }
}
