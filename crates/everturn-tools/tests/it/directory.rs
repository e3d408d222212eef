//! What a directory gives, and what it refuses.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, net::UnixListener},
    path::Path,
};

use everturn_core::{
    ErrorKind,
    env::{FileKind, ListDirectory, ReadFile},
};
use everturn_tools::Directory;

use crate::project::Project;

/// The error of a read, which must be `Invalid`, name the path, and say `why`.
async fn refused(project: &Project, path: &str, why: &str) {
    let error = project.read(path).await.expect_err(path);
    assert!(matches!(error.kind(), ErrorKind::Invalid), "{path:?}: {error}");
    let shown = format!("{path:?}");
    assert!(error.to_string().contains(&shown[..shown.len().min(100)]), "{error}");
    assert!(error.to_string().contains(why), "{error}");
    assert!(project.list(path).await.is_err(), "list {path:?}");
    if why.contains("leaves") {
        assert!(project.env().stat(path.into()).await.is_err(), "stat {path:?}");
    }
}

#[tokio::test]
async fn a_root_that_is_missing_or_no_directory_is_refused() {
    let project = Project::new(&[("a.txt", "a")]);
    let missing = Directory::open(&project.root.join("nothing")).unwrap_err();
    assert!(matches!(missing.kind(), ErrorKind::NotFound), "{missing}");
    assert!(missing.to_string().contains("nothing"), "{missing}");
    let file = Directory::open(&project.root.join("a.txt")).unwrap_err();
    assert!(matches!(file.kind(), ErrorKind::Invalid), "{file}");
}

#[tokio::test]
async fn a_link_that_leaves_the_root_is_refused() {
    let project = Project::new(&[]);
    fs::create_dir(project.base.join("outside")).unwrap();
    fs::write(project.base.join("outside/secret.txt"), "secret").unwrap();
    project.link("file", "../outside/secret.txt");
    project.link("directory", "../outside");
    project.link("absolute", project.base.join("outside/secret.txt"));
    project.link("chain", "file");
    project.link("dangling", "../outside/nothing");
    for path in ["file", "directory", "directory/secret.txt", "absolute", "chain", "dangling"] {
        refused(&project, path, "leaves the root").await;
    }
}

#[tokio::test]
async fn a_link_that_ends_inside_is_followed() {
    let project = Project::new(&[("src/deep/b.txt", "b"), ("src/c.txt", "c")]);
    project.link("relative", "src/deep/b.txt");
    project.link("absolute", project.root.join("src/deep/b.txt"));
    project.link("out-and-in", "../ws/src/deep/b.txt");
    project.link(
        "through-the-top",
        Path::new("/..").join(project.root.strip_prefix("/").unwrap()).join("src/deep/b.txt"),
    );
    project.link("deep", "src/deep");
    for path in ["relative", "absolute", "out-and-in", "through-the-top", "deep/b.txt"] {
        assert_eq!(project.read(path).await.expect(path), "b");
    }
    assert_eq!(project.read("deep/../c.txt").await.unwrap(), "c", "up from where the link leads");
}

#[tokio::test]
async fn a_link_by_the_name_the_root_was_opened_with_is_followed() {
    let project = Project::new(&[("a.txt", "a")]);
    let alias = project.base.join("alias");
    std::os::unix::fs::symlink(&project.root, &alias).unwrap();
    project.link("absolute", alias.join("a.txt"));
    let env = everturn_core::env::Env::new(Directory::open(&alias).unwrap());
    for path in ["absolute".to_owned(), alias.join("a.txt").display().to_string()] {
        let read = ReadFile { path, offset: 0, limit: 9 };
        assert_eq!(env.read(read).await.unwrap(), b"a");
    }
}

#[tokio::test]
async fn links_that_lead_nowhere_are_said_so() {
    let project = Project::new(&[("src/a.txt", "a")]);
    project.link("dangling", "src/nothing");
    project.link("one", "two");
    project.link("two", "one");
    let error = project.read("dangling").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound), "{error}");
    assert!(error.to_string().contains("link in it leads to nothing"), "{error}");
    refused(&project, "one", "links in a circle").await;
}

#[tokio::test]
async fn absolute_paths_are_taken_below_the_root_only() {
    let project = Project::new(&[("src/a.txt", "a")]);
    let root = project.root.to_str().unwrap();
    for path in
        [format!("{root}/src/a.txt"), format!("{root}//src/./a.txt"), format!("{root}/../ws/src/a.txt")]
    {
        assert_eq!(project.read(&path).await.expect(&path), "a");
    }
    assert_eq!(project.list(root).await.unwrap().len(), 1);
    fs::create_dir(project.base.join("ws-other")).unwrap();
    fs::write(project.base.join("ws-other/a.txt"), "other").unwrap();
    for path in [
        "/etc/hostname".into(),
        "//etc/hostname".into(),
        "/".into(),
        "..".into(),
        format!("{root}-other/a.txt"),
        format!("{root}/../ws-other/a.txt"),
        format!("/proc/self/root{root}/src/a.txt"),
        "/proc/self/cwd/src/a.txt".into(),
        "/dev/fd/0".into(),
    ] {
        refused(&project, &path, "leaves the root").await;
    }
}

#[tokio::test]
async fn kernel_links_are_not_followed_wherever_they_lead() {
    let project = Project::new(&[("a.txt", "a")]);
    let root = project.root.to_str().unwrap();
    project.link("kernel", "/proc/self/root");
    refused(&project, "kernel/etc/hostname", "leaves the root").await;
    refused(&project, &format!("kernel{root}/a.txt"), "leaves the root").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn kernel_links_are_not_followed_even_below_the_root() {
    let machine = everturn_core::env::Env::new(Directory::open(Path::new("/")).unwrap());
    let read = |path: &str| machine.read(ReadFile { path: path.into(), offset: 0, limit: 9 });
    let error = read("proc/self/root/proc/version").await.unwrap_err();
    assert!(error.to_string().contains("link of the kernel"), "{error}");
    assert_eq!(read("/proc/version").await.unwrap().len(), 9);
    assert_eq!(read("../../proc/version").await.unwrap().len(), 9, "above the top there is nothing");
}

#[tokio::test]
async fn what_is_neither_file_nor_directory_is_never_opened() {
    let project = Project::new(&[]);
    let path = project.root.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    let _socket = UnixListener::bind(project.root.join("socket")).unwrap();
    project.link("link", "pipe");
    for path in ["pipe", "socket", "link"] {
        let stat = project.env().stat(path.into()).await.unwrap();
        assert_eq!((stat.kind, stat.size), (FileKind::Other, 0));
        refused(&project, path, "never opened").await;
    }
}

#[tokio::test]
async fn hostile_paths_are_refused() {
    let project = Project::new(&[("a.txt", "a")]);
    let (long_path, long_name) = ("d/".repeat(3_000), "n".repeat(300));
    for path in [
        "",
        "a.txt\0.png",
        "a\nb",
        "tab\tname",
        "red\u{1b}[31m",
        "del\u{7f}",
        "c1\u{9b}",
        "txt.\u{202e}gnp",
        &long_path,
    ] {
        refused(&project, path, "").await;
    }
    assert!(project.read(&long_name).await.is_err());
    for path in ["two words.txt", "文件-👩\u{200d}🔬.txt", "a\\b.txt", "-rf", "~", "%2e%2e"] {
        project.file(path, "text");
        assert_eq!(project.read(path).await.expect(path), "text");
    }
}

#[tokio::test]
async fn a_file_is_no_directory_and_a_directory_no_file() {
    let project = Project::new(&[("src/a.txt", "abc")]);
    for path in ["src/a.txt/", "src/a.txt/.", "src/a.txt/..", "src/a.txt/../a.txt"] {
        refused(&project, path, "a file stands where a directory should be").await;
    }
    let error = project.read("src").await.unwrap_err();
    assert_eq!(error.to_string(), "read \"src\": it is a directory");
    let error = project.list("src/a.txt").await.unwrap_err();
    assert_eq!(error.to_string(), "list \"src/a.txt\": it is a file, not a directory");
    let error = project.read("nothing/../src/a.txt").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound), "{error}");
    let stat = project.env().stat("src/a.txt".into()).await.unwrap();
    assert_eq!((stat.kind, stat.size), (FileKind::File, 3));
}

#[tokio::test]
async fn what_the_system_refuses_is_unavailable() {
    let project = Project::new(&[("closed/a.txt", "a")]);
    let closed = project.root.join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    // Nobody refuses the superuser anything.
    if fs::read_dir(&closed).is_err() {
        let error = project.list("closed").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn reads_are_positional() {
    let project = Project::new(&[("a.txt", "0123456789")]);
    let read = async |offset, limit| {
        project.env().read(ReadFile { path: "a.txt".into(), offset, limit }).await.unwrap()
    };
    assert_eq!(read(3, 4).await, b"3456");
    assert_eq!(read(8, usize::MAX).await, b"89");
    assert_eq!(read(10, 5).await, b"");
    assert_eq!(read(u64::MAX / 2, 5).await, b"");
    assert_eq!(read(0, 0).await, b"");
}

#[tokio::test]
async fn a_huge_directory_comes_in_sorted_pages() {
    let project = Project::new(&[]);
    for i in 0..10_000 {
        fs::write(project.root.join(format!("n{i:05}")), "").unwrap();
    }
    let env = project.env();
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = env.list(ListDirectory { path: ".".into(), after, limit: 999 }).await.unwrap();
        assert!(page.len() <= 999);
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        names.extend(page.into_iter().map(|entry| entry.name));
    }
    let expected: Vec<_> = (0..10_000).map(|i| format!("n{i:05}")).collect();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn names_that_are_not_utf_8_are_replaced_in_listings() {
    let project = Project::new(&[("a", "")]);
    let name = std::ffi::OsStr::from_bytes(b"b\xff");
    // Some file systems take no such name.
    if fs::write(project.root.join(name), "").is_ok() {
        let names: Vec<_> = project.list(".").await.unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["a", "b\u{fffd}"]);
    }
}

#[tokio::test]
async fn a_deep_tree_can_be_read_to_its_end() {
    let project = Project::new(&[]);
    let deep = "d/".repeat(1_500);
    project.file(&format!("{deep}a.txt"), "deep");
    assert_eq!(project.read(&format!("{deep}a.txt")).await.unwrap(), "deep");
    let error = project.read(&format!("{deep}../a.txt")).await.unwrap_err();
    assert!(error.to_string().contains("no such file"), "{error}");
}
