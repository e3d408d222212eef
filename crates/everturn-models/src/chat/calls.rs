//! The calls of an answer, put together from their pieces.

use everturn_core::model::Delta;
use serde::de::IgnoredAny;

use super::wire;
use crate::decoder::Out;

/// The calls so far, in the order of their first appearance.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    /// The server's number of it, which several calls may share.
    index: Option<u32>,
    id: Option<String>,
    /// Absent until the server says it; the start is held back so long.
    name: Option<String>,
    arguments: String,
}

impl Calls {
    /// Takes a piece and gives what can be given of its call.
    pub(super) fn take(&mut self, piece: wire::CallPiece<'_>, out: &mut Out) {
        let function = piece.function.unwrap_or_default();
        let id = piece.id.filter(|id| !id.is_empty());
        let name = function.name.filter(|name| !name.is_empty());
        let arguments = function.arguments.map(|raw| text_of(raw.get())).unwrap_or_default();
        let at = match self.find(piece.index) {
            Some(at) if !self.0[at].is_left_by(id.as_deref(), name.is_some(), &arguments) => at,
            _ => {
                self.0.push(Call { index: piece.index, ..Call::default() });
                self.0.len() - 1
            }
        };
        self.0[at].take(number(at), id, name, &arguments, out);
    }

    /// The call that a piece goes on with: the last one of its index; without an index the last one of all.
    fn find(&self, index: Option<u32>) -> Option<usize> {
        self.0.iter().rposition(|call| index.is_none() || call.index == index)
    }

    /// Ends the calls that are whole. The others never end.
    pub(super) fn end(&self, out: &mut Out) {
        for (at, call) in self.0.iter().enumerate().filter(|(_, call)| call.name.is_some()) {
            let call_number = number(at);
            if call.arguments.trim().is_empty() {
                out.give(Delta::CallArguments { call: call_number, piece: "{}".into() });
            } else if !call.is_whole() {
                continue;
            }
            out.give(Delta::CallEnd { call: call_number });
        }
    }

    /// Whether a call began whose tool was never named.
    pub(super) fn any_nameless(&self) -> bool {
        self.0.iter().any(|call| call.name.is_none())
    }

    /// Whether any call began.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }
}

impl Call {
    /// Whether a piece at this call's index begins another call: it has a new id, or it names a tool although these
    /// arguments are whole. (Gateways send all calls with index 0; some send the same id with every piece, some none.)
    fn is_left_by(&self, id: Option<&str>, named: bool, arguments: &str) -> bool {
        match (self.id.as_deref(), id) {
            (Some(old), Some(new)) => old != new,
            // The last character spares reading all arguments again for every piece.
            _ => named && !arguments.is_empty() && self.arguments.ends_with('}') && self.is_whole(),
        }
    }

    fn is_whole(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }

    fn take(&mut self, number: u32, id: Option<String>, name: Option<String>, piece: &str, out: &mut Out) {
        self.id = self.id.take().or(id);
        let held_back = self.name.is_none();
        self.name = self.name.take().or(name);
        self.arguments.push_str(piece);
        let Some(name) = &self.name else { return };
        let mut piece = piece;
        if held_back {
            out.give(Delta::CallStart { call: number, provider: self.id.clone(), name: name.clone() });
            piece = &self.arguments;
        }
        if !piece.is_empty() {
            out.give(Delta::CallArguments { call: number, piece: piece.into() });
        }
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("the cap on the body leaves no room for so many calls")
}

/// Arguments come as a string that holds JSON, or as the JSON itself.
fn text_of(raw: &str) -> String {
    serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned())
}
