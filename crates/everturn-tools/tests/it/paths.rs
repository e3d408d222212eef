//! The reading rows of the policy cases that resolution alone decides (every read is allowed by a rule).

use std::{fs, path::PathBuf};

use everturn_core::ErrorKind;
use serde::Deserialize;

use crate::project::Project;

#[derive(Deserialize)]
struct Row {
    id: String,
    setup: Vec<Step>,
    path: String,
    expect: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
struct Step {
    mkdir: Option<String>,
    file: Option<String>,
    text: Option<String>,
    symlink: Option<String>,
    hardlink: Option<String>,
    fifo: Option<String>,
    to: Option<String>,
}

/// An empty directory, and the root in it once the steps are done.
fn set_up(steps: &[Step]) -> Project {
    let mut project = Project::new(&[]);
    fs::remove_dir(&project.root).unwrap();
    let fill = |text: &str, project: &Project| {
        let base = project.base.to_str().unwrap();
        text.replace("{BASE}", base).replace("{ROOT}", &format!("{base}/ws"))
    };
    for step in steps {
        let at = |place: &Option<String>| project.base.join(place.as_deref().unwrap());
        let parent = |path: &PathBuf| fs::create_dir_all(path.parent().unwrap()).unwrap();
        if step.mkdir.is_some() {
            fs::create_dir_all(at(&step.mkdir)).unwrap();
        } else if step.file.is_some() {
            parent(&at(&step.file));
            fs::write(at(&step.file), step.text.as_deref().unwrap()).unwrap();
        } else if step.symlink.is_some() {
            parent(&at(&step.symlink));
            let to = fill(step.to.as_deref().unwrap(), &project);
            std::os::unix::fs::symlink(to, at(&step.symlink)).unwrap();
        } else if step.hardlink.is_some() {
            fs::hard_link(at(&step.to), at(&step.hardlink)).unwrap();
        } else {
            let made = std::process::Command::new("mkfifo").arg(at(&step.fifo)).status();
            assert!(made.unwrap().success());
        }
    }
    project.root = project.base.join("ws").canonicalize().unwrap();
    project
}

#[tokio::test]
async fn the_reading_rows_of_the_policy_cases_hold() {
    for line in include_str!("../fixtures/paths.jsonl").lines() {
        let row: Row = serde_json::from_str(line).unwrap();
        let project = set_up(&row.setup);
        let (base, root) = (project.base.to_str().unwrap(), project.root.to_str().unwrap());
        let path = row.path.replace("{BASE}", base).replace("{ROOT}", root);
        let read = project.read(&path).await;
        let listed = project.list(&path).await;
        let is_allowed = read.is_ok() || listed.is_ok() || is_missing(&read);
        // What is missing and then left again does not resolve, which an environment calls missing too.
        let is_denied = read.is_err() && listed.is_err();
        let holds = if row.expect == "allow" { is_allowed } else { is_denied };
        assert!(holds, "{}: {}: {read:?}, {listed:?}", row.id, row.why);
        assert!(!read.is_ok_and(|text| text == "secret") || row.id == "hard-2", "{}", row.id);
    }
}

fn is_missing(read: &Result<String, everturn_core::Error>) -> bool {
    read.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound))
}
