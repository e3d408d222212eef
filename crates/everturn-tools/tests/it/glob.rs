//! The tool `glob`.

use crate::project::Project;

async fn check(project: &Project, pattern: &str, expected: &str) {
    let text = project.call("glob", &format!(r#"{{"pattern":"{pattern}"}}"#)).await.unwrap();
    assert_eq!(text.replace('\n', " "), expected, "{pattern}");
}

#[tokio::test]
async fn a_pattern_finds_files_sorted_by_bytes() {
    let project = Project::new(&[
        ("a.rs", ""),
        ("a/b.rs", ""),
        ("a/c/d.rs", ""),
        ("a/c.txt", ""),
        ("z.rs", ""),
        ("B.rs", ""),
    ]);
    check(&project, "*.rs", "B.rs a.rs z.rs").await;
    check(&project, "**/*.rs", "B.rs a.rs a/b.rs a/c/d.rs z.rs").await;
    check(&project, "a/**", "a/b.rs a/c.txt a/c/d.rs").await;
    check(&project, "a/", "a/b.rs a/c.txt a/c/d.rs").await;
    check(&project, "./a/*", "a/b.rs a/c.txt").await;
    check(&project, "{a,a/c}/?.rs", "a/b.rs a/c/d.rs").await;
    check(&project, "**/[cd].*", "a/c.txt a/c/d.rs").await;
    check(&project, "*.md", "(no file matches)").await;
}

#[tokio::test]
async fn a_pattern_is_relative_to_path_and_its_answers_to_the_root() {
    let project = Project::new(&[("a/b/c.rs", ""), ("a/d.rs", ""), ("b/c.rs", "")]);
    let glob = async |path| {
        project.call("glob", &format!(r#"{{"pattern":"b/*.rs","path":"{path}"}}"#)).await.unwrap()
    };
    for path in ["a", "a/", "./a"] {
        assert_eq!(glob(path).await, "a/b/c.rs", "{path}");
    }
    assert_eq!(glob(".").await, "b/c.rs");
}

#[tokio::test]
async fn ignore_files_are_respected_also_nested_ones_and_those_above() {
    let project = Project::new(&[
        (".gitignore", "\u{feff}target/\n*.log\r\n/only-top\n# note\n"),
        ("target/a.rs", ""),
        ("x.log", ""),
        ("only-top", ""),
        ("sub/only-top", ""),
        ("sub/.gitignore", "!keep.log\nlocal\n"),
        ("sub/keep.log", ""),
        ("sub/drop.log", ""),
        ("sub/local", ""),
        ("sub/deep/local", ""),
        ("sub/deep/keep.log", ""),
        ("other/.ignore", "!x.log\n*.tmp\n"),
        ("other/x.log", ""),
        ("other/y.tmp", ""),
        ("local", ""),
    ]);
    check(&project, "**", "local other/x.log sub/deep/keep.log sub/keep.log sub/only-top").await;
    let text = project.call("glob", r#"{"pattern":"**","path":"sub/deep"}"#).await.unwrap();
    assert_eq!(text, "sub/deep/keep.log");
    let text = project.call("glob", r#"{"pattern":"*","path":"target"}"#).await.unwrap();
    assert_eq!(text, "target/a.rs", "asked for by name");
}

#[tokio::test]
async fn hidden_files_are_found_only_where_the_pattern_names_them() {
    let project = Project::new(&[
        (".env", ""),
        (".github/ci.yml", ""),
        (".github/.secret", ""),
        ("a/.env", ""),
        (".venv/x", ""),
    ]);
    check(&project, "**", "(no file matches)").await;
    check(&project, "**/.env", ".env a/.env").await;
    check(&project, ".github/**", ".github/ci.yml").await;
    check(&project, "{.env,x}", ".env").await;
    let text = project.call("glob", r#"{"pattern":"*","path":".github"}"#).await.unwrap();
    assert_eq!(text, ".github/ci.yml");
}

#[tokio::test]
async fn git_is_never_entered() {
    let project = Project::new(&[(".git/config", ""), ("sub/.git/config", ""), (".gitattributes", "")]);
    check(&project, ".git/**", "(no file matches)").await;
    check(&project, "**/.git*", ".gitattributes").await;
}

#[tokio::test]
async fn links_to_directories_are_not_entered() {
    let project = Project::new(&[("a/b.rs", "")]);
    project.link("a/loop", "..");
    project.link("a/c.rs", "b.rs");
    check(&project, "**", "a/b.rs a/c.rs a/loop").await;
}

#[tokio::test]
async fn a_deep_tree_is_walked_and_what_lies_too_deep_is_counted() {
    let project = Project::new(&[]);
    project.file(&format!("{}a.rs", "d/".repeat(400)), "");
    check(&project, "**/*.rs", &format!("{}a.rs", "d/".repeat(400))).await;
    let name = "n".repeat(200);
    let half = format!("{name}/").repeat(12);
    project.file(&format!("{half}b.rs"), "");
    std::fs::create_dir_all(project.root.join("spare").join(&half)).unwrap();
    let deepest = project.root.join(&half);
    std::fs::rename(project.root.join("spare").join(&name), deepest.join(&name)).unwrap();
    let text = project.call("glob", r#"{"pattern":"n*/**/*.rs"}"#).await.unwrap();
    assert_eq!(text, format!("{half}b.rs\n(1 directories could not be read)"));
}

#[tokio::test]
async fn many_files_end_with_how_many_more_there_are() {
    let project = Project::new(&[]);
    for i in 0..2_500 {
        project.file(&format!("{:02}/{i:05}", i % 50), "");
    }
    let text = project.call("glob", r#"{"pattern":"**"}"#).await.unwrap();
    assert_eq!(text.lines().count(), 2_001);
    assert!(text.ends_with("(500 more)"), "{}", &text[text.len() - 40..]);
}

#[tokio::test]
async fn a_broken_or_absolute_pattern_is_an_error_that_quotes_it() {
    let project = Project::new(&[]);
    for (pattern, why) in [("a[b", "unclosed"), ("/etc/*", "relative"), ("../*", "relative"), ("", "empty")] {
        let error = project.call("glob", &format!(r#"{{"pattern":"{pattern}"}}"#)).await.unwrap_err();
        assert!(error.contains(pattern) && error.contains(why), "{error}");
    }
    let error = project.call("glob", r#"{"pattern":"*","path":"/etc"}"#).await.unwrap_err();
    assert!(error.contains("leaves the root"), "{error}");
}
