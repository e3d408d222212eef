//! What the model says: it looks at what it was asked, and at what came after. Its provider is part of the world outside: it
//! remembers what it was sent, and is busy for a while once.

use std::{sync::Arc, time::Duration};

use everturn::{
    clock::Clock,
    context,
    message::Message,
    model::{DeltaStream, Fault, FaultClass, Model, Request},
};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::tasks::{Ledger, Line};

/// What is asked of it.
const QUESTIONS: [&str; 9] =
    ["first", "second", "third", "fourth", "fifth", "sixth", "help", "research", "<report"];

/// A provider that is asked by a session's lives.
pub(super) struct Provider {
    pub(super) ledger: Arc<Ledger>,
    pub(super) clock: Arc<dyn Clock>,
    /// How long it is busy when it is asked the second question.
    pub(super) busy: Duration,
}

impl Model for Provider {
    fn stream(&self, request: Request) -> DeltaStream {
        let breach = context::check(&request.messages).err().map(|breach| breach.to_string());
        self.ledger.write(Line::Sent(breach));
        let reply = self.wait(&request).map_or_else(|| reply(&request), |fault| Reply::pieces([Err(fault)]));
        Scripted::new([reply]).stream(request)
    }
}

impl Provider {
    /// Why it does not answer now.
    fn wait(&self, request: &Request) -> Option<Fault> {
        if asked(request).0 != "second" {
            return None;
        }
        let busy = self.ledger.lines().into_iter().find_map(|line| match line {
            Line::Busy(until) => Some(until),
            _ => None,
        });
        let until = busy.unwrap_or_else(|| {
            let until = self.clock.now() + self.busy;
            self.ledger.write(Line::Busy(until));
            until
        });
        let left = until.since(self.clock.now());
        (!left.is_zero()).then(|| Fault {
            wait_ms: Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            ..Fault::new(FaultClass::Overloaded, "busy")
        })
    }
}

/// The newest question, and how many results came since.
fn asked(request: &Request) -> (&'static str, usize) {
    let mut results = 0;
    for message in request.messages.iter().rev() {
        match &**message {
            Message::Result(_) => results += 1,
            Message::User(_) => {
                let text = message.text();
                let known = QUESTIONS.into_iter().find(|question| text.starts_with(question));
                if let Some(question) = known {
                    return (question, results);
                }
            }
            _ => {}
        }
    }
    ("", results)
}

fn reply(request: &Request) -> Reply {
    let texts = request.texts();
    if texts.last().is_some_and(|text| text.contains("<conversation>")) {
        return Reply::text("They spoke.").usage(9, 3);
    }
    match asked(request) {
        ("first", 0) => {
            Reply::calls([("look", "{}"), ("pay", "{}"), ("note", "{}"), ("sign", "{}"), ("burn", "{}")])
                .after_text("I look, pay, note, sign and burn. ")
                .usage(10, 5)
        }
        ("first", _) => {
            let how = if texts.iter().any(|text| text == "gently") { "gently" } else { "roughly" };
            Reply::words(&format!("all of the first is done {how} now")).usage(20, 5)
        }
        ("second", _) => Reply::words("the second answer had to wait").usage(30, 5),
        ("third", 0) => Reply::calls([("note", "{}")]).usage(40, 5),
        ("third", _) => Reply::words("the third is noted in a fork").usage(40, 5),
        ("fourth", 0) => Reply::calls([("delegate", "{}"), ("hire", "{}"), ("look", "{}")]).usage(40, 5),
        ("fourth", _) => Reply::words("the fourth was helped").usage(40, 5),
        ("help", 0) => Reply::calls([("note", "{}"), ("pay", "{}")]).usage(2, 2),
        ("help", _) => Reply::words("here is help").usage(2, 2),
        ("research", 0) => Reply::calls([("look", "{}")]).usage(2, 2),
        ("research", _) => Reply::words("here is research").usage(2, 2),
        ("<report", _) => Reply::words("thanks for the report").usage(50, 2),
        ("fifth", 0) => Reply::calls([("save", r#"{"a":"a two","b":"b two"}"#)]).usage(50, 2),
        ("fifth", 1) => Reply::calls([("save", r#"{"a":"a three","gone":null}"#)]).usage(50, 2),
        ("fifth", _) => Reply::words("the fifth is saved").usage(50, 2),
        ("sixth", 0) => Reply::calls([("look", "{}")]).usage(60, 2),
        ("sixth", _) => Reply::words("the sixth is an end").usage(60, 2),
        _ => Reply::fault(FaultClass::Bug, "nobody asked"),
    }
}
