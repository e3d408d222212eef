//! The tool `write`, and what a directory does beneath it.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use everturn_core::{
    Error, Result,
    env::{Env, EnvLayer, Expect, Layered, WriteFile, Written},
};

use crate::project::{Project, call, output, preview};

#[tokio::test]
async fn a_new_file_is_created_with_the_directories_above_it() {
    let project = Project::new(&[]);
    let output =
        output(&project.context(), "write", r#"{"path":"src/a.txt","content":"one\ntwo\n"}"#).await.unwrap();
    assert_eq!(output.text, "created \"src/a.txt\": 8 bytes, 2 lines");
    assert_eq!(
        output.details.unwrap().get(),
        r#"{"path":"src/a.txt","diff":"@@ -0,0 +1,2 @@\n+one\n+two\n"}"#
    );
    assert_eq!(project.bytes("src/a.txt"), b"one\ntwo\n");
}

#[tokio::test]
async fn a_file_is_replaced_and_people_see_what_changed() {
    let project = Project::new(&[("a.txt", "one\ntwo\n")]);
    let output =
        output(&project.context(), "write", r#"{"path":"a.txt","content":"one\n2\n"}"#).await.unwrap();
    assert_eq!(output.text, "replaced \"a.txt\": 6 bytes, 2 lines, where 8 bytes were");
    assert_eq!(
        output.details.unwrap().get(),
        r#"{"path":"a.txt","diff":"@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}"#
    );
}

#[tokio::test]
async fn a_file_keeps_its_mode_and_a_new_one_gets_that_of_any_new_file() {
    let project = Project::new(&[("run.sh", "old"), ("any.txt", "")]);
    let path = project.root.join("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    project.call("write", r#"{"path":"run.sh","content":"new"}"#).await.unwrap();
    project.call("write", r#"{"path":"new.txt","content":"new"}"#).await.unwrap();
    let mode = |path: &str| fs::metadata(project.root.join(path)).unwrap().mode() & 0o777;
    assert_eq!(mode("run.sh"), 0o750);
    assert_eq!(mode("new.txt"), mode("any.txt"));
}

#[tokio::test]
async fn a_file_keeps_its_owner_where_that_may_be_given() {
    let project = Project::new(&[("a.txt", "old")]);
    let path = project.root.join("a.txt");
    // Only the superuser may give a file away.
    let _ = std::os::unix::fs::chown(&path, Some(12_345), Some(12_345));
    let owner = || fs::metadata(&path).map(|found| (found.uid(), found.gid())).unwrap();
    let before = owner();
    project.call("write", r#"{"path":"a.txt","content":"new"}"#).await.unwrap();
    assert_eq!(owner(), before);
}

#[tokio::test]
async fn what_is_binary_is_replaced_without_a_difference() {
    let project = Project::new(&[]);
    project.file("a", b"\0\xff");
    let output = output(&project.context(), "write", r#"{"path":"a","content":"text"}"#).await.unwrap();
    assert_eq!(
        (output.text.as_str(), output.details),
        ("replaced \"a\": 4 bytes, 1 lines, where 2 bytes were", None)
    );
}

#[tokio::test]
async fn a_preview_says_what_would_change_and_changes_nothing() {
    let project = Project::new(&[("a.txt", "one\n")]);
    let shown = preview(&project.context(), "write", r#"{"path":"a.txt","content":"1\n"}"#).await.unwrap();
    assert_eq!(shown, r#"{"path":"a.txt","diff":"@@ -1,1 +1,1 @@\n-one\n+1\n"}"#);
    assert!(preview(&project.context(), "write", r#"{"path":"new/b.txt","content":"b"}"#).await.is_some());
    assert_eq!(preview(&project.context(), "write", r#"{"path":"../b.txt","content":"b"}"#).await, None);
    assert_eq!(project.bytes("a.txt"), b"one\n");
    assert!(!project.root.join("new").exists());
}

#[tokio::test]
async fn what_may_not_be_written_is_refused() {
    let project = Project::new(&[("src/a.txt", "a")]);
    for (path, why) in [
        ("src", "it is no regular file"),
        ("../a.txt", "leaves the root"),
        (".git/hooks/pre-commit", "nothing is written at or below .git"),
        ("src/a.txt/b", "a file stands where a directory should be"),
        ("new/", "it is a directory"),
    ] {
        let error =
            project.call("write", &format!(r#"{{"path":{path:?},"content":"x"}}"#)).await.unwrap_err();
        assert!(error.contains(why) && error.contains(path), "{error}");
    }
}

/// Somebody else who writes just before each of the first writes.
struct Rival(Env, std::sync::atomic::AtomicUsize);

impl EnvLayer for Rival {
    fn inner(&self) -> Env {
        self.0.clone()
    }

    async fn write(&self, write: WriteFile) -> Result<Written> {
        if self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            let bytes = b"theirs\n".to_vec();
            self.0.write(WriteFile { bytes, expect: Expect::Any, ..write.clone() }).await?;
        }
        self.0.write(write).await
    }
}

#[tokio::test]
async fn who_was_faster_is_seen_and_tried_against_once_more() {
    for (rivals, tool, arguments) in [
        (1, "write", r#"{"path":"a.txt","content":"ours\n"}"#),
        (1, "edit", r#"{"path":"a.txt","edits":[{"old":"s\n","new":"s\nours\n"}]}"#),
        (2, "write", r#"{"path":"a.txt","content":"ours\n"}"#),
        (2, "edit", r#"{"path":"a.txt","edits":[{"old":"s\n","new":"s\nours\n"}]}"#),
    ] {
        let project = Project::new(&[("a.txt", "was\n")]);
        let mut cx = project.context();
        cx.env = Env::new(Layered(Rival(cx.env, rivals.into())));
        let result = call(&cx, tool, arguments).await.map_err(|(message, _)| message);
        let text = String::from_utf8(project.bytes("a.txt")).unwrap();
        if rivals == 1 {
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(text, if tool == "write" { "ours\n" } else { "theirs\nours\n" });
        } else {
            let error = result.unwrap_err();
            assert_eq!(error, "write \"a.txt\": it has changed since it was read; read it again");
            assert_eq!(text, "theirs\n");
        }
    }
}

#[test]
fn a_directory_swapped_for_a_link_during_writes_never_leads_outside() {
    let project = Project::new(&[("in/f.txt", "inside")]);
    fs::create_dir(project.base.join("out")).unwrap();
    let (place, away) = (project.root.join("in"), project.root.join("away"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::rename(&place, &away).unwrap();
                // A write may have made the directory anew by now.
                let _ = symlink("../out", &place);
                while fs::remove_dir_all(&place).is_err() || fs::rename(&away, &place).is_err() {}
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let write = |path: &str| -> Result<Written, Error> {
            let write = WriteFile { path: path.into(), bytes: b"x".into(), expect: Expect::Any };
            runtime.block_on(project.env().write(write))
        };
        let (mut writes, mut refused) = (0, 0);
        while writes < 1_000 || refused == 0 && writes < 10_000 {
            refused += usize::from(write("in/f.txt").is_err());
            refused += usize::from(write(&format!("in/new/{writes}.txt")).is_err());
            writes += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(project.base.join("out")).unwrap().count(), 0);
}
