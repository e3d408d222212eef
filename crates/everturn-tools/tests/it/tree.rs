//! Programs that a directory runs, and what is left of them, as Linux shows it.

use std::{fs, sync::Arc};

use everturn_core::{env::Exec, tool::Output};
use tokio::sync::Notify;

use crate::project::Project;

/// An output that tells when something is written.
fn telling() -> (Arc<Notify>, Output) {
    let told = Arc::new(Notify::new());
    let output = Output::new({
        let told = told.clone();
        move |_| told.notify_one()
    });
    (told, output)
}

/// Ends when the process of this number does not run.
fn wait_until_gone(id: &str) {
    let is_running = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    };
    while is_running() {
        std::thread::yield_now();
    }
}

#[test]
fn a_runtime_that_ends_leaves_no_process() {
    let project = Project::new(&[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (told, output) = telling();
    let line = r#"trap "" TERM; sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 1000; done' &
        until [ -s child ]; do :; done; echo $$ > self; echo ready; while :; do sleep 1000; done"#;
    let (env, exec) = (project.env(), Exec { output, ..Exec::new(["sh", "-c", line]) });
    runtime.spawn(async move { env.exec(exec).await });
    runtime.block_on(told.notified());
    runtime.shutdown_background();
    for file in ["child", "self"] {
        wait_until_gone(&fs::read_to_string(project.root.join(file)).unwrap());
    }
}

#[tokio::test]
async fn a_run_leaves_no_zombie_and_no_open_file() {
    let project = Project::new(&[]);
    let env = project.env();
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(env.exec(Exec::new(["true"])).await.unwrap().is_success());
    let before = open();
    for _ in 0..20 {
        assert!(env.exec(Exec::new(["true"])).await.unwrap().is_success());
    }
    assert_eq!(open(), before);
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    assert_eq!(children.trim(), "");
}

#[tokio::test]
async fn a_directory_that_is_renamed_is_still_the_one_a_program_runs_in() {
    let project = Project::new(&[("a.txt", "here")]);
    let env = project.env();
    fs::rename(&project.root, project.base.join("renamed")).unwrap();
    fs::create_dir(&project.root).unwrap();
    assert!(env.exec(Exec::new(["test", "-s", "a.txt"])).await.unwrap().is_success());
}
