//! Turns whose telemetry is exported.

use std::{io, sync::Arc};

use everturn_core::{
    memory::Memory,
    model::FaultClass,
    policy::{Layer as Rules, Policy},
    storage::Store,
    tool::{CallContext, Contract, Tool, ToolResult},
};
use everturn_engine::{Extension, Harness, Input, Models, SessionSpec, Settings};
use everturn_otel::{Delivered, Options};
use everturn_testkit::scripted::{Reply, Scripted};
use tokio::sync::Notify;
use tracing::{Subscriber, level_filters::LevelFilter, span::Id};
use tracing_subscriber::{Layer, layer::Context, prelude::*, registry::LookupSpan};

/// What nobody must find in what is exported.
pub(crate) const MARK: &str = "xyzzy";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Empty {
    #[expect(dead_code, reason = "a tool is called with it, and does not look")]
    a: String,
}

/// A tool that says the mark.
struct Look;

impl Tool for Look {
    const NAME: &'static str = "look";
    type Arguments = Empty;

    fn description(&self) -> &str {
        "Looks."
    }

    fn contract(&self) -> Contract {
        Contract::default()
    }

    async fn run(&self, _: &CallContext, _: Empty) -> ToolResult {
        Ok(format!("it looked, {MARK}").into())
    }
}

/// Says when the span of a session has ended, and with it all spans in it.
#[derive(Clone, Default)]
struct Ended(Arc<Notify>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Ended {
    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        if cx.span(&id).unwrap().name() == "session" {
            self.0.notify_one();
        }
    }
}

/// How turns are exported.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scene {
    pub(crate) trace_content: bool,
    /// Whether another layer wants finer spans meanwhile.
    pub(crate) is_fine: bool,
}

impl Scene {
    /// A session with a turn that calls a tool and answers, and one that fails; all that is said is marked.
    pub(crate) async fn play(self, options: Options) -> Delivered {
        let telemetry = everturn_otel::start(options).unwrap();
        let ended = Ended::default();
        let finer = self.is_fine.then(|| tracing_subscriber::fmt::layer().with_writer(io::sink));
        let coarse = (!self.is_fine).then_some(LevelFilter::INFO);
        let subscriber = tracing_subscriber::registry()
            .with(telemetry.layer())
            .with(finer)
            .with(ended.clone())
            .with(coarse);
        let exporting = tracing::subscriber::set_default(subscriber);
        let harness = self.harness().await;
        let counted = harness.clone();
        telemetry.metrics(move || counted.metrics());

        let session = harness.create(SessionSpec::model("scripted/small".parse().unwrap())).await.unwrap();
        for (question, is_answered) in [(format!("a question, {MARK}"), true), (MARK.into(), false)] {
            let asked = session.root().submit(Input::text(question)).await.unwrap();
            assert_eq!(asked.answer().await.unwrap().is_answered(), is_answered);
        }
        session.close().await.unwrap();
        drop(session);
        ended.0.notified().await;
        drop(exporting);
        tokio::task::spawn_blocking(|| telemetry.shutdown()).await.unwrap()
    }

    async fn harness(self) -> Harness {
        let arguments = format!(r#"{{"a":"{MARK}"}}"#);
        let model = Scripted::new([
            Reply::calls([("look", &*arguments)]).usage(10, 5),
            Reply::text(format!("an answer, {MARK}")).usage(20, 7),
            Reply::text(MARK).then_fault(FaultClass::Auth, MARK),
        ]);
        let builder = Harness::builder(Store::new(Memory::new()))
            .models(Models::new().provider("scripted", model))
            .settings(Settings { trace_content: self.trace_content, ..Settings::default() })
            .policy(Policy::new().rule(Rules::User, "allow tool(look)".parse().unwrap()));
        builder.install(Extension::new("looking").tool(Look)).unwrap().open().await.unwrap()
    }
}
