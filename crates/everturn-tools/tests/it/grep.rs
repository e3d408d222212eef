//! The tool `grep`.

use crate::project::Project;

#[tokio::test]
async fn hits_come_as_path_line_and_text_sorted() {
    let project = Project::new(&[
        ("b.rs", "fn b() {}\n\n  fn c() {}"),
        ("a/x.rs", "no\nfn x() {}\r\n"),
        ("a.rs", "fn a"),
    ]);
    let text = project.call("grep", r#"{"pattern":"fn \\w"}"#).await.unwrap();
    assert_eq!(text, "a.rs:1:fn a\na/x.rs:2:fn x() {}\nb.rs:1:fn b() {}\nb.rs:3:  fn c() {}");
    let text = project.call("grep", r#"{"pattern":"\\{\\}$","path":"a"}"#).await.unwrap();
    assert_eq!(text, "a/x.rs:2:fn x() {}", "CR LF ends a line");
    let text = project.call("grep", r#"{"pattern":"^fn","path":"b.rs"}"#).await.unwrap();
    assert_eq!(text, "b.rs:1:fn b() {}");
    let text = project.call("grep", r#"{"pattern":"nowhere"}"#).await.unwrap();
    assert_eq!(text, "(no line matches)");
}

#[tokio::test]
async fn a_glob_and_ignore_case_narrow_and_widen() {
    let project =
        Project::new(&[("a.rs", "Word"), ("a.txt", "word"), ("src/b.rs", "WORD"), (".env", "word")]);
    let grep = async |arguments: &str| {
        let arguments = format!(r#"{{"pattern":"word","ignore_case":true,{arguments}}}"#);
        project.call("grep", &arguments).await.unwrap()
    };
    assert_eq!(grep(r#""glob":"*.rs""#).await, "a.rs:1:Word\nsrc/b.rs:1:WORD");
    assert_eq!(grep(r#""glob":"src/*""#).await, "src/b.rs:1:WORD");
    assert_eq!(grep(r#""glob":"!*.rs""#).await, "a.txt:1:word");
    assert_eq!(grep(r#""glob":".env""#).await, ".env:1:word");
    let text = project.call("grep", r#"{"pattern":"word"}"#).await.unwrap();
    assert_eq!(text, "a.txt:1:word");
}

#[tokio::test]
async fn ignored_binary_and_linked_files_are_passed_over() {
    let project = Project::new(&[
        (".gitignore", "out\n"),
        ("out/a", "word"),
        (".git/a", "word"),
        ("bin", "word\0"),
        ("z", "word"),
    ]);
    project.link("link", "z");
    project.link("around", ".");
    let text = project.call("grep", r#"{"pattern":"word"}"#).await.unwrap();
    assert_eq!(text, "z:1:word\n(1 binary files passed over)");
    let text = project.call("grep", r#"{"pattern":"word","path":"link"}"#).await.unwrap();
    assert_eq!(text, "link:1:word", "asked for by name");
}

#[tokio::test]
async fn line_numbers_hold_in_files_of_many_windows() {
    let project = Project::new(&[]);
    let mut text = String::new();
    for i in 1..=40_000 {
        text += &format!("line {i} {}\n", "池".repeat(10));
    }
    // One line that is longer than what is held at once, and one behind it.
    text += &("x".repeat(2_000_000) + " needle\nbehind");
    project.file("big.txt", text);
    let found = project.call("grep", r#"{"pattern":"^line (1|9999|39999) |^behind"}"#).await.unwrap();
    let numbers: Vec<_> = found.lines().map(|hit| hit.split(':').nth(1).unwrap()).collect();
    assert_eq!(numbers, ["1", "9999", "39999", "40002"]);
    let found = project.call("grep", r#"{"pattern":"needle"}"#).await.unwrap();
    assert!(found.starts_with("big.txt:40001:… x") && found.ends_with("x needle"), "{found}");
}

#[tokio::test]
async fn a_long_line_is_shown_around_its_hit() {
    let project = Project::new(&[("a.txt", &format!("{}needle{}", "池".repeat(500), "火".repeat(500)))]);
    let text = project.call("grep", r#"{"pattern":"needle"}"#).await.unwrap();
    assert!(
        text.starts_with("a.txt:1:… 池") && text.contains("池needle火") && text.ends_with("火 …"),
        "{text}"
    );
    assert!(text.len() < 450);
}

#[tokio::test]
async fn hits_are_capped_per_file_and_in_all() {
    let project = Project::new(&[("a.txt", &"hit\n".repeat(150)), ("b.txt", "hit\n")]);
    let text = project.call("grep", r#"{"pattern":"hit"}"#).await.unwrap();
    assert!(text.ends_with("a.txt:100:hit\nb.txt:1:hit\n(50 more hits in files with over 100)"), "{text}");
    for i in 0..12 {
        project.file(&format!("c{i:02}.txt"), "hit\n".repeat(100));
    }
    let text = project.call("grep", r#"{"pattern":"hit"}"#).await.unwrap();
    assert_eq!(text.lines().count(), 1_001);
    assert!(text.contains("(more hits follow: narrow the pattern, the glob or the path"), "{text}");
    for i in 0..12 {
        project.file(&format!("c{i:02}.txt"), format!("hit{}\n", "x".repeat(300)).repeat(100));
    }
    let text = project.call("grep", r#"{"pattern":"hit"}"#).await.unwrap();
    assert!(text.len() <= 50 * 1024, "{}", text.len());
}

#[tokio::test]
async fn a_broken_pattern_is_an_error_that_quotes_the_fault() {
    let project = Project::new(&[]);
    let error = project.call("grep", r#"{"pattern":"a(b"}"#).await.unwrap_err();
    assert!(error.contains("a(b") && error.contains("unclosed group"), "{error}");
    let error = project.call("grep", r#"{"pattern":"a","glob":"[x"}"#).await.unwrap_err();
    assert!(error.contains("[x"), "{error}");
}

#[tokio::test]
async fn a_wrong_path_is_an_error_with_near_names() {
    let project = Project::new(&[("source/a.txt", "")]);
    let error = project.call("grep", r#"{"pattern":"a","path":"sourc"}"#).await.unwrap_err();
    assert!(error.ends_with("near it: \"source\""), "{error}");
}
