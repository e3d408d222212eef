//! Places: what a path leads to, and what it never does.

use everturn_core::{
    ErrorKind,
    env::{Access, Env, Exec, FileKind, Resolved},
};

use super::{get, names, put, resolve, root, run, shell};

const BOTH: [Access; 2] = [Access::Read, Access::Write];

fn is_invalid(kind: &ErrorKind) -> bool {
    *kind == ErrorKind::Invalid
}

/// No path leads out of the root.
pub async fn nothing_outside_is_read_or_written(env: &Env) {
    put(env, "src/a.txt", "a").await.unwrap();
    let place = root(env).await;
    let place = place.to_str().unwrap();
    for path in [
        "..",
        "../a.txt",
        "src/../../a.txt",
        "/etc/hostname",
        &format!("{place}-other"),
        &format!("{place}/../a.txt"),
    ] {
        assert!(names(&get(env, path).await.unwrap_err(), path, is_invalid), "read {path}");
        assert!(names(&put(env, path, "x").await.unwrap_err(), path, is_invalid), "write {path}");
        assert!(names(&env.remove(path.into()).await.unwrap_err(), path, is_invalid), "remove {path}");
        assert!(env.stat(path.into()).await.is_err(), "stat {path}");
        let exec = Exec { directory: path.into(), ..Exec::new(["true"]) };
        assert!(env.exec(exec).await.is_err(), "run in {path}");
    }
}

/// A link outside leads nowhere, also one to what is still to be made.
pub async fn a_link_that_leaves_is_not_followed(env: &Env) {
    let (exit, _) = shell(
        env,
        "mkdir in && ln -s /etc etc && ln -s .. up && ln -s ../everturn-new new && ln -s ../../new in/new",
    )
    .await;
    assert!(exit.is_success());
    for path in ["etc/hostname", "etc", "up/a.txt", "new", "in/new"] {
        assert!(names(&get(env, path).await.unwrap_err(), path, is_invalid), "read {path}");
        assert!(names(&put(env, path, "x").await.unwrap_err(), path, is_invalid), "write {path}");
    }
}

/// What a link leads to inside is read, written and removed; the link stays.
pub async fn a_link_that_stays_inside_is_followed(env: &Env) {
    put(env, "src/a.txt", "a").await.unwrap();
    assert!(
        shell(env, "ln -s src/a.txt file; ln -s src place; ln -s src/made.txt made").await.0.is_success()
    );
    put(env, "file", "b").await.unwrap();
    assert_eq!(get(env, "src/a.txt").await.unwrap(), "b");
    put(env, "place/c.txt", "c").await.unwrap();
    assert_eq!(get(env, "src/c.txt").await.unwrap(), "c");
    put(env, "made", "d").await.unwrap();
    assert_eq!(get(env, "src/made.txt").await.unwrap(), "d");
    env.remove("file".into()).await.unwrap();
    assert!(get(env, "src/a.txt").await.is_err());
    assert!(shell(env, "test -L file").await.0.is_success());
}

/// Where version control keeps its own, nothing is written, in any case of letters and by any way.
pub async fn below_git_nothing_is_written(env: &Env) {
    let (exit, _) = shell(env, "mkdir -p .git sub/.git && echo a > .git/config && ln -s .git g").await;
    assert!(exit.is_success());
    for path in [".git/config", ".git/hooks/new", ".GIT/config", "sub/.git/x", "g/config", "new/.git", ".git"]
    {
        assert!(names(&put(env, path, "x").await.unwrap_err(), path, is_invalid), "write {path}");
        assert!(env.remove(path.into()).await.is_err(), "remove {path}");
        assert!(resolve(env, path, Access::Write).await.is_err(), "resolve {path}");
    }
    assert_eq!(get(env, ".git/config").await.unwrap(), "a\n");
    put(env, ".gitignore", "x").await.unwrap();
}

/// Text that is no path is refused before anything is looked at.
pub async fn hostile_paths_are_refused(env: &Env) {
    let long = "d/".repeat(3_000);
    for path in ["", "a\0b", "a\nb", "tab\tname", "red\u{1b}[31m", "c1\u{9b}", "txt.\u{202e}gnp", &long] {
        assert!(is_invalid(get(env, path).await.unwrap_err().kind()), "read {path:?}");
        assert!(is_invalid(put(env, path, "x").await.unwrap_err().kind()), "write {path:?}");
        for access in BOTH {
            assert!(is_invalid(resolve(env, path, access).await.unwrap_err().kind()), "resolve {path:?}");
        }
    }
}

/// Links are followed and `..` is taken from where they lead.
pub async fn a_path_resolves_to_where_it_leads(env: &Env) {
    put(env, "src/deep/b.txt", "b").await.unwrap();
    assert!(shell(env, "ln -s src/deep in; ln -s in/b.txt file").await.0.is_success());
    let place = root(env).await.join("src/./deep").to_str().unwrap().to_owned();
    for (path, resolved) in [
        ("src/deep/b.txt", "src/deep/b.txt"),
        ("file", "src/deep/b.txt"),
        ("in/../c.txt", "src/c.txt"),
        (&format!("{place}//b.txt"), "src/deep/b.txt"),
    ] {
        for access in BOTH {
            assert_eq!(resolve(env, path, access).await.unwrap().path, resolved, "{path}");
        }
    }
    let directory = Resolved { path: "src/deep".into(), kind: Some(FileKind::Directory), links: 0 };
    assert_eq!(resolve(env, "in/", Access::Read).await.unwrap(), directory);
    assert_eq!(resolve(env, ".", Access::Read).await.unwrap().path, ".");
}

/// Missing names stand as they would be created, also behind a link.
pub async fn a_missing_name_resolves_to_what_would_be_made(env: &Env) {
    assert!(shell(env, "ln -s made/here link").await.0.is_success());
    for (path, made) in
        [("new/deep/../deep", None), ("new/./a.txt", Some("new/a.txt")), ("link/b", Some("made/here/b"))]
    {
        let resolved = resolve(env, path, Access::Write).await.ok();
        let expected = made.map(|path| Resolved { path: path.into(), kind: None, links: 0 });
        assert_eq!(resolved, expected, "{path}");
    }
}

/// What leads nowhere that could be judged is refused.
pub async fn what_leads_nowhere_does_not_resolve(env: &Env) {
    put(env, "a.txt", "a").await.unwrap();
    assert!(
        shell(env, "mkfifo pipe; ln -s two one; ln -s one two; ln -s /dev/null null").await.0.is_success()
    );
    for path in ["a.txt/", "a.txt/..", "a.txt/b", "one", "missing/../a.txt", "pipe", "null"] {
        for access in BOTH {
            let error = resolve(env, path, access).await.unwrap_err();
            assert!(names(&error, path, is_invalid), "{error}");
        }
    }
    assert!(resolve(env, ".", Access::Write).await.is_err(), "a directory is not written");
}

/// What lies outside is told by its whole path, and nothing more comes of it.
pub async fn what_lies_outside_is_told(env: &Env) {
    let above = root(env).await.parent().unwrap().to_owned();
    let path = above.join("everturn-missing").to_str().unwrap().to_owned();
    let resolved = resolve(env, "../everturn-missing", Access::Write).await.unwrap();
    assert!(resolved.is_outside());
    assert_eq!(resolved, Resolved { path, kind: None, links: 0 });
    let root = resolve(env, "/", Access::Read).await.unwrap();
    assert_eq!((root.path.as_str(), root.kind), ("/", Some(FileKind::Directory)));
}

/// A file that has other names is told by their number; a write makes it one of its own.
pub async fn the_names_of_a_file_are_counted(env: &Env) {
    put(env, "a.txt", "a").await.unwrap();
    let (exit, _) = run(env, Exec::new(["ln", "a.txt", "b.txt"])).await;
    assert!(exit.is_success());
    assert_eq!(resolve(env, "b.txt", Access::Write).await.unwrap().links, 2);
    put(env, "b.txt", "b").await.unwrap();
    assert_eq!(get(env, "a.txt").await.unwrap(), "a");
    assert_eq!(resolve(env, "b.txt", Access::Write).await.unwrap().links, 1);
}
