use std::time::Duration;

use super::{Rule, expired};
use crate::{
    clock::Timestamp,
    id::{Epoch, OwnerId, Seq, SessionId},
    storage::{NewSession, SessionRow},
};

const NOW: Timestamp = Timestamp(1_000_000);

fn id(n: u8) -> SessionId {
    format!("0198c0de-0000-7000-8000-0000000000{n:02x}").parse().expect("the text is an id")
}

/// A session that rests for so many seconds and weighs so many bytes.
fn row(n: u8, rests: i64, bytes: u64, team: &str) -> SessionRow {
    let labels = [("team".to_owned(), team.to_owned())].into();
    SessionRow {
        id: id(n),
        new: NewSession { labels, ..NewSession::default() },
        created: Timestamp(0),
        used: Timestamp(NOW.0 - rests * 1_000),
        head: Seq(1),
        epoch: Epoch(1),
        minted: 1,
        bytes,
        owner: None,
    }
}

fn check(why: &str, rules: &[Rule], expected: &[u8]) {
    let rows = [
        row(1, 500, 10, "north"),
        row(2, 100, 20, "south"),
        row(3, 300, 30, "north"),
        row(4, 5, 40, "north"),
    ];
    let expected: Vec<_> = expected.iter().map(|n| id(*n)).collect();
    assert_eq!(expired(rules, &rows, NOW), expected, "{why}");
}

#[test]
fn rules_let_go_by_age_count_and_size_and_by_label() {
    let idle = |seconds| Rule { idle_max: Some(Duration::from_secs(seconds)), ..Rule::default() };
    let north = [("team".to_owned(), "north".to_owned())];
    check("no rule", &[], &[]);
    check("a rule that limits nothing", &[Rule::default()], &[]);
    check("age", &[idle(200)], &[1, 3]);
    check("count", &[Rule { count_max: Some(1), ..Rule::default() }], &[1, 3, 2]);
    check("size, from the newest on", &[Rule { bytes_max: Some(65), ..Rule::default() }], &[1, 3]);
    check("of a label", &[Rule { labels: north.into(), count_max: Some(1), ..Rule::default() }], &[1, 3]);
    check("any of several", &[idle(400), Rule { bytes_max: Some(90), ..Rule::default() }], &[1]);
}

#[test]
fn an_owned_session_stays() {
    let owner: OwnerId = "0198c0de-0000-7000-8000-0000000000aa".parse().expect("the text is an id");
    let rule = Rule { count_max: Some(0), ..Rule::default() };
    let owned = |until| SessionRow { owner: Some((owner, Timestamp(until))), ..row(1, 500, 1, "north") };
    assert_eq!(expired(std::slice::from_ref(&rule), &[owned(NOW.0 + 1)], NOW), []);
    assert_eq!(expired(&[rule], &[owned(NOW.0)], NOW), [id(1)]);
}
