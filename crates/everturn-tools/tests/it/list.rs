//! The tool `list`.

use crate::project::Project;

#[tokio::test]
async fn names_come_sorted_with_their_kind() {
    let project = Project::new(&[("b.txt", ""), ("a/x", ""), ("B", ""), (".hidden", ""), ("é", "")]);
    project.link("link", "a");
    assert_eq!(project.call("list", "{}").await.unwrap(), ".hidden\nB\na/\nb.txt\nlink@\né");
    assert_eq!(project.call("list", r#"{"path":"a/"}"#).await.unwrap(), "x");
    assert_eq!(project.call("list", r#"{"path":"link"}"#).await.unwrap(), "x");
}

#[tokio::test]
async fn an_empty_directory_is_said_to_be_empty() {
    let project = Project::new(&[]);
    assert_eq!(project.call("list", "null").await.unwrap(), "(the directory is empty)");
}

#[tokio::test]
async fn a_huge_directory_ends_with_how_many_more_there_are() {
    let project = Project::new(&[]);
    for i in 0..10_001 {
        std::fs::write(project.root.join(format!("{i:05}")), "").unwrap();
    }
    let text = project.call("list", "{}").await.unwrap();
    assert!(text.starts_with("00000\n00001\n"));
    assert!(text.ends_with("\n01999\n(8001 more)"), "{}", &text[text.len() - 40..]);
}

#[tokio::test]
async fn a_hostile_name_stays_on_its_line() {
    let project = Project::new(&[("a\nb\u{1b}[2J\u{202e}", "")]);
    assert_eq!(project.call("list", "{}").await.unwrap(), r"a\u{a}b\u{1b}[2J\u{202e}");
}

#[tokio::test]
async fn a_wrong_path_is_an_error_that_names_it() {
    let project = Project::new(&[("source/a.txt", "")]);
    let error = project.call("list", r#"{"path":"sources"}"#).await.unwrap_err();
    assert_eq!(error, "list \"sources\": no such file or directory; near it: \"source\"");
    let error = project.call("list", r#"{"path":"source/a.txt"}"#).await.unwrap_err();
    assert_eq!(error, "list \"source/a.txt\": it is a file, not a directory");
    let error = project.call("list", r#"{"path":".."}"#).await.unwrap_err();
    assert!(error.contains("leaves the root"), "{error}");
}
