//! Compaction: where a transcript is cut, what is summarised, and what it weighs.

mod plans;
mod random;
mod requests;

use std::sync::Arc;

use everturn_core::{
    clock::Timestamp,
    compaction::{Plan, Transcript, Trigger, Wanted},
    context::Context,
    entry::{Entry, EntryRecord, kind},
    id::{ConversationId, EntryId, Seq, TaskId},
    json::RawJson,
    message::{Assistant, Call, CallId, CallResult, End, Message, Outcome, Part, Usage},
    prompt::{Prompt, Section, Speaks, Standing},
};

/// A transcript that grows.
#[derive(Clone, Default)]
struct Log {
    entries: Vec<EntryRecord>,
    last: u64,
}

impl Log {
    fn mint(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn push(&mut self, task: Option<TaskId>, entry: Entry) -> EntryId {
        let id = EntryId(self.mint());
        self.entries.push(EntryRecord {
            id,
            conversation: ConversationId::ROOT,
            seq: Seq(id.0),
            time: Timestamp(0),
            task,
            entry,
        });
        id
    }

    fn say(&mut self, turn: impl Into<Option<TaskId>>, kind: &str, message: Message) -> EntryId {
        self.push(turn.into(), Entry::new(kind).message(message))
    }

    fn user(&mut self, turn: impl Into<Option<TaskId>>, text: &str) -> EntryId {
        self.say(turn, kind::USER, Message::user(text))
    }

    fn answer(&mut self, turn: impl Into<Option<TaskId>>, text: &str) -> EntryId {
        self.say(turn, kind::ASSISTANT, Message::assistant(text))
    }

    /// An answer with calls, whose ids it gives.
    fn calling(&mut self, turn: impl Into<Option<TaskId>>, text: &str, count: usize) -> Vec<CallId> {
        let ids: Vec<_> = (0..count).map(|_| CallId(format!("c{}", self.mint()))).collect();
        self.say(turn, kind::ASSISTANT, calling(text, &ids));
        ids
    }

    fn result(&mut self, turn: impl Into<Option<TaskId>>, call: &CallId, text: &str) -> EntryId {
        let result = CallResult::new(call.clone(), Outcome::Ok, text);
        self.say(turn, kind::RESULT, Message::Result(result))
    }

    /// A turn of one question and one answer; gives its first entry.
    fn turn(&mut self, question: &str, answer: &str) -> EntryId {
        let turn = TaskId(self.mint());
        let first = self.user(turn, question);
        self.answer(turn, answer);
        self.push(Some(turn), Entry::new(kind::TURN));
        first
    }

    /// Tells a model what it should know, as is done before each request.
    fn tell(&mut self, prompt: &Prompt) -> Option<EntryId> {
        let mut standing = Standing::default();
        let context = self.context();
        standing.clone_from(context.standing());
        let told = standing.tell(prompt, Speaks { family: "demo", takes_changes: true });
        told.into_entry().unwrap().map(|entry| self.push(None, entry))
    }

    fn transcript(&self) -> Transcript<'_> {
        Transcript { entries: &self.entries }
    }

    fn context(&self) -> Context {
        let mut context = Context::derive(&self.entries);
        assert_eq!(context.check(), Ok(()));
        context
    }

    fn take(&mut self, plan: &Plan, summary: Option<&str>) -> EntryId {
        let entry = plan.entry(summary, Trigger::Asked).expect("an entry");
        self.push(None, entry)
    }
}

fn calling(text: &str, ids: &[CallId]) -> Message {
    let call = |id: &CallId| {
        let arguments = RawJson::parse(r#"{"what":"pear"}"#).unwrap();
        Part::Call(Call { id: id.clone(), provider: None, name: "weigh".into(), arguments })
    };
    let parts = [Part::Text(text.into())].into_iter().chain(ids.iter().map(call)).collect();
    Message::Assistant(Assistant { parts, ..Assistant::default() })
}

fn reported(text: &str, input: u64, output: u64) -> Message {
    let usage = Usage { input: Some(input), output: Some(output), ..Usage::default() };
    let parts = vec![Part::Text(text.into())];
    Message::Assistant(Assistant { parts, usage: Some(usage), ..Assistant::default() })
}

fn cut(text: &str) -> Message {
    let parts = vec![Part::Text(text.into())];
    Message::Assistant(Assistant { parts, end: End::Aborted, ..Assistant::default() })
}

fn prompt(text: &str) -> Prompt {
    Prompt { sections: vec![Section::tagged("rules", text)], ..Prompt::default() }
}

fn recent(keep_recent: u64) -> Wanted {
    Wanted { keep_recent, room: None }
}

/// A text of so many tokens, with the few that a message has beside.
fn long(tokens: usize) -> String {
    "word".repeat(tokens - 4)
}

fn is_in(message: &Message, messages: &[Arc<Message>]) -> bool {
    messages.iter().any(|other| **other == *message)
}
