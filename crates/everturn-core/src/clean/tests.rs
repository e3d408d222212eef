use super::{Cleaner, line};

const CASES: &str = include_str!("../../tests/fixtures/terminal/escapes.jsonl");

/// The pieces, each cleaned as it comes.
fn clean<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
    let mut cleaner = Cleaner::default();
    let mut clean: String = pieces.into_iter().map(|piece| cleaner.push(piece)).collect();
    clean += &cleaner.finish();
    clean
}

fn letters(text: &str) -> impl Iterator<Item = &str> {
    text.split("").filter(|letter| !letter.is_empty())
}

fn cases() -> impl Iterator<Item = [String; 3]> {
    CASES.lines().map(|row| {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        ["id", "text", "expect"].map(|field| row[field].as_str().unwrap().to_owned())
    })
}

#[test]
fn every_case_is_cleaned_as_it_says() {
    for [id, text, expect] in cases() {
        assert_eq!(clean([text.as_str()]), expect, "{id}");
    }
}

#[test]
fn text_in_pieces_of_one_character_is_cleaned_the_same() {
    for [id, text, expect] in cases() {
        assert_eq!(clean(letters(&text)), expect, "{id}");
    }
}

#[test]
fn text_cut_anywhere_is_cleaned_the_same() {
    for [id, text, expect] in cases() {
        for (at, _) in text.char_indices() {
            let (front, back) = text.split_at(at);
            assert_eq!(clean([front, back]), expect, "{id} cut at {at}");
        }
    }
}

#[test]
fn clean_text_stays_as_it_is() {
    for [id, _, expect] in cases() {
        assert_eq!(clean([expect.as_str()]), expect, "{id}");
    }
}

#[test]
fn all_cases_joined_leave_nothing_that_a_terminal_acts_on() {
    let all: String = cases().map(|[_, text, _]| text).collect();
    let once = clean(letters(&all));
    assert!(once.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
    assert_eq!(clean([once.as_str()]), once);
}

#[test]
fn a_name_stays_on_one_line() {
    for [id, text, expect] in cases() {
        assert_eq!(line(&text), expect.replace('\n', "\u{fffd}"), "{id}");
    }
}

#[test]
fn a_cleaner_can_be_used_again_when_it_is_finished() {
    let mut cleaner = Cleaner::default();
    assert_eq!(cleaner.push("a\r\u{1b}]0;b"), "a\n");
    assert_eq!(cleaner.finish(), "\u{fffd}]0;b");
    assert_eq!(cleaner.push("\nc") + &cleaner.finish(), "\nc");
}
