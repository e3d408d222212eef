//! The tool `read`.

use everturn_core::message::Outcome;

use crate::project::{Project, call};

#[tokio::test]
async fn lines_come_numbered_from_one() {
    let project = Project::new(&[("a.txt", "one\n\n  three\nfour")]);
    let text = project.call("read", r#"{"path":"a.txt"}"#).await.unwrap();
    assert_eq!(text, "     1\tone\n     2\t\n     3\t  three\n     4\tfour");
}

#[tokio::test]
async fn a_range_says_where_to_read_on() {
    let project = Project::new(&[("a.txt", "one\ntwo\nthree\nfour\n")]);
    let text = project.call("read", r#"{"path":"a.txt","offset":2,"limit":2}"#).await.unwrap();
    assert_eq!(text, "     2\ttwo\n     3\tthree\n(more lines follow: read on with offset 4)");
    let text = project.call("read", r#"{"path":"a.txt","offset":4,"limit":1}"#).await.unwrap();
    assert_eq!(text, "     4\tfour", "nothing follows, nothing is said");
    let error = project.call("read", r#"{"path":"a.txt","offset":5}"#).await.unwrap_err();
    assert_eq!(error, "read \"a.txt\" from line 5: it has 4 lines");
}

#[tokio::test]
async fn at_most_two_thousand_lines_and_fifty_kilobytes_are_shown() {
    let project = Project::new(&[("lines", &"x\n".repeat(2_001)), ("exact", &"x\n".repeat(2_000))]);
    let text = project.call("read", r#"{"path":"lines"}"#).await.unwrap();
    assert!(text.ends_with("  2000\tx\n(more lines follow: read on with offset 2001)"));
    let text = project.call("read", r#"{"path":"exact","limit":9999}"#).await.unwrap();
    assert!(text.ends_with("  2000\tx"));

    project.file("wide", "池".repeat(300).repeat(2) + "\n" + &("y".repeat(999) + "\n").repeat(300));
    let text = project.call("read", r#"{"path":"wide"}"#).await.unwrap();
    assert!(text.len() <= 50 * 1024 && text.len() > 48 * 1024, "{}", text.len());
    let (_, next) = text.rsplit_once("offset ").unwrap();
    let next = next.trim_end_matches(')');
    let rest =
        project.call("read", &format!(r#"{{"path":"wide","offset":{next},"limit":1}}"#)).await.unwrap();
    assert!(rest.trim_start().starts_with(next));
    assert!(!text.contains(rest.lines().next().unwrap()), "nothing is shown twice");
}

#[tokio::test]
async fn a_long_line_is_cut_at_a_whole_character() {
    let project = Project::new(&[("a.txt", &format!("a{}\nnext\n", "池".repeat(100_000)))]);
    let text = project.call("read", r#"{"path":"a.txt"}"#).await.unwrap();
    let shown = format!("     1\ta{} … (line of 300002 bytes, cut)\n     2\tnext", "池".repeat(666));
    assert_eq!(text, shown);
}

#[tokio::test]
async fn ends_of_line_are_taken_away_and_named() {
    let project = Project::new(&[("crlf", "a\r\nb\r\nc"), ("mixed", "a\r\nb\n"), ("bom", "\u{feff}a\n")]);
    let read = async |path| project.call("read", &format!(r#"{{"path":"{path}"}}"#)).await.unwrap();
    assert_eq!(read("crlf").await, "     1\ta\n     2\tb\n     3\tc\n(the lines end with CR LF)");
    assert_eq!(read("mixed").await, "     1\ta\n     2\tb\n(some lines end with CR LF)");
    assert_eq!(read("bom").await, "     1\ta");
}

#[tokio::test]
async fn an_empty_file_is_said_to_be_empty() {
    let project = Project::new(&[("a.txt", "")]);
    assert_eq!(project.call("read", r#"{"path":"a.txt"}"#).await.unwrap(), "(the file is empty)");
    assert_eq!(project.call("read", r#"{"path":"a.txt","offset":9}"#).await.unwrap(), "(the file is empty)");
}

#[tokio::test]
async fn a_binary_file_is_named_with_its_size() {
    let project = Project::new(&[("a.bin", "PNG\0\u{1}"), ("late", &("x".repeat(9_000) + "\n\0y"))]);
    project.file("latin", b"caf\xe9\n");
    let read = async |path| project.call("read", &format!(r#"{{"path":"{path}"}}"#)).await.unwrap();
    assert_eq!(read("a.bin").await, "(a binary file of 5 bytes, not shown)");
    assert!(read("late").await.ends_with("     2\t\u{fffd}y"));
    assert_eq!(read("latin").await, "     1\tcaf\u{fffd}");
}

#[tokio::test]
async fn a_wrong_path_is_answered_with_near_names() {
    let project =
        Project::new(&[("src/main.rs", ""), ("src/mail.rs", ""), ("src/other.txt", ""), ("README.md", "")]);
    let error = project.call("read", r#"{"path":"src/mian.rs"}"#).await.unwrap_err();
    assert_eq!(
        error,
        "look at \"src/mian.rs\": no such file or directory; near it: \"src/main.rs\", \"src/mail.rs\""
    );
    let error = project.call("read", r#"{"path":"readme.md"}"#).await.unwrap_err();
    assert!(error.ends_with("near it: \"README.md\""), "{error}");
    let error = project.call("read", r#"{"path":"nothing/at/all"}"#).await.unwrap_err();
    assert_eq!(error, "look at \"nothing/at/all\": no such file or directory");
    let error = project.call("read", r#"{"path":"src"}"#).await.unwrap_err();
    assert_eq!(error, "read \"src\": it is a directory; list shows what is in it");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_invalid() {
    let project = Project::new(&[("a.txt", "a")]);
    for arguments in
        [r#"{}"#, r#"{"path":"a.txt","lines":3}"#, r#"{"path":"a.txt","limit":0}"#, r#"{"path":7}"#]
    {
        let (message, outcome) = call(&project.context(), "read", arguments).await.unwrap_err();
        assert_eq!(outcome, Outcome::InvalidArguments, "{message}");
    }
}

#[tokio::test]
async fn a_cancelled_call_stops() {
    let project = Project::new(&[("a.txt", "a")]);
    let cx = project.context();
    cx.cancel.cancel();
    for (tool, arguments) in [
        ("read", r#"{"path":"a.txt"}"#),
        ("list", "{}"),
        ("glob", r#"{"pattern":"**"}"#),
        ("grep", r#"{"pattern":"a"}"#),
        ("grep", r#"{"pattern":"a","path":"a.txt"}"#),
    ] {
        let (message, outcome) = call(&cx, tool, arguments).await.unwrap_err();
        assert_eq!((message.as_str(), outcome), ("stopped before it was done", Outcome::Cancelled), "{tool}");
    }
}
