//! A model's response, put together from its deltas.

use crate::{
    json::RawJson,
    message::{Assistant, Call, CallId, End, Origin, Part, Stop, Usage},
    model::Delta,
};

/// What has come of a response so far.
///
/// Shape: parts stand in the order in which they began; pieces of one part are joined.
///
/// ```
/// use everturn_core::{message::Stop, model::Delta, response::Response};
///
/// let mut response = Response::default();
/// for delta in [Delta::Text("4".into()), Delta::Text("2".into()), Delta::End(Stop::Answer)] {
///     response.push(delta);
/// }
/// assert_eq!((response.text().as_str(), response.stop()), ("42", Some(Stop::Answer)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Response {
    parts: Vec<Building>,
    usage: Option<Usage>,
    stop: Option<Stop>,
    response: Option<String>,
    model: Option<String>,
    weight: usize,
}

/// A part that may still grow.
#[derive(Clone, Debug)]
enum Building {
    Text(String),
    Thinking(String),
    Call(CallDraft),
    Opaque(RawJson),
}

/// A call that may still grow.
///
/// ```
/// use everturn_core::{model::Delta, response::Response};
///
/// let mut response = Response::default();
/// response.push(Delta::CallStart { call: 0, provider: None, name: "read".into() });
/// let call = response.calls().next().unwrap();
/// assert!(!call.whole, "its end was not seen");
/// ```
#[derive(Clone, Debug)]
pub struct CallDraft {
    /// Its number in the response.
    pub call: u32,
    /// The provider's id of it.
    pub provider: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments as far as they came.
    pub arguments: String,
    /// Whether its end was seen.
    pub whole: bool,
}

impl Response {
    /// Takes the next delta.
    pub fn push(&mut self, delta: Delta) {
        self.weight += delta.weight();
        match delta {
            Delta::Started { response, model } => {
                self.response = response.or(self.response.take());
                self.model = model.or(self.model.take());
            }
            Delta::Text(piece) => match self.parts.last_mut() {
                Some(Building::Text(text)) => text.push_str(&piece),
                _ => self.parts.push(Building::Text(piece)),
            },
            Delta::Thinking(piece) => match self.parts.last_mut() {
                Some(Building::Thinking(text)) => text.push_str(&piece),
                _ => self.parts.push(Building::Thinking(piece)),
            },
            Delta::CallStart { call, provider, name } => {
                let draft = CallDraft { call, provider, name, arguments: String::new(), whole: false };
                self.parts.push(Building::Call(draft));
            }
            Delta::CallArguments { call, piece } => {
                if let Some(draft) = self.draft(call) {
                    draft.arguments.push_str(&piece);
                }
            }
            Delta::CallEnd { call } => {
                if let Some(draft) = self.draft(call) {
                    draft.whole = true;
                }
            }
            Delta::Opaque(item) => self.parts.push(Building::Opaque(item)),
            Delta::Usage(usage) => self.usage = Some(usage),
            Delta::End(stop) => self.stop = Some(stop),
        }
    }

    fn draft(&mut self, call: u32) -> Option<&mut CallDraft> {
        self.parts.iter_mut().rev().find_map(|part| match part {
            Building::Call(draft) if draft.call == call => Some(draft),
            _ => None,
        })
    }

    /// All text for the reader so far.
    pub fn text(&self) -> String {
        let text = |part: &'_ Building| {
            if let Building::Text(text) = part { Some(text.clone()) } else { None }
        };
        self.parts.iter().filter_map(text).collect()
    }

    /// All readable thinking so far.
    pub fn thinking(&self) -> String {
        let text = |part: &'_ Building| {
            if let Building::Thinking(text) = part { Some(text.clone()) } else { None }
        };
        self.parts.iter().filter_map(text).collect()
    }

    /// The calls so far, whole or not, in order.
    pub fn calls(&self) -> impl Iterator<Item = &CallDraft> {
        self.parts.iter().filter_map(|part| if let Building::Call(draft) = part { Some(draft) } else { None })
    }

    /// What the provider counted so far.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Why the model stopped; none while it has not.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Bytes of what has come: what the message will weigh at least.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Whether nothing to keep has come.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The message to store. `mint` gives the id of each call; calls that were cut are left out. In a response that
    /// ended in calls none was cut: one without its end has broken arguments, which are kept as a JSON string.
    pub fn into_message(
        self,
        provider: &str,
        model: &str,
        end: End,
        mut mint: impl FnMut() -> CallId,
    ) -> Assistant {
        let model = self.model.unwrap_or_else(|| model.to_owned());
        let none_cut = self.stop == Some(Stop::Calls);
        let parts = self.parts.into_iter().filter_map(|part| match part {
            Building::Text(text) => Some(Part::Text(text)),
            Building::Thinking(text) => Some(Part::Thinking(text)),
            Building::Opaque(item) => Some(Part::Opaque(item)),
            Building::Call(draft) if draft.whole || none_cut => Some(Part::Call(draft.into_call(mint()))),
            Building::Call(_) => None,
        });
        Assistant {
            parts: parts.collect(),
            origin: Some(Origin { provider: provider.into(), model, response: self.response }),
            stop: self.stop,
            usage: self.usage,
            end,
        }
    }
}

impl CallDraft {
    fn into_call(self, id: CallId) -> Call {
        let text = if self.arguments.trim().is_empty() { "{}" } else { self.arguments.trim() };
        // What is no JSON is kept as a JSON string: what is stored stays valid, and the tool can quote it.
        let arguments = RawJson::parse(text)
            .unwrap_or_else(|_| RawJson::of(&self.arguments).expect("a string has a JSON form"));
        Call { id, provider: self.provider, name: self.name, arguments }
    }
}
