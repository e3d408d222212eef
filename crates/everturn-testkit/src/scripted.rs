//! A model that answers by a script, and checks what it is sent as strictly as the strictest provider.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everturn_core::{
    CancelToken, context,
    message::{Stop, Usage},
    model::{Delta, DeltaStream, Fault, FaultClass, Model, Request},
};
use futures_util::{StreamExt, stream};

/// A model that answers by a script: one [`Reply`] per request, in order.
///
/// Promise: a request that is not legal is answered with a fault of class `invalid`, as a strict provider would; so is
/// a request behind the script's end.
///
/// ```
/// use everturn_testkit::scripted::{Reply, Scripted};
///
/// let model = Scripted::new([Reply::text("one"), Reply::text("two")]);
/// assert_eq!(model.requests().len(), 0);
/// ```
#[derive(Clone, Default)]
pub struct Scripted(Arc<Mutex<State>>);

/// What a model does that has no list of replies: it looks at the request.
type Decide = Box<dyn Fn(&Request) -> Reply + Send>;

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    decide: Option<Decide>,
    requests: Option<Vec<Request>>,
    count: usize,
}

/// What a scripted model answers to one request.
///
/// ```
/// use everturn_core::model::FaultClass;
/// use everturn_testkit::scripted::Reply;
///
/// let cut = Reply::words("half of an answer").then_cut();
/// let calls = Reply::calls([("read", r#"{"path":"a.txt"}"#)]);
/// let refused = Reply::fault(FaultClass::Quota, "no credit");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pieces: Vec<Piece>,
    usage: Option<Usage>,
    stop: Option<Stop>,
}

#[derive(Clone, Debug)]
enum Piece {
    Delta(Delta),
    /// Lets others run before the next piece.
    Yield,
    /// Waits until the gate opens.
    Wait(CancelToken),
    Fault(Fault),
}

impl Reply {
    /// An answer in one piece.
    pub fn text(text: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Delta(Delta::Text(text.into()))], usage: None, stop: Some(Stop::Answer) }
    }

    /// An answer word by word; others run between the words.
    pub fn words(text: &str) -> Self {
        let words = text.split_inclusive(' ').map(|word| Piece::Delta(Delta::Text(word.into())));
        let pieces = words.flat_map(|word| [word, Piece::Yield]).collect();
        Self { pieces, usage: None, stop: Some(Stop::Answer) }
    }

    /// Calls of tools: name and arguments.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pieces = calls.into_iter().zip(0..).flat_map(|((name, arguments), call)| {
            [
                Delta::CallStart { call, provider: Some(format!("call_{call}")), name: name.into() },
                Delta::CallArguments { call, piece: arguments.into() },
                Delta::CallEnd { call },
            ]
        });
        Self { pieces: pieces.map(Piece::Delta).collect(), usage: None, stop: Some(Stop::Calls) }
    }

    /// A reply of these pieces, as a provider's client gives them: odd ids, signed items, hints of a fault.
    pub fn pieces(pieces: impl IntoIterator<Item = Result<Delta, Fault>>) -> Self {
        let piece = |piece: Result<Delta, Fault>| piece.map_or_else(Piece::Fault, Piece::Delta);
        Self { pieces: pieces.into_iter().map(piece).collect(), usage: None, stop: None }
    }

    /// A request that fails at once.
    pub fn fault(class: FaultClass, message: &str) -> Self {
        Self { pieces: vec![Piece::Fault(Fault::new(class, message))], usage: None, stop: None }
    }

    /// The same reply behind a text.
    #[must_use]
    pub fn after_text(mut self, text: impl Into<String>) -> Self {
        self.pieces.insert(0, Piece::Delta(Delta::Text(text.into())));
        self.pieces.insert(1, Piece::Yield);
        self
    }

    /// The same reply, which begins only when the gate is cancelled open.
    #[must_use]
    pub fn after_wait(mut self, gate: &CancelToken) -> Self {
        self.pieces.insert(0, Piece::Wait(gate.clone()));
        self
    }

    /// The same reply, which goes on only when the gate is cancelled open.
    #[must_use]
    pub fn then_wait(mut self, gate: &CancelToken) -> Self {
        self.pieces.extend([Piece::Yield, Piece::Wait(gate.clone())]);
        self
    }

    /// The same reply, with more text behind it.
    #[must_use]
    pub fn then_text(mut self, text: impl Into<String>) -> Self {
        self.pieces.push(Piece::Delta(Delta::Text(text.into())));
        self
    }

    /// The same reply, whose stream just stops instead of ending.
    #[must_use]
    pub fn then_cut(mut self) -> Self {
        self.stop = None;
        self
    }

    /// The same reply, which then fails.
    #[must_use]
    pub fn then_fault(mut self, class: FaultClass, message: &str) -> Self {
        self.pieces.push(Piece::Fault(Fault::new(class, message)));
        self.stop = None;
        self
    }

    /// The same reply with another stop.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// The same reply, which reports what it cost.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Some(Usage { input: Some(input), output: Some(output), ..Usage::default() });
        self
    }

    fn stream(self) -> DeltaStream {
        let usage = self.usage.map(|usage| Piece::Delta(Delta::Usage(usage)));
        let end = self.stop.map(|stop| Piece::Delta(Delta::End(stop)));
        let pieces = stream::iter(self.pieces.into_iter().chain(usage).chain(end));
        Box::pin(pieces.filter_map(|piece| async move {
            match piece {
                Piece::Delta(delta) => Some(Ok(delta)),
                Piece::Fault(fault) => Some(Err(fault)),
                Piece::Yield => {
                    yield_now().await;
                    None
                }
                Piece::Wait(gate) => {
                    gate.cancelled().await;
                    None
                }
            }
        }))
    }
}

/// Lets others run once.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

impl Scripted {
    /// A model with a script.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = replies.into_iter().collect();
        Self(Arc::new(Mutex::new(State { replies, requests: Some(Vec::new()), ..State::default() })))
    }

    /// A model that answers what it is sent: its script goes on after a restart.
    pub fn answering(decide: impl Fn(&Request) -> Reply + Send + 'static) -> Self {
        let decide: Option<Decide> = Some(Box::new(decide));
        Self(Arc::new(Mutex::new(State { decide, requests: Some(Vec::new()), ..State::default() })))
    }

    /// A model that gives the same reply to every request and keeps none of them: for benches.
    pub fn always(reply: Reply) -> Self {
        let decide: Option<Decide> = Some(Box::new(move |_| reply.clone()));
        Self(Arc::new(Mutex::new(State { decide, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reply to the end of the script.
    pub fn push(&self, reply: Reply) {
        self.state().replies.push_back(reply);
    }

    /// What it was sent, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone().unwrap_or_default()
    }

    /// How many requests it was sent.
    pub fn count(&self) -> usize {
        self.state().count
    }

    fn reply(&self, request: Request) -> Reply {
        let mut state = self.state();
        state.count += 1;
        // A model that keeps no requests does not look at them either: a bench measures the harness.
        let breach = state.requests.is_some().then(|| context::check(&request.messages).err()).flatten();
        let reply = match (breach, state.replies.pop_front()) {
            (Some(breach), _) => Reply::fault(FaultClass::Invalid, &breach.to_string()),
            (None, Some(reply)) => reply,
            (None, None) => match &state.decide {
                Some(decide) => decide(&request),
                None => Reply::fault(FaultClass::Bug, "the script is over"),
            },
        };
        if let Some(requests) = &mut state.requests {
            requests.push(request);
        }
        reply
    }
}

impl Model for Scripted {
    fn stream(&self, request: Request) -> DeltaStream {
        self.reply(request).stream()
    }
}
