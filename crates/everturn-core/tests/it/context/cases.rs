//! The cases in `fixtures/context`; its README says what each field means.

use std::{fs, path::Path};

use everturn_core::{
    clock::Timestamp,
    context::Context,
    conversation::Conversation,
    entry::{Edit, Entry, EntryRecord, Head},
    id::{ConversationId, EntryId, Seq},
    json::RawJson,
    message::{Assistant, Call, CallId, CallResult, End, Message, Outcome, Part},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::derive;

#[derive(Deserialize)]
struct Case {
    name: String,
    why: String,
    conversations: Vec<CaseConversation>,
    entries: Vec<CaseEntry>,
    view: ConversationId,
    cutoff: Option<EntryId>,
    expect: Expected,
}

#[derive(Deserialize)]
struct CaseConversation {
    id: ConversationId,
    parent: Option<CaseParent>,
}

#[derive(Deserialize)]
struct CaseParent {
    conversation: ConversationId,
    at: EntryId,
}

#[derive(Deserialize)]
struct CaseEntry {
    id: EntryId,
    conversation: ConversationId,
    kind: String,
    time: Timestamp,
    #[serde(default)]
    messages: Vec<CaseMessage>,
    data: Option<Value>,
    head: Option<EntryId>,
    #[serde(default)]
    edits: Vec<CaseEdit>,
}

#[derive(Deserialize)]
struct CaseEdit {
    target: EntryId,
    #[serde(default)]
    omit: bool,
    #[serde(default)]
    messages: Vec<CaseMessage>,
}

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum CaseMessage {
    System {
        text: String,
    },
    User {
        text: String,
    },
    Assistant {
        text: String,
        calls: Vec<CaseCall>,
        #[serde(default)]
        end: End,
    },
    Result {
        call: CallId,
        text: String,
        outcome: Outcome,
    },
}

#[derive(Deserialize)]
struct CaseCall {
    id: CallId,
    name: String,
    arguments: Value,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Expected {
    head: Option<EntryId>,
    active: Vec<EntryId>,
    messages: Vec<Value>,
}

#[test]
fn every_case_gives_the_request_it_expects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/context");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|end| end == "json") {
            let case: Case = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            count += 1;
            let context = derive(&case.visible());
            assert_eq!(found(&context), case.expect, "{}: {}", case.name, case.why);
        }
    }
    assert_eq!(count, 60, "no case is lost");
}

impl Case {
    /// What the viewed conversation sees up to the cutoff, oldest first.
    fn visible(&self) -> Vec<EntryRecord> {
        let conversations = self.conversations();
        let view = conversations.iter().find(|conversation| conversation.id == self.view).unwrap();
        let lineage = match self.cutoff {
            Some(cutoff) => view.lineage.capped(cutoff),
            None => view.lineage.clone(),
        };
        let entries = self.entries.iter().filter(|entry| lineage.sees(entry.conversation, entry.id));
        let mut entries: Vec<_> = entries.map(CaseEntry::record).collect();
        entries.sort_by_key(|entry| entry.id);
        entries
    }

    fn conversations(&self) -> Vec<Conversation> {
        let mut conversations: Vec<Conversation> = Vec::new();
        for CaseConversation { id, parent } in &self.conversations {
            conversations.push(match parent {
                None => Conversation::new(*id, None, Timestamp(0)),
                Some(CaseParent { conversation, at }) => {
                    let parent = conversations.iter().find(|parent| parent.id == *conversation);
                    parent.unwrap().fork(*id, *at, None, Timestamp(0))
                }
            });
        }
        conversations
    }
}

impl CaseEntry {
    fn record(&self) -> EntryRecord {
        let mut entry = Entry::new(&self.kind);
        if let Some(data) = &self.data {
            entry = entry.data(data).unwrap();
        }
        entry = self.messages.iter().map(CaseMessage::message).fold(entry, Entry::message);
        entry = self.edits.iter().map(CaseEdit::edit).fold(entry, Entry::edit);
        entry.head = self.head.map(|head| if head == self.id { Head::Itself } else { Head::Entry(head) });
        EntryRecord {
            id: self.id,
            conversation: self.conversation,
            seq: Seq(self.id.0),
            time: self.time,
            task: None,
            entry,
        }
    }
}

impl CaseEdit {
    fn edit(&self) -> Edit {
        if self.omit {
            Edit::omit(self.target)
        } else {
            Edit::replace(self.target, self.messages.iter().map(CaseMessage::message))
        }
    }
}

impl CaseMessage {
    fn message(&self) -> Message {
        match self {
            Self::System { text } => Message::system(text),
            Self::User { text } => Message::user(text),
            Self::Assistant { text, calls, end } => {
                let text = Some(text).filter(|text| !text.is_empty()).cloned().map(Part::Text);
                let calls = calls.iter().map(|call| Part::Call(call.call()));
                Message::Assistant(Assistant {
                    parts: text.into_iter().chain(calls).collect(),
                    end: *end,
                    ..Assistant::default()
                })
            }
            Self::Result { call, text, outcome } => {
                Message::Result(CallResult::new(call.clone(), outcome.clone(), text.clone()))
            }
        }
    }
}

impl CaseCall {
    fn call(&self) -> Call {
        Call {
            id: self.id.clone(),
            provider: None,
            name: self.name.clone(),
            arguments: RawJson::of(&self.arguments).unwrap(),
        }
    }
}

/// A context in the words of the cases.
fn found(context: &Context) -> Expected {
    Expected {
        head: context.head(),
        active: context.active().iter().map(|active| active.entry).collect(),
        messages: context.messages().iter().map(|message| told(message)).collect(),
    }
}

fn told(message: &Message) -> Value {
    match message {
        Message::System(system) => json!({"role": "system", "text": system.text}),
        Message::User(_) => json!({"role": "user", "text": message.text()}),
        Message::Assistant(assistant) => {
            let call = |call: &Call| {
                let arguments: Value = call.arguments.read().unwrap();
                json!({"id": call.id, "name": call.name, "arguments": arguments})
            };
            let calls: Vec<_> = assistant.calls().map(call).collect();
            json!({"role": "assistant", "text": assistant.text(), "calls": calls})
        }
        // The words of a made-up result are free.
        Message::Result(CallResult { call, outcome: Outcome::MissingResult, time, .. }) => {
            json!({"role": "result", "call": call, "outcome": "missing_result", "time": time})
        }
        Message::Result(result) => {
            json!({"role": "result", "call": result.call, "text": result.text, "outcome": result.outcome})
        }
    }
}
