//! Random transcripts: forks, heads, edits, calls, and results that come late, early, twice or never.

use std::sync::Arc;

use everturn_core::{
    clock::Timestamp,
    conversation::Conversation,
    entry::{Edit, Entry, EntryRecord, Head},
    id::{ConversationId, EntryId, Seq},
    json::RawJson,
    message::{Assistant, Call, CallId, CallResult, End, Message, Outcome, Part},
};
use proptest::{collection::vec, prelude::*, sample::select};

use super::derive;

/// A message to be, before calls have ids.
#[derive(Clone, Debug)]
enum Draft {
    System,
    User,
    Assistant { calls: usize, end: End },
    Result { of: usize },
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<Draft>),
    Head { to: Option<usize>, messages: Vec<Draft> },
    Edit(Vec<(usize, Option<Vec<Draft>>)>),
    Fork { at: usize },
}

fn draft() -> impl Strategy<Value = Draft> {
    let end = prop_oneof![
        6 => Just(End::Complete),
        1 => select(vec![End::Aborted, End::Error, End::Deferred]),
    ];
    prop_oneof![
        2 => Just(Draft::System),
        2 => Just(Draft::User),
        3 => (0..4usize, end).prop_map(|(calls, end)| Draft::Assistant { calls, end }),
        5 => (0..6usize).prop_map(|of| Draft::Result { of }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let edit = (any::<usize>(), proptest::option::of(vec(draft(), 0..3)));
    prop_oneof![
        12 => vec(draft(), 0..4).prop_map(Step::Append),
        1 => (proptest::option::of(any::<usize>()), vec(draft(), 0..3))
            .prop_map(|(to, messages)| Step::Head { to, messages }),
        2 => vec(edit, 1..3).prop_map(Step::Edit),
        1 => any::<usize>().prop_map(|at| Step::Fork { at }),
    ]
}

/// A session's conversations and entries.
struct Transcript {
    conversations: Vec<Conversation>,
    entries: Vec<EntryRecord>,
    /// The id that was given last; ids come from one number space.
    last: u64,
    calls: Vec<CallId>,
}

impl Transcript {
    fn of(steps: Vec<(usize, Step)>) -> Self {
        let root = Conversation::new(ConversationId::ROOT, None, Timestamp(0));
        let mut transcript =
            Self { conversations: vec![root], entries: Vec::new(), last: 1, calls: Vec::new() };
        for (conversation, step) in steps {
            let conversation =
                transcript.conversations[conversation % transcript.conversations.len()].clone();
            transcript.take(&conversation, step);
        }
        transcript
    }

    fn mint(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// What a conversation sees, oldest first.
    fn visible(&self, conversation: &Conversation) -> Vec<EntryRecord> {
        let sees = |entry: &&EntryRecord| conversation.lineage.sees(entry.conversation, entry.id);
        self.entries.iter().filter(sees).cloned().collect()
    }

    fn take(&mut self, conversation: &Conversation, step: Step) {
        let visible: Vec<_> = self.visible(conversation).iter().map(|entry| entry.id).collect();
        let pick = |choice: usize| visible.get(choice % visible.len().max(1)).copied();
        let entry = match step {
            Step::Append(drafts) => self.entry(drafts),
            Step::Head { to, messages } => {
                let head = to.and_then(pick).map_or(Head::Itself, Head::Entry);
                self.entry(messages).head(head)
            }
            Step::Edit(edits) => {
                let mut entry = Entry::new("app.edit");
                for (target, drafts) in edits {
                    let Some(target) = pick(target) else { return };
                    let messages = drafts.map(|drafts| self.entry(drafts).messages);
                    entry = entry.edit(Edit { target, messages });
                }
                entry
            }
            Step::Fork { at } => {
                if let Some(at) = pick(at) {
                    let id = ConversationId(self.mint());
                    self.conversations.push(conversation.fork(id, at, None, Timestamp(0)));
                }
                return;
            }
        };
        let id = self.mint();
        self.entries.push(EntryRecord {
            id: EntryId(id),
            conversation: conversation.id,
            seq: Seq(id),
            time: Timestamp(i64::try_from(id).unwrap()),
            task: None,
            entry,
        });
    }

    fn entry(&mut self, drafts: Vec<Draft>) -> Entry {
        drafts.into_iter().map(|draft| self.message(&draft)).fold(Entry::new("app.any"), Entry::message)
    }

    fn message(&mut self, draft: &Draft) -> Message {
        let text = format!("text {}", self.mint());
        match *draft {
            Draft::System => Message::system(text),
            Draft::User => Message::user(text),
            Draft::Assistant { calls, end } => {
                let calls = (0..calls).map(|_| self.call());
                let parts = [Part::Text(text)].into_iter().chain(calls).collect();
                Message::Assistant(Assistant { parts, end, ..Assistant::default() })
            }
            Draft::Result { of } => {
                // Mostly of a call that was made not long ago; now and then of one that is not made yet.
                let call = self.calls.iter().rev().nth(of).cloned();
                let call = call.unwrap_or_else(|| CallId(format!("c{}", self.last + 2)));
                Message::Result(CallResult::new(call, Outcome::Ok, text))
            }
        }
    }

    fn call(&mut self) -> Part {
        let id = CallId(format!("c{}", self.mint()));
        self.calls.push(id.clone());
        Part::Call(Call { id, provider: None, name: "weigh".into(), arguments: RawJson::empty() })
    }
}

/// Rules 6 to 9 over whole lists, as they are written.
fn by_the_rules(contributions: &[(Arc<Message>, Timestamp)]) -> Vec<Message> {
    let kept: Vec<_> = contributions
        .iter()
        .filter(|(message, _)| {
            !matches!(&**message, Message::Assistant(assistant) if assistant.end != End::Complete)
        })
        .collect();
    let mut messages = Vec::new();
    for (index, (message, time)) in kept.iter().enumerate() {
        match &**message {
            Message::Result(_) => {}
            Message::System(_) | Message::User(_) => messages.push((**message).clone()),
            Message::Assistant(assistant) => {
                messages.push((**message).clone());
                let following = kept[index + 1..].iter().map(|(message, _)| &**message);
                let until_next = following.take_while(|message| !matches!(message, Message::Assistant(_)));
                let results: Vec<_> = until_next.collect();
                messages.extend(assistant.calls().map(|call| result_of(call, &results, *time)));
            }
        }
    }
    systems_first(messages)
}

fn result_of(call: &Call, results: &[&Message], time: Timestamp) -> Message {
    let is_its = |message: &&&Message| matches!(message, Message::Result(result) if result.call == call.id);
    results.iter().find(is_its).map_or_else(
        || {
            Message::Result(CallResult {
                time: Some(time),
                ..CallResult::new(call.id.clone(), Outcome::MissingResult, String::new())
            })
        },
        |message| (**message).clone(),
    )
}

fn systems_first(mut messages: Vec<Message>) -> Vec<Message> {
    let is_system = |message: &Message| matches!(message, Message::System(_));
    let is_user = |message: &Message| matches!(message, Message::User(_));
    let first_user = messages.iter().position(is_user).unwrap_or(messages.len());
    // A stable sort: those that are already in front stay in front of those that move there.
    messages[..first_user].sort_by_key(|message| !is_system(message));
    messages
}

/// The same without the words of made-up results, which are free.
fn without_free_text(message: &Message) -> Message {
    match message {
        Message::Result(result) if result.outcome == Outcome::MissingResult => {
            Message::Result(CallResult { text: String::new(), ..result.clone() })
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn any_transcript_gives_a_legal_request_that_pushing_also_gives(
        steps in vec((any::<usize>(), step()), 0..28),
    ) {
        let transcript = Transcript::of(steps);
        for conversation in &transcript.conversations {
            let visible = transcript.visible(conversation);
            let context = derive(&visible);

            let time = |id| visible.iter().find(|entry| entry.id == id).unwrap().time;
            let contributions: Vec<_> = context
                .active()
                .iter()
                .flat_map(|active| active.messages.iter().map(move |message| (message.clone(), time(active.entry))))
                .collect();
            let found: Vec<_> = context.messages().iter().map(|message| without_free_text(message)).collect();
            prop_assert_eq!(found, by_the_rules(&contributions));
        }
    }
}
