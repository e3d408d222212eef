use super::{Replacement, edit};

fn piece(old: &str, new: &str) -> Replacement {
    Replacement { old: old.into(), new: new.into(), all: None }
}

/// What edits make of a text.
fn done(text: &str, edits: &[Replacement]) -> String {
    edit(text, edits).unwrap().0
}

/// Why an edit of a text cannot be made.
fn why(text: &str, old: &str) -> String {
    edit(text, &[piece(old, "new")]).unwrap_err()
}

#[test]
fn each_edit_works_on_what_the_one_before_left() {
    let edits = [piece("a", "bb"), piece("bb", "c")];
    assert_eq!(done("a\n", &edits), "c\n");
}

#[test]
fn one_edit_that_cannot_be_made_is_named() {
    let error = edit("a\n", &[piece("a", "b"), piece("x", "y")]).unwrap_err();
    assert!(error.starts_with("edit 2 of 2: old was not found"), "{error}");
}

#[test]
fn a_file_with_cr_lf_keeps_it_whichever_the_model_writes() {
    let text = "one\r\ntwo\r\nthree\r\n";
    for (old, new) in [("one\ntwo", "1\n2"), ("one\r\ntwo", "1\r\n2"), ("one\ntwo", "1\r\n2")] {
        assert_eq!(done(text, &[piece(old, new)]), "1\r\n2\r\nthree\r\n");
    }
    assert_eq!(done(text, &[piece("two", "2a\n2b")]), "one\r\n2a\r\n2b\r\nthree\r\n");
}

#[test]
fn a_file_with_lf_gets_no_cr_from_a_piece_that_was_found_without_it() {
    assert_eq!(done("one\ntwo\n", &[piece("one\r\ntwo", "1\r\n2")]), "1\n2\n");
}

#[test]
fn in_a_file_with_both_ends_a_piece_is_taken_as_it_is_found() {
    let text = "one\ntwo\r\nthree\r\n";
    assert_eq!(done(text, &[piece("one\ntwo", "1\n2")]), "1\n2\r\nthree\r\n");
    assert_eq!(done(text, &[piece("two\nthree", "2\n3")]), "one\n2\r\n3\r\n");
}

#[test]
fn a_byte_order_mark_stays() {
    assert_eq!(done("\u{feff}one\n", &[piece("one", "1")]), "\u{feff}1\n");
}

#[test]
fn all_replaces_each_place_and_none_is_taken_by_chance() {
    let edits = [Replacement { all: Some(true), ..piece("a", "b") }];
    assert_eq!(edit("a a\na\n", &edits).unwrap(), ("b b\nb\n".into(), 3));
    let error = why("x a\n\nx a\nx a", "x a");
    assert!(error.starts_with("old was found 3 times, at lines 1, 3, 4; take in more"), "{error}");
}

#[test]
fn white_space_that_differs_is_said_and_shown() {
    let error = why("fn a() {\n\tlet x = 1;\n}\n", "    let x  = 1;\n");
    let expected = "old was not found: what stands at line 2 differs in white space; it is \"\\tlet x = 1;\"";
    assert_eq!(error, expected);
    let error = why("if a {\n\tb();\n}\n", "if a {\n    b();\n}");
    assert!(error.contains("at line 1 differs in white space"), "{error}");
}

#[test]
fn quotes_that_differ_are_said_and_shown() {
    let error = why("say(\u{201c}hi\u{201d});\n", "say(\"hi\");");
    assert!(error.contains("at line 1 differs in the style of its quotes"), "{error}");
    let error = why("  say('hi');\n", "say( \"hi\" );");
    assert!(error.contains("white space and the style of its quotes"), "{error}");
}

#[test]
fn the_nearest_line_is_named() {
    let error = why("alpha\nlet count = 1;\nlet count = 1;\n", "let counts = 2;\n");
    assert_eq!(error, "old was not found; the nearest to its first line is line 2: \"let count = 1;\"");
    assert_eq!(why("alpha\n", "0123456789"), "old was not found, nor a line like its first");
    assert_eq!(why("", "x"), "old was not found, nor a line like its first");
}

#[test]
fn edits_that_say_nothing_are_refused() {
    assert_eq!(edit("a", &[]).unwrap_err(), "no edit was given");
    assert!(why("a", "").starts_with("old is empty"));
    assert_eq!(edit("a", &[piece("a", "a")]).unwrap_err(), "old and new are the same");
}
