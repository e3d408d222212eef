//! Deltas folded into what an expectation says.

use everturn_core::{
    message::{Stop, Usage},
    model::{Delta, Fault, FaultClass},
};
use serde_json::{Value, json};

#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) text: String,
    pub(crate) thinking: String,
    calls: Vec<FoldedCall>,
    pub(crate) opaque: Vec<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) stop: Option<Stop>,
    pub(crate) fault: Option<Fault>,
}

#[derive(Debug)]
struct FoldedCall {
    provider: Option<String>,
    name: String,
    arguments: String,
    ended: bool,
}

impl Folded {
    pub(crate) fn of(deltas: impl IntoIterator<Item = Result<Delta, Fault>>) -> Self {
        let mut folded = Self::default();
        for delta in deltas {
            folded.take(delta);
        }
        folded
    }

    fn take(&mut self, delta: Result<Delta, Fault>) {
        assert!(self.stop.is_none() && self.fault.is_none(), "something behind the end: {delta:?}");
        match delta {
            Ok(Delta::Started { .. }) => (),
            Ok(Delta::Text(text)) => self.text.push_str(&text),
            Ok(Delta::Thinking(text)) => self.thinking.push_str(&text),
            Ok(Delta::CallStart { call, provider, name }) => {
                assert_eq!(call as usize, self.calls.len(), "calls are numbered in the order they appear");
                self.calls.push(FoldedCall { provider, name, arguments: String::new(), ended: false });
            }
            Ok(Delta::CallArguments { call, piece }) => self.call(call).arguments.push_str(&piece),
            Ok(Delta::CallEnd { call }) => self.call(call).ended = true,
            Ok(Delta::Opaque(item)) => self.opaque.push(item.get().to_owned()),
            Ok(Delta::Usage(usage)) => self.usage = Some(usage),
            Ok(Delta::End(stop)) => self.stop = Some(stop),
            Err(fault) => self.fault = Some(fault),
        }
    }

    fn call(&mut self, call: u32) -> &mut FoldedCall {
        let call = &mut self.calls[call as usize];
        assert!(!call.ended, "something behind the end of a call");
        call
    }

    /// The whole calls, as expectations write them.
    pub(crate) fn calls(&self) -> Value {
        let whole = self.calls.iter().filter(|call| call.ended);
        whole
            .map(|call| {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                let arguments = if arguments.is_null() { json!({}) } else { arguments };
                json!({"name": call.name, "arguments": arguments, "provider_id": call.provider})
            })
            .collect()
    }

    /// The form of an `.expect.json`, but for `why`, `error_class`, and with `error` and `cut` as one;
    /// `kept` is what they say of an opaque item.
    pub(crate) fn to_expectation(&self, kept: fn(&Value) -> Option<Value>) -> Value {
        let usage = self.usage.map(|usage| {
            json!({
                "input": usage.input, "output": usage.output, "cached": usage.cached,
                "cache_written": usage.cache_written, "reasoning": usage.reasoning,
            })
        });
        let items = self.opaque.iter().map(|item| serde_json::from_str::<Value>(item).unwrap());
        let opaque = items.filter_map(|item| kept(&item));
        json!({
            "text": self.text,
            "thinking": self.thinking,
            "calls": self.calls(),
            "stop": self.stop.map_or(json!("fault"), |stop| json!(stop)),
            "usage": usage,
            "opaque": opaque.collect::<Vec<_>>(),
        })
    }

    pub(crate) fn fault_class(&self) -> Option<FaultClass> {
        self.fault.as_ref().map(|fault| fault.class)
    }
}
