//! Files: what is written, and on which condition.

use everturn_core::{
    ErrorKind,
    env::{Env, Expect, FileKind, ListDirectory},
};
use futures_util::future::{join, join_all};

use super::{get, names, put, put_if};

/// What was written is read, byte for byte.
pub async fn what_was_written_is_read(env: &Env) {
    let text = "one\r\ntwo\0\u{1f980}";
    let written = put(env, "a.txt", text).await.unwrap();
    assert_eq!(written.replaced, None);
    assert_eq!(get(env, "a.txt").await.unwrap(), text);
    let stat = env.stat("a.txt".into()).await.unwrap();
    assert_eq!((stat.kind, stat.size), (FileKind::File, text.len() as u64));
    assert_eq!(stat.version, written.version);
}

/// Nothing stays of what a file was, also when it was longer.
pub async fn a_write_replaces_the_whole_file(env: &Env) {
    let first = put(env, "a.txt", "a long text").await.unwrap();
    let second = put(env, "a.txt", "short").await.unwrap();
    assert_eq!(second.replaced, Some(first.version));
    assert_eq!(get(env, "a.txt").await.unwrap(), "short");
}

/// Directories that are missing are made, inside.
pub async fn a_write_makes_the_directories_above_it(env: &Env) {
    put(env, "new/deep/a.txt", "a").await.unwrap();
    assert_eq!(get(env, "new/deep/a.txt").await.unwrap(), "a");
    let error = put(env, "new/deep/a.txt/b.txt", "b").await.unwrap_err();
    assert!(names(&error, "a.txt/b.txt", |kind| *kind == ErrorKind::Invalid), "{error}");
}

/// What does not exist is `NotFound`, by its path.
pub async fn a_missing_file_is_not_found(env: &Env) {
    for error in [
        env.stat("no.txt".into()).await.unwrap_err(),
        get(env, "no.txt").await.unwrap_err(),
        env.remove("no.txt".into()).await.unwrap_err(),
    ] {
        assert!(names(&error, "no.txt", |kind| *kind == ErrorKind::NotFound), "{error}");
    }
}

/// A version tells what a file was from what it is, also when the bytes are as many or the same.
pub async fn a_version_is_another_after_each_write(env: &Env) {
    let mut versions = Vec::new();
    for text in ["aa", "bb", "bb", "aa"] {
        let version = put(env, "a.txt", text).await.unwrap().version;
        assert_eq!(env.stat("a.txt".into()).await.unwrap().version, version);
        assert_ne!(versions.last(), Some(&version));
        versions.push(version);
    }
}

/// A write happens on its condition or not at all.
pub async fn nothing_is_written_where_something_else_was_expected(env: &Env) {
    let is_conflict = |kind: &ErrorKind| *kind == ErrorKind::Conflict;
    let first = put_if(env, "a.txt", "first", Expect::Absent).await.unwrap();
    let error = put_if(env, "a.txt", "again", Expect::Absent).await.unwrap_err();
    assert!(names(&error, "a.txt", is_conflict), "{error}");
    put_if(env, "a.txt", "second", Expect::Version(first.version.clone())).await.unwrap();
    let error = put_if(env, "a.txt", "third", Expect::Version(first.version.clone())).await.unwrap_err();
    assert!(names(&error, "a.txt", is_conflict), "{error}");
    assert_eq!(get(env, "a.txt").await.unwrap(), "second");
    let error = put_if(env, "new/b.txt", "b", Expect::Version(first.version)).await.unwrap_err();
    assert!(names(&error, "b.txt", is_conflict), "{error}");
    assert!(env.stat("new".into()).await.is_err(), "nothing was made for it");
}

/// Of many that read the same and write at once, one wins and all others are told.
pub async fn of_writers_that_expect_the_same_one_wins(env: &Env) {
    let mut version = put(env, "a.txt", "0").await.unwrap().version;
    for _ in 0..20 {
        let writes = (0..8).map(|_| put_if(env, "a.txt", "1", Expect::Version(version.clone())));
        let mut won: Vec<_> = join_all(writes).await.into_iter().filter_map(Result::ok).collect();
        assert_eq!(won.len(), 1);
        version = won.remove(0).version;
    }
}

/// Whoever reads while others write sees what somebody wrote, whole.
pub async fn a_reader_sees_a_file_before_or_after_a_write(env: &Env) {
    let texts = ["a".repeat(100_000), "b".repeat(70_000)];
    put(env, "a.txt", &texts[0]).await.unwrap();
    for text in texts.iter().cycle().take(20) {
        let reads = join_all((0..4).map(|_| get(env, "a.txt")));
        let (written, reads) = join(put(env, "a.txt", text), reads).await;
        written.unwrap();
        assert!(reads.into_iter().all(|read| texts.contains(&read.unwrap())), "half a write was read");
    }
}

/// What a write needs beside its file is gone when it is done, also when it was refused.
pub async fn a_write_leaves_nothing_beside_its_file(env: &Env) {
    put(env, "a.txt", "a").await.unwrap();
    assert!(put_if(env, "a.txt", "b", Expect::Absent).await.is_err());
    let list = ListDirectory { path: ".".into(), after: None, limit: 100 };
    let found: Vec<_> = env.list(list).await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(found, ["a.txt"]);
}

/// A removed file is not there; it can be made again.
pub async fn a_file_that_was_removed_is_gone(env: &Env) {
    put(env, "a.txt", "a").await.unwrap();
    env.remove("a.txt".into()).await.unwrap();
    assert!(get(env, "a.txt").await.is_err());
    put_if(env, "a.txt", "b", Expect::Absent).await.unwrap();
}

/// A directory is no file, however it is spelt.
pub async fn a_directory_is_neither_written_nor_removed(env: &Env) {
    put(env, "src/a.txt", "a").await.unwrap();
    for path in ["src", "src/", ".", "src/..", "new/"] {
        let error = put(env, path, "x").await.unwrap_err();
        assert!(names(&error, path, |kind| *kind == ErrorKind::Invalid), "{error}");
        assert!(env.remove(path.into()).await.is_err(), "{path}");
    }
    assert_eq!(get(env, "src/a.txt").await.unwrap(), "a");
}
