//! The event stream decoder against its grammar.

use everturn_models::sse::{Decoder, Event, Limits, TooBig};
use proptest::prelude::*;

type Events = Vec<Event<'static>>;

/// All events of a body in pieces, and how it ended.
fn decode<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Events, Result<(), TooBig>) {
    let mut decoder = Decoder::new(limits);
    let mut events = Vec::new();
    let mut keep = |event: Event<'_>| {
        events.push(Event {
            name: event.name.into_owned().into(),
            id: event.id.into_owned().into(),
            data: event.data.into_owned().into(),
            ..event
        });
    };
    for piece in pieces {
        if let Err(error) = decoder.push(piece, &mut keep) {
            return (events, Err(error));
        }
    }
    let end = decoder.finish(&mut keep);
    (events, end)
}

fn event(data: &'static str) -> Event<'static> {
    Event { name: "".into(), id: "".into(), data: data.into(), retry_ms: None, whole: true }
}

#[track_caller]
fn check(body: &str, expected: &[Event<'static>]) {
    let (events, end) = decode(Limits::default(), [body.as_bytes()]);
    assert_eq!((events.as_slice(), end), (expected, Ok(())), "{body:?}");
}

#[test]
fn the_grammar_is_followed() {
    check("", &[]);
    check("data: a\n\n", &[event("a")]);
    check("data:a\r\rdata:  b\r\n\r\n", &[event("a"), event(" b")]);
    check("\u{FEFF}data: a\n\n", &[event("a")]);
    check("\u{FEFF}\u{FEFF}data: a\n\n", &[]);
    check("data: a\ndata\ndata: b\n\n", &[event("a\n\nb")]);
    check("data\n\n", &[event("")]);
    check(": comment\n\nevent: lost\n\ndata: a\n\n", &[event("a")]);
    check("DATA: a\ndatum: b\ndata : c\n\n", &[]);
    check("data: a: b\n\n", &[event("a: b")]);
    check("event: ping\ndata: a\n\ndata: b\n\n", &[Event { name: "ping".into(), ..event("a") }, event("b")]);
    check("data: a", &[Event { whole: false, ..event("a") }]);
    check("data: a\r\n", &[Event { whole: false, ..event("a") }]);
    let kept = |data| Event { id: "7".into(), retry_ms: Some(30), ..event(data) };
    check("id: 7\nretry: 30\ndata: a\n\nid: x\0\nretry: 4s\ndata: b\n\n", &[kept("a"), kept("b")]);
}

#[test]
fn invalid_bytes_become_replacement_characters() {
    let (events, _) = decode(Limits::default(), [b"data: a\xFFb\n\n".as_slice()]);
    assert_eq!(events, [event("a\u{FFFD}b")]);
}

#[test]
fn what_is_over_a_limit_ends_the_stream_and_what_came_before_counts() {
    let limits = Limits { line: 10, event: 12, body: 60 };
    let end = |body: &str| {
        let (events, end) = decode(limits, [body.as_bytes()]);
        (events.len(), end.map_err(|error| (error.what, error.limit)))
    };
    assert_eq!(end("data: 1234\n\n"), (1, Ok(())));
    assert_eq!(end("data: 1\n\ndata: 12345\n\n"), (1, Err(("line", 10))));
    assert_eq!(end("data: 1\n\n: a comment that is long\n"), (1, Err(("line", 10))));
    assert_eq!(end(&"data: 1234\n".repeat(3)), (0, Err(("event", 12))));
    assert_eq!(end(&"data: 1\n\n".repeat(7)), (6, Err(("body", 60))));
}

/// Bodies of all that the grammar has, in any order.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        3 => Just(b"data".to_vec()),
        3 => Just(b"\n".to_vec()),
        2 => Just(b"\r".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        2 => Just(b":".to_vec()),
        1 => Just(b" ".to_vec()),
        1 => Just(b"id".to_vec()),
        1 => Just(b"event".to_vec()),
        1 => Just(b"retry:12".to_vec()),
        1 => Just(b"\xEF\xBB\xBF".to_vec()),
        1 => Just("蛙👩‍🔬".as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cuts_change_nothing(body in bodies(), sizes in prop::collection::vec(1usize..20, 1..20), small in any::<bool>()) {
        let limits = if small { Limits { line: 12, event: 16, body: 90 } } else { Limits::default() };
        let mut rest = body.as_slice();
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            let (piece, more) = rest.split_at(rest.len().min(*size));
            pieces.push(piece);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(decode(limits, pieces), decode(limits, [body.as_slice()]));
    }
}
