//! What the tests set up.

use everturn_core::{
    BoxFuture, CancelToken, context,
    memory::Memory,
    message::{Message, Outcome},
    model::{Abilities, DeltaStream, Model, Request},
    policy::{Act, Layer, Policy},
    storage::{Layered, NewSession, SessionQuery, Store},
    tool::{CallContext, Contract, Replay, Tool, ToolResult},
};
use everturn_engine::{
    Answer, Extension, Harness, Input, LiveSession, Models, Opener, Session, SessionSpec, World,
    harness::Builder,
};
use everturn_testkit::{
    scripted::{Reply, Scripted},
    watched::{Moment, Watched},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
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

/// Proves that a model was sent legal requests only.
pub(crate) fn assert_legal(model: &Scripted) {
    for (number, request) in model.requests().iter().enumerate() {
        if let Err(breach) = context::check(&request.messages) {
            panic!("request {number} is not legal: {breach}");
        }
    }
}

/// Puts a harness together around a scripted model.
pub(crate) fn builder(store: &Store, model: &Scripted) -> Builder {
    let models = Models::new().provider("scripted", model.clone());
    Harness::builder(store.clone()).models(models)
}

/// A model that can do other things than the scripted one says.
pub(crate) struct Able(pub(crate) Scripted, pub(crate) Abilities);

impl Model for Able {
    fn stream(&self, request: Request) -> DeltaStream {
        self.0.stream(request)
    }

    fn abilities(&self, _: &str) -> Abilities {
        self.1.clone()
    }
}

/// The answer to a text, handed to the root.
pub(crate) async fn ask(session: &LiveSession, text: &str) -> Answer {
    session.root().submit(Input::text(text)).await.expect("it is handed over").answer().await.expect("an end")
}

/// The outcomes of the root conversation's calls, and what the model was told, in order.
pub(crate) async fn results(session: &LiveSession) -> Vec<(Outcome, String)> {
    let entries = session.entries(session.root().id(), None, 1_000).await.expect("entries");
    let messages = entries.iter().rev().flat_map(|entry| &entry.messages);
    let results = messages.filter_map(|message| match &**message {
        Message::Result(result) => Some((result.outcome.clone(), result.text.clone())),
        _ => None,
    });
    results.collect()
}

/// The kinds of the root conversation's entries, oldest first.
pub(crate) async fn kinds(session: &LiveSession) -> Vec<String> {
    let entries = session.entries(session.root().id(), None, 1_000).await.expect("entries");
    entries.iter().rev().map(|entry| entry.kind.clone()).collect()
}

/// How many results a request carries behind its last user message.
pub(crate) fn results_since_asked(request: &Request) -> usize {
    let is_user = |message: &Arc<Message>| matches!(&**message, Message::User(_));
    let asked = request.messages.iter().rposition(is_user).map_or(0, |at| at + 1);
    request.messages[asked..].iter().filter(|message| matches!(&***message, Message::Result(_))).count()
}

/// Lets others run until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if is_so() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came to this: {what}");
}

/// A tool made of a closure.
pub(crate) struct Doing<const KIND: usize = 0> {
    contract: Contract,
    run: Run,
}

type Run = Box<dyn Fn(CallContext, Value) -> BoxFuture<'static, ToolResult> + Send + Sync>;

const NAMES: [&str; 3] = ["do", "do_1", "do_2"];

impl<const KIND: usize> Doing<KIND> {
    pub(crate) fn new<F>(run: impl Fn(CallContext, Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ToolResult> + Send + 'static,
    {
        let run: Run = Box::new(move |cx, arguments| Box::pin(run(cx, arguments)));
        Self { contract: Contract::default(), run }
    }

    /// One that gives this text.
    pub(crate) fn says(text: &'static str) -> Self {
        Self::new(move |_, _| async move { Ok(text.into()) })
    }

    pub(crate) fn contract(self, contract: Contract) -> Self {
        Self { contract, ..self }
    }
}

impl<const KIND: usize> Tool for Doing<KIND> {
    const NAME: &'static str = NAMES[KIND];
    type Arguments = BTreeMap<String, Value>;

    fn description(&self) -> &str {
        "Does what the test says."
    }

    fn contract(&self) -> Contract {
        self.contract.clone()
    }

    fn acts(&self, arguments: &Self::Arguments) -> Vec<Act> {
        assert!(!arguments.contains_key("panic"), "no acts for this");
        Vec::new()
    }

    async fn run(&self, cx: &CallContext, arguments: Self::Arguments) -> ToolResult {
        (self.run)(cx.clone(), arguments.into_iter().collect()).await
    }
}

/// A policy with these rules in the user's layer, and nothing else.
pub(crate) fn rules(rules: &[&str]) -> Policy {
    let rule = |policy: Policy, rule: &&str| policy.rule(Layer::User, rule.parse().expect("a rule"));
    rules.iter().fold(Policy::new(), rule)
}

/// Where a life ends: at a moment of its n-th commit.
pub(crate) type Stop = (Moment, u64);

/// All places where a life can end.
pub(crate) fn stops() -> impl Iterator<Item = Stop> {
    (1..).flat_map(|number| [(Moment::Before, number), (Moment::After, number)])
}

/// One life over what the lives before have left; none when it was stopped.
pub(crate) fn life<T>(memory: &Store, stop: Option<Stop>, live: impl AsyncFnOnce(Store) -> T) -> Option<T> {
    // The runtime is the process: dropping it ends every task where it stands.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let stopped = CancelToken::new();
    let tell = {
        let stopped = stopped.clone();
        move |moment, number| -> BoxFuture<'static, ()> {
            if stop == Some((moment, number)) {
                stopped.cancel();
                return Box::pin(std::future::pending());
            }
            Box::pin(async {})
        }
    };
    let store = Store::new(Layered(Watched::new(memory.clone(), tell)));
    runtime.block_on(async {
        for row in memory.sessions(SessionQuery::default()).await.expect("sessions") {
            if let Some((owner, _)) = row.owner {
                memory.release(row.id, owner, row.epoch).await.expect("the lease of an owner that is gone");
            }
        }
        tokio::select! {
            biased;
            () = stopped.cancelled() => None,
            lived = live(store) => Some(lived),
        }
    })
}

/// Lives that stop before and after each commit in turn, each followed by one that does not; gives how many stops were
/// reached. `live` gets what `make` made for this world.
#[expect(clippy::needless_pass_by_value, reason = "a closure is written where it is handed over")]
pub(crate) fn explore<S>(make: impl Fn() -> S, live: impl AsyncFn(Store, &S)) -> usize {
    let reached = stops().take_while(|stop| {
        let (memory, made) = (store(), make());
        let first = life(&memory, Some(*stop), async |store| live(store, &made).await);
        println!("stopped {stop:?}: {}", first.is_none());
        first.is_none() && life(&memory, None, async |store| live(store, &made).await).is_some()
    });
    reached.count()
}
