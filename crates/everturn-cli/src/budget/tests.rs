//! Budgets as they are written.

use everturn::budget::Budget;

use super::read;

#[test]
fn a_budget_names_its_limits() {
    let read = |text: &str| read(text).expect("a budget");
    assert_eq!(
        read("steps=5,cost=0.25"),
        Budget { steps: Some(5), cost: Some(250_000_000), ..Budget::default() }
    );
    assert_eq!(read("cost=2"), Budget { cost: Some(2_000_000_000), ..Budget::default() });
    assert_eq!(
        read("wall_ms=10, depth=0"),
        Budget { wall_ms: Some(10), depth: Some(0), ..Budget::default() }
    );
}

#[test]
fn a_wrong_budget_is_told_what_is_right() {
    for (text, says) in [
        ("", "write LIMIT=N"),
        ("step=5", "they are steps"),
        ("steps=many", "no whole number"),
        ("cost=1.0000000001", "no amount"),
        ("cost=-1", "no amount"),
        ("cost=99999999999999999999", "no amount"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(says), "{text:?}: {error}");
    }
}
