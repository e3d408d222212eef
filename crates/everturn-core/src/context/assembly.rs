//! Contributions, message by message, into a legal order.

use std::sync::Arc;

use crate::{
    clock::Timestamp,
    message::{Call, CallId, CallResult, End, Message, Outcome},
};

/// Builds the messages of a request.
///
/// Shape: the messages are groups. A group is an assistant message, its results in call order, and what arrived
/// before the next assistant message; what comes before the first assistant message is a group without one. Only the
/// last group can still change, so a push rewrites that group and nothing before it; but until the first user message,
/// system messages move to the very front and shift all groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembly {
    messages: Arc<Vec<Arc<Message>>>,
    group: Group,
    /// Where the last group begins in `messages`.
    begin: usize,
    /// How many system messages stand at the very front.
    front: usize,
    user_seen: bool,
    /// Whether an epoch says what stands at the front.
    is_fixed: bool,
}

#[derive(Clone, Debug, Default)]
struct Group {
    assistant: Option<(Arc<Message>, Timestamp)>,
    results: Vec<Arc<Message>>,
    others: Vec<Arc<Message>>,
}

impl Assembly {
    pub(super) fn messages(&self) -> &Arc<Vec<Arc<Message>>> {
        &self.messages
    }

    /// How many messages no later push can change.
    pub(super) fn settled(&self) -> usize {
        // Before the first user message, a system message may still move in front of everything.
        if self.user_seen { self.begin } else { 0 }
    }

    /// Puts what an epoch tells at the very front, before anything else is taken.
    pub(super) fn fix(&mut self, told: &[Arc<Message>]) {
        self.messages = Arc::new(told.to_vec());
        (self.front, self.begin, self.is_fixed) = (told.len(), told.len(), true);
    }

    /// Takes the next contribution, and says whether it has a place in the request.
    pub(super) fn push(&mut self, message: &Arc<Message>, time: Timestamp) -> bool {
        match &**message {
            Message::Assistant(assistant) if assistant.end != End::Complete => return false,
            Message::Assistant(_) => self.begin_group(message, time),
            Message::Result(_) => {
                self.group.results.push(message.clone());
                self.write_group();
            }
            Message::User(_) => {
                self.user_seen = true;
                self.push_other(message);
            }
            Message::System(_) if self.moves_to_front() => {
                Arc::make_mut(&mut self.messages).insert(self.front, message.clone());
                self.front += 1;
                self.begin += 1;
            }
            Message::System(_) => self.push_other(message),
        }
        true
    }

    /// Rule 9: behind an assistant message or a result, and before any user message.
    fn moves_to_front(&self) -> bool {
        !self.is_fixed && !self.user_seen && self.group.assistant.is_some()
    }

    fn begin_group(&mut self, message: &Arc<Message>, time: Timestamp) {
        if self.begin == 0 && self.group.assistant.is_none() {
            let is_system = |message: &&Arc<Message>| matches!(***message, Message::System(_));
            self.front = self.messages.iter().take_while(is_system).count();
        }
        self.begin = self.messages.len();
        self.group = Group { assistant: Some((message.clone(), time)), ..Group::default() };
        self.write_group();
    }

    fn push_other(&mut self, message: &Arc<Message>) {
        self.group.others.push(message.clone());
        Arc::make_mut(&mut self.messages).push(message.clone());
    }

    fn write_group(&mut self) {
        let messages = Arc::make_mut(&mut self.messages);
        messages.truncate(self.begin);
        // Without an assistant message there are no calls, and results without a call are dropped.
        if let Some((message, time)) = &self.group.assistant
            && let Message::Assistant(assistant) = &**message
        {
            messages.push(message.clone());
            messages.extend(assistant.calls().map(|call| self.group.result_of(call, *time)));
        }
        messages.extend(self.group.others.iter().cloned());
    }
}

impl Group {
    fn result_of(&self, call: &Call, time: Timestamp) -> Arc<Message> {
        let is_its = |message: &&Arc<Message>| call_of(message) == Some(&call.id);
        self.results.iter().find(is_its).cloned().unwrap_or_else(|| Arc::new(missing(call, time)))
    }
}

fn call_of(message: &Message) -> Option<&CallId> {
    if let Message::Result(result) = message { Some(&result.call) } else { None }
}

fn missing(call: &Call, time: Timestamp) -> Message {
    let text = format!("No result of {} was stored. It may or may not have run.", call.name);
    let result = CallResult::new(call.id.clone(), Outcome::MissingResult, text);
    Message::Result(CallResult { time: Some(time), ..result })
}
