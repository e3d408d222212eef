//! The checker: what it refuses, and that going on from where it stood refuses the same.

use std::sync::Arc;

use everturn_core::{
    clock::Timestamp,
    context::{Context, check},
    entry::{Edit, Entry, EntryRecord},
    id::{ConversationId, EntryId, Seq},
    json::RawJson,
    message::{Assistant, Call, CallId, CallResult, End, Message, Outcome, Part},
};

fn calling(ids: &[&str]) -> Message {
    let call = |id: &&str| {
        Part::Call(Call {
            id: CallId((*id).into()),
            provider: None,
            name: "weigh".into(),
            arguments: RawJson::empty(),
        })
    };
    Message::Assistant(Assistant { parts: ids.iter().map(call).collect(), ..Assistant::default() })
}

fn result(id: &str) -> Message {
    Message::Result(CallResult::new(CallId(id.into()), Outcome::Ok, "180"))
}

fn cut() -> Message {
    Message::Assistant(Assistant { end: End::Aborted, ..Assistant::default() })
}

fn record(id: u64, entry: Entry) -> EntryRecord {
    EntryRecord {
        id: EntryId(id),
        conversation: ConversationId::ROOT,
        seq: Seq(id),
        time: Timestamp(0),
        task: None,
        entry,
    }
}

#[test]
fn a_breach_names_the_message_and_what_is_wrong_with_it() {
    for (messages, breach) in [
        (vec![Message::user("a"), calling(&["c1"]), result("c1")], None),
        (vec![calling(&["c1", "c2"]), result("c1"), result("c2"), Message::system("a")], None),
        (vec![calling(&["c1"])], Some("message 0 is the last, and call c1 has no result")),
        (
            vec![calling(&["c1"]), Message::user("a"), result("c1")],
            Some("message 1 comes where the result of call c1 must be"),
        ),
        (
            vec![calling(&["c1", "c2"]), result("c2"), result("c1")],
            Some("message 1 is the result of call c2, out of call order"),
        ),
        (
            vec![calling(&["c1"]), result("c1"), result("c1")],
            Some("message 2 is a result of call c1, which nothing before it made"),
        ),
        (
            vec![calling(&["c1"]), result("c1"), calling(&["c1"]), result("c1")],
            Some("message 2 repeats the call id c1"),
        ),
        (vec![calling(&["c1", "c1"])], Some("message 0 repeats the call id c1")),
        (vec![Message::user("a"), cut()], Some("message 1 is an assistant message that did not end well")),
    ] {
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        let found = check(&messages).err().map(|breach| breach.to_string());
        assert_eq!(found.as_deref(), breach, "{messages:?}");
    }
}

// A system message that moves to the front shifts what was proven, and the proof went on in the middle of a pair.
// Guards that what counts as settled really stays where it is.
#[test]
fn a_system_message_that_moves_to_the_front_breaks_no_proof() {
    let mut context = Context::default();
    let messages = [calling(&["c1"]), result("c1"), Message::assistant("180"), Message::system("Be brief.")];
    for (id, message) in (2..).zip(messages) {
        assert!(context.push(&record(id, Entry::new("app.any").message(message))));
        assert_eq!(context.check(), Ok(()), "after entry {id}");
    }
    assert_eq!(context.messages()[0].text(), "Be brief.");
}

// A proof that failed counted its messages as proven, and the next one found nothing.
// Guards that a breach stays one until the context is derived anew.
#[test]
fn a_breach_stays_one_whatever_is_pushed_behind_it() {
    let mut entries = vec![
        record(2, Entry::new("et.user").message(Message::user("a"))),
        record(3, Entry::new("et.assistant").message(calling(&["c1"])).message(result("c1"))),
        record(4, Entry::new("app.copy").message(calling(&["c1"])).message(result("c1"))),
        record(5, Entry::new("et.assistant").message(Message::assistant("180"))),
    ];
    let mut context = Context::derive(&entries);
    let breach = context.check().unwrap_err();
    assert_eq!((breach.index, breach.entry), (3, Some(EntryId(4))));

    let answer = record(6, Entry::new("et.assistant").message(Message::assistant("181")));
    assert!(context.push(&answer));
    assert_eq!(context.check(), Err(breach));

    entries.extend([answer, record(7, Entry::new("app.edit").edit(Edit::omit(EntryId(4))))]);
    assert_eq!(Context::derive(&entries).check(), Ok(()));
}
