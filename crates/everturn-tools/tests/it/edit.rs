//! The tool `edit`.

use crate::project::{Project, output, preview};

#[tokio::test]
async fn several_pieces_are_replaced_at_once() {
    let project = Project::new(&[("a.txt", "one\ntwo\nthree\ntwo and a half\n")]);
    let arguments =
        r#"{"path":"a.txt","edits":[{"old":"one","new":"1"},{"old":"two","new":"2","all":true}]}"#;
    let output = output(&project.context(), "edit", arguments).await.unwrap();
    assert_eq!(output.text, "edited \"a.txt\": replaced 3 places");
    assert_eq!(project.bytes("a.txt"), b"1\n2\nthree\n2 and a half\n");
    assert!(output.details.unwrap().get().contains("-one"));
}

#[tokio::test]
async fn one_piece_that_is_not_found_leaves_the_file_alone() {
    let project = Project::new(&[("a.txt", "one\ntwo\n")]);
    let arguments = r#"{"path":"a.txt","edits":[{"old":"one","new":"1"},{"old":"to\n","new":"2\n"}]}"#;
    let error = project.call("edit", arguments).await.unwrap_err();
    assert_eq!(
        error,
        "edit \"a.txt\": edit 2 of 2: old was not found; the nearest to its first line is line 2: \"two\"; nothing was \
         changed"
    );
    assert_eq!(project.bytes("a.txt"), b"one\ntwo\n");
}

#[tokio::test]
async fn ends_of_line_and_the_byte_order_mark_stay() {
    let project = Project::new(&[("a.txt", "\u{feff}one\r\ntwo\r\n")]);
    let arguments = r#"{"path":"a.txt","edits":[{"old":"one\ntwo","new":"1\n2"}]}"#;
    project.call("edit", arguments).await.unwrap();
    assert_eq!(project.bytes("a.txt"), "\u{feff}1\r\n2\r\n".as_bytes());
}

#[tokio::test]
async fn a_file_in_another_encoding_is_refused() {
    let project = Project::new(&[]);
    project.file("a.txt", b"caf\xe9\n");
    let arguments = r#"{"path":"a.txt","edits":[{"old":"caf","new":"bar"}]}"#;
    let error = project.call("edit", arguments).await.unwrap_err();
    assert_eq!(error, "edit \"a.txt\": it is not UTF-8 text: byte 3 is 0xE9");
    assert_eq!(project.bytes("a.txt"), b"caf\xe9\n");
}

#[tokio::test]
async fn a_missing_file_is_answered_with_near_names() {
    let project = Project::new(&[("main.rs", "x")]);
    let arguments = r#"{"path":"mian.rs","edits":[{"old":"x","new":"y"}]}"#;
    let error = project.call("edit", arguments).await.unwrap_err();
    assert_eq!(error, "edit \"mian.rs\": no such file; write creates one; near it: \"main.rs\"");
    assert!(!project.root.join("mian.rs").exists());
}

#[tokio::test]
async fn a_preview_says_what_would_change_and_changes_nothing() {
    let project = Project::new(&[("a.txt", "one\n")]);
    let good = r#"{"path":"a.txt","edits":[{"old":"one","new":"1"}]}"#;
    let shown = preview(&project.context(), "edit", good).await.unwrap();
    assert_eq!(shown, r#"{"path":"a.txt","diff":"@@ -1,1 +1,1 @@\n-one\n+1\n"}"#);
    let bad = r#"{"path":"a.txt","edits":[{"old":"two","new":"1"}]}"#;
    assert_eq!(preview(&project.context(), "edit", bad).await, None);
    assert_eq!(project.bytes("a.txt"), b"one\n");
}
