//! What the machine does to a store: a disk that is really full, a file that may not be written or read.
//!
//! Each runs in a child that the machine treats so. Where it lets nobody arrange that, the test says so and passes.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

use everturn_core::{
    error::ErrorKind,
    id::SessionId,
    storage::{Committed, Store},
};
use everturn_store::{Options, open};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, owner, session_id},
};

use crate::{crash::child_path, files::Temporary};

/// Whether the machine lets us arrange something; says so loudly where it does not.
fn can(what: &str, mut probe: Command) -> bool {
    let is_possible = probe.output().is_ok_and(|output| output.status.success());
    if !is_possible {
        println!("==> SKIPPED: this machine does not let the tests {what}");
    }
    is_possible
}

/// Runs one test of this program with the words of `command` in front, and has it succeed.
fn run(mut command: Command, test: &str, path: &Path) {
    let program = std::env::current_exe().unwrap();
    let output = command.arg(program).args(["--exact", test, "--nocapture"]).arg(path).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("1 passed"), "{out}");
}

/// A small disk of its own, mounted over the directory, for whoever runs behind these words.
fn on_a_small_disk(directory: &Path) -> Command {
    let mut command = Command::new("unshare");
    let mount = format!("mount -t tmpfs -o size=3m none '{}' && exec \"$@\"", directory.display());
    command.args(["--map-root-user", "--mount", "sh", "-c", &mount, "sh"]);
    command
}

#[test]
fn a_disk_that_is_full_loses_nothing_and_the_session_goes_on_when_there_is_room() {
    let file = Temporary::new();
    let directory = file.path().parent().unwrap().to_owned();
    let mut probe = on_a_small_disk(&directory);
    probe.arg("true");
    if can("mount a small disk", probe) {
        run(on_a_small_disk(&directory), "machine::child_on_a_full_disk", &file.path());
    }
}

/// The child of the test above. As a test of its own it has nothing to do.
#[test]
fn child_on_a_full_disk() {
    let Some(path) = child_path() else { return };
    block_on(async {
        let store = open(&path.display().to_string(), Options::new(owner())).await.unwrap();
        let mut scene = Scene::new(&store).await;
        // Somebody else's file takes most of the disk.
        let hog = path.with_extension("hog");
        fs::write(&hog, vec![7; 1 << 20]).unwrap();
        let (mut stored, text) = (0, "a".repeat(60_000));
        let (refused, error) = loop {
            let batch = scene.batch(vec![]);
            let entry = scene.entry(&text).into_write();
            let batch = everturn_core::storage::Batch { writes: [entry].into(), ..batch };
            match scene.send(batch.clone()).await {
                Ok(_) => stored += 1,
                Err(error) => break (batch, error),
            }
        };
        assert!(
            matches!(error.kind(), ErrorKind::Unavailable { .. }),
            "a full disk is no other fault: {error}"
        );
        assert!(error.to_string().contains("no room"), "{error}");
        assert!(stored > 3, "{stored}");
        assert_eq!(scene.texts().await.len(), stored, "earlier data is intact");
        assert!(scene.send(refused.clone()).await.is_err(), "and it stays so while there is no room");
        fs::remove_file(&hog).unwrap();
        assert_eq!(scene.send(refused).await.unwrap(), Committed::Stored, "the same session goes on");
        assert_eq!(scene.texts().await.len(), stored + 1);
        assert_eq!(store.check().await.unwrap(), []);
    });
}

/// Someone without rights to everything, as whoever runs behind these words: we ourselves, unless we are root.
fn as_nobody(file: &Temporary) -> Command {
    if fs::metadata(file.path().parent().unwrap()).unwrap().uid() != 0 {
        return Command::new("env");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
}

/// A store with a session, in a directory that everyone may use.
fn shared_file() -> Temporary {
    let file = Temporary::new();
    block_on(async { Scene::new(&file.open().await).await });
    for entry in fs::read_dir(file.path().parent().unwrap()).unwrap().flatten() {
        let mode = if entry.path().is_dir() { 0o777 } else { 0o666 };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(file.path().parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    file
}

fn refused_with_mode(mode: u32, child: &str) {
    let file = shared_file();
    let mut probe = as_nobody(&file);
    probe.arg("true");
    if can("run as someone without rights", probe) {
        let before = fs::read(file.path()).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        run(as_nobody(&file), child, &file.path());
        assert!(fs::read(file.path()).unwrap() == before, "it was left as it is");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666)).unwrap();
        run(as_nobody(&file), "machine::child_with_rights", &file.path());
    }
}

#[test]
fn a_file_that_may_not_be_written_is_refused_as_that() {
    refused_with_mode(0o444, "machine::child_that_may_only_read");
}

#[test]
fn a_file_that_may_not_be_read_is_refused_as_that() {
    refused_with_mode(0o000, "machine::child_that_may_not_read");
}

async fn opened(path: &Path) -> everturn_core::Result<Store> {
    open(&path.display().to_string(), Options::new(owner())).await
}

/// The child of a test above. As a test of its own it has nothing to do.
#[test]
fn child_that_may_only_read() {
    let Some(path) = child_path() else { return };
    let error = block_on(opened(&path)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("may only be read"), "{error}");
}

/// The child of a test above. As a test of its own it has nothing to do.
#[test]
fn child_that_may_not_read() {
    let Some(path) = child_path() else { return };
    let error = block_on(opened(&path)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("may not be read"), "neither missing nor damaged: {error}");
}

/// The child of a test above. As a test of its own it has nothing to do.
#[test]
fn child_with_rights() {
    let Some(path) = child_path() else { return };
    let found = block_on(async { opened(&path).await.unwrap().session(session_id(1)).await.unwrap() });
    let id: SessionId = found.expect("the session is there").id;
    assert_eq!(id, session_id(1));
}
