//! The items of an answer that are not finished, by what servers call them.

use std::mem;

use everturn_core::model::{Delta, Fault, FaultClass};

use super::wire::OutputItem;
use crate::decoder::Out;

/// The items so far, in the order of their first appearance.
#[derive(Debug, Default)]
pub(super) struct Items(Vec<Item>);

/// What is known of an item.
#[derive(Debug, Default)]
struct Item {
    id: Option<String>,
    index: Option<u32>,
    /// The number of the call, if it is one that was begun.
    call: Option<u32>,
    /// Arguments that came, whether or not the call was begun.
    arguments: String,
}

/// How a server names an item in an event.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) id: Option<String>,
    pub(super) index: Option<u32>,
}

impl Items {
    /// The item of a name: by its id, else by its index; a new one, if there is none.
    fn find(&mut self, name: &Name) -> &mut Item {
        let at = self.0.iter().rposition(|item| item.is(name)).unwrap_or_else(|| {
            self.0.push(Item { id: name.id.clone(), index: name.index, ..Item::default() });
            self.0.len() - 1
        });
        let item = &mut self.0[at];
        item.index = item.index.or(name.index);
        if item.id.is_none() {
            item.id.clone_from(&name.id);
        }
        item
    }

    /// Begins the call that an item is, unless it has begun; gives its number, and what came of its arguments so far.
    pub(super) fn begin(&mut self, name: &Name, item: OutputItem<'_>, out: &mut Out) -> (u32, &str) {
        let Item { call, arguments, .. } = self.find(name);
        let number = *call.get_or_insert_with(|| {
            let number = out.begin_call(item.call_id, item.name);
            grow(number, arguments, out);
            number
        });
        (number, arguments)
    }

    /// Takes more of a call's arguments.
    pub(super) fn grow(&mut self, name: &Name, piece: &str, out: &mut Out) {
        let found = self.find(name);
        found.arguments.push_str(piece);
        if let Some(number) = found.call {
            grow(number, piece, out);
        }
    }

    /// Ends a call with the arguments that count. What came of them before may be short, but must not be other.
    pub(super) fn end(&mut self, name: &Name, mut item: OutputItem<'_>, out: &mut Out) {
        let arguments = match mem::take(&mut item.arguments) {
            text if matches!(text.trim(), "" | "null") => "{}".to_owned(),
            text => text,
        };
        let (number, came) = self.begin(name, item, out);
        match arguments.strip_prefix(came) {
            Some(rest) => {
                grow(number, rest, out);
                out.give(Delta::CallEnd { call: number });
            }
            None => {
                let message = "the arguments of a call are other at its end than they came before";
                // What was shown of it cannot be taken back; another attempt can.
                out.fail(Fault { retry: Some(true), ..Fault::new(FaultClass::Malformed, message) });
            }
        }
    }
}

impl Item {
    fn is(&self, name: &Name) -> bool {
        match (&self.id, &name.id) {
            (Some(own), Some(named)) => own == named,
            _ => self.index == name.index,
        }
    }
}

fn grow(number: u32, piece: &str, out: &mut Out) {
    if !piece.is_empty() {
        out.give(Delta::CallArguments { call: number, piece: piece.to_owned() });
    }
}
