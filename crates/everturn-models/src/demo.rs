//! The model of the first run, without a key: a few rules that use the tools they are offered.

mod question;
mod rules;
mod source;
mod turn;

use std::{fmt, sync::Arc, time::Duration};

use everturn_core::{
    clock::Clock,
    message::{Message, Stop, Usage},
    model::{Delta, DeltaStream, Model, Request},
};
use futures_util::{StreamExt, stream};
use serde_json::Value;

/// The provider's name in model references and origins.
pub const PROVIDER: &str = "demo";

/// A model that is no language model, and says so.
///
/// Shape: answers come word by word, a pace apart; usage counts words, since it knows no tokens.
/// Promise: what it answers is a pure function of the request, [`decide`]; it asks for no tool that is not on offer, and
/// never fails.
///
/// ```
/// # use everturn_core::{BoxFuture, clock::{Clock, Timestamp}};
/// # struct Stopped;
/// # impl Clock for Stopped {
/// #     fn now(&self) -> Timestamp { Timestamp(0) }
/// #     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(async {}) }
/// # }
/// use std::{sync::Arc, time::Duration};
/// use everturn_core::{message::{Message, Stop}, model::{Delta, Model, Request}};
/// use everturn_models::Demo;
/// use futures_util::{FutureExt, StreamExt};
///
/// let demo = Demo::new(Arc::new(Stopped), Duration::from_millis(20));
/// let stream = demo.stream(Request::new("demo", [Message::user("hello")]));
/// let deltas: Vec<_> = stream.collect().now_or_never().expect("this clock never waits");
/// assert!(deltas.len() > 10, "it comes in words");
/// assert_eq!(deltas.last(), Some(&Ok(Delta::End(Stop::Answer))));
/// ```
pub struct Demo {
    clock: Arc<dyn Clock>,
    pace: Duration,
}

impl Demo {
    /// The model, with a pause of `pace` in front of each word.
    pub fn new(clock: Arc<dyn Clock>, pace: Duration) -> Self {
        Self { clock, pace }
    }
}

impl fmt::Debug for Demo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Demo({:?} a word)", self.pace)
    }
}

impl Model for Demo {
    fn stream(&self, request: Request) -> DeltaStream {
        let deltas = decide(&request).into_deltas(words_of(&request));
        let (clock, pace) = (self.clock.clone(), self.pace);
        Box::pin(stream::iter(deltas).then(move |delta| {
            let pause = matches!(delta, Delta::Text(_)).then(|| clock.sleep(pace));
            async move {
                if let Some(pause) = pause {
                    pause.await;
                }
                Ok(delta)
            }
        }))
    }
}

/// What the demo does next.
///
/// ```
/// use everturn_models::demo::{Ask, Reply};
/// let reply = Reply::Calls(vec![Ask::new("list", serde_json::json!({"path": "."}))]);
/// assert_ne!(reply, Reply::Text("no".into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It answers.
    Text(String),
    /// It wants these calls to be made, in parallel.
    Calls(Vec<Ask>),
}

/// A call that the demo wants to be made.
///
/// ```
/// use everturn_models::demo::Ask;
/// assert_eq!(Ask::new("list", serde_json::json!({})).tool, "list");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The tool.
    pub tool: &'static str,
    /// Its arguments.
    pub arguments: Value,
}

impl Ask {
    /// A call of `tool`.
    pub fn new(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments }
    }
}

/// Decides what comes next in a conversation.
///
/// Promise: pure; each call is asked for once in a turn, a few at a time, so that every turn ends.
///
/// ```
/// use everturn_core::{message::Message, model::Request};
/// use everturn_models::demo::{self, Reply};
///
/// let request = Request::new("demo", [Message::user("What can you do?")]);
/// let Reply::Text(answer) = demo::decide(&request) else { panic!("it needs no tool for that") };
/// assert!(answer.contains("no language model"), "{answer}");
/// ```
pub fn decide(request: &Request) -> Reply {
    rules::apply(&turn::Turn::of(request))
}

impl Reply {
    fn into_deltas(self, input: u64) -> Vec<Delta> {
        let mut deltas = vec![Delta::Started { response: None, model: None }];
        let (stop, output) = match self {
            Self::Text(text) => {
                let words = text.split_inclusive(char::is_whitespace).map(str::to_owned);
                deltas.extend(words.map(Delta::Text));
                (Stop::Answer, count(&text))
            }
            Self::Calls(asks) => {
                let output = asks.len() as u64;
                deltas.extend((0..).zip(asks).flat_map(|(call, ask)| ask.into_deltas(call)));
                (Stop::Calls, output)
            }
        };
        let usage = Usage { input: Some(input), output: Some(output), ..Usage::default() };
        deltas.extend([Delta::Usage(usage), Delta::End(stop)]);
        deltas
    }
}

impl Ask {
    fn into_deltas(self, call: u32) -> [Delta; 3] {
        let start = Delta::CallStart { call, provider: None, name: self.tool.into() };
        let piece = self.arguments.to_string();
        [start, Delta::CallArguments { call, piece }, Delta::CallEnd { call }]
    }
}

fn words_of(request: &Request) -> u64 {
    request.messages.iter().map(|message| count(&Message::text(message))).sum()
}

fn count(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
