//! The policy cases for paths: each path is resolved, judged by the rules of its row, and then used.

use std::{fs, path::PathBuf};

use everturn_core::env::{Access, Expect, ResolvePath, Resolved, WriteFile};
use serde::Deserialize;

use crate::project::Project;

#[derive(Deserialize)]
struct Row {
    id: String,
    setup: Vec<Step>,
    rules: Vec<Rule>,
    interactive: bool,
    act: String,
    path: String,
    expect: String,
    #[serde(default)]
    untouched: Vec<String>,
    #[serde(default)]
    absent: Vec<String>,
    #[serde(default)]
    present: Vec<String>,
    race: Option<Race>,
    needs: Option<String>,
    why: String,
}

#[derive(Deserialize)]
struct Rule {
    effect: String,
    act: String,
    glob: String,
}

#[derive(Deserialize)]
struct Race {
    #[serde(rename = "do")]
    steps: Vec<Step>,
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
    rename: Option<String>,
    to: Option<String>,
}

impl Row {
    /// An empty directory, and the root in it once the steps are done.
    fn set_up(&self) -> Project {
        let mut project = Project::new(&[]);
        fs::remove_dir(&project.root).unwrap();
        self.setup.iter().for_each(|step| step.act(&project));
        project.root = project.base.join("ws").canonicalize().unwrap();
        project
    }

    fn access(&self) -> Access {
        if self.act == "read" { Access::Read } else { Access::Write }
    }

    /// Whether the file system is one that the row speaks of.
    fn applies(&self) -> bool {
        let Some(needs) = &self.needs else { return true };
        let probe = Project::new(&[("name", "a"), ("caf\u{e9}", "a")]);
        let is_there = |name: &str| probe.root.join(name).exists();
        match needs.as_str() {
            "case_sensitive" => !is_there("NAME"),
            "case_insensitive" => is_there("NAME"),
            "no_normalisation" => !is_there("cafe\u{301}"),
            other => other == "unix",
        }
    }

    /// What the rules say of a path that was resolved.
    fn verdict(&self, resolved: &Resolved, base: &str) -> &str {
        let default = if self.interactive { "ask" } else { "deny" };
        let matches = |rule: &&Rule| {
            let glob = rule.glob.replace("{BASE}", base);
            rule.act == self.act && is_match(&parts(&glob), &parts(&resolved.path))
        };
        let effects: Vec<_> = self.rules.iter().filter(matches).map(|rule| rule.effect.as_str()).collect();
        if effects.is_empty() && resolved.is_outside() {
            return "deny";
        }
        // In place, a write to a file with several names may change one that lies outside.
        let is_shared = self.access() == Access::Write && resolved.links > 1;
        match ["deny", "ask", "allow"].into_iter().find(|effect| effects.contains(effect)) {
            Some("allow") if is_shared => default,
            Some(effect) => effect,
            None => default,
        }
    }
}

impl Step {
    fn act(&self, project: &Project) {
        let base = project.base.to_str().unwrap();
        let at = |place: &Option<String>| project.base.join(place.as_deref().unwrap());
        let parent = |path: &PathBuf| fs::create_dir_all(path.parent().unwrap()).unwrap();
        if self.mkdir.is_some() {
            fs::create_dir_all(at(&self.mkdir)).unwrap();
        } else if self.file.is_some() {
            parent(&at(&self.file));
            fs::write(at(&self.file), self.text.as_deref().unwrap()).unwrap();
        } else if self.symlink.is_some() {
            parent(&at(&self.symlink));
            let to = self.to.as_deref().unwrap();
            let to = to.replace("{BASE}", base).replace("{ROOT}", &format!("{base}/ws"));
            std::os::unix::fs::symlink(to, at(&self.symlink)).unwrap();
        } else if self.hardlink.is_some() {
            fs::hard_link(at(&self.to), at(&self.hardlink)).unwrap();
        } else if self.rename.is_some() {
            fs::rename(at(&self.rename), at(&self.to)).unwrap();
        } else {
            let made = std::process::Command::new("mkfifo").arg(at(&self.fifo)).status();
            assert!(made.unwrap().success());
        }
    }
}

/// The names of a path or a glob; those of an absolute one begin with an empty name, those of the root are none.
fn parts(path: &str) -> Vec<&str> {
    if path == "." { Vec::new() } else { path.split('/').collect() }
}

fn is_match(glob: &[&str], path: &[&str]) -> bool {
    match (glob, path) {
        // What lies outside is only named by what begins at the top of the machine.
        (["**", ..], ["", ..]) => false,
        (["**", rest @ ..], _) => {
            is_match(rest, path) || matches!(path, [_, behind @ ..] if is_match(glob, behind))
        }
        ([part, glob @ ..], [name, path @ ..]) => is_match_part(part, name) && is_match(glob, path),
        (glob, path) => glob.is_empty() && path.is_empty(),
    }
}

fn is_match_part(part: &str, name: &str) -> bool {
    match part.split_once('*') {
        None => part == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|name| {
            let mut tails = (0..=name.len()).filter_map(|at| name.get(at..));
            tails.any(|tail| is_match_part(rest, tail))
        }),
    }
}

/// Does what was asked for, and gives whether it was done.
async fn act(project: &Project, row: &Row, path: &str) -> bool {
    match row.access() {
        Access::Read => {
            let read = project.read(path).await;
            assert!(!read.as_ref().is_ok_and(|text| text == "secret") || row.id == "hard-2", "{}", row.id);
            read.is_ok() || project.list(path).await.is_ok()
        }
        Access::Write => {
            let write = WriteFile { path: path.into(), bytes: b"written".into(), expect: Expect::Any };
            project.env().write(write).await.is_ok()
        }
    }
}

#[tokio::test]
async fn every_row_of_the_policy_cases_for_paths_holds() {
    for line in include_str!("../fixtures/paths.jsonl").lines() {
        let row: Row = serde_json::from_str(line).unwrap();
        if !row.applies() {
            continue;
        }
        let project = row.set_up();
        let (base, root) = (project.base.to_str().unwrap(), project.root.to_str().unwrap());
        let path = row.path.replace("{BASE}", base).replace("{ROOT}", root);
        let contents = |place: &String| fs::read(project.base.join(place)).unwrap();
        let before: Vec<_> = row.untouched.iter().map(contents).collect();

        let resolved = project.env().resolve(ResolvePath { path: path.clone(), access: row.access() }).await;
        let verdict = resolved.as_ref().map_or("deny", |resolved| row.verdict(resolved, base));
        assert_eq!(verdict, row.expect, "{}: {}: {resolved:?}", row.id, row.why);
        if let Some(race) = &row.race {
            race.steps.iter().for_each(|step| step.act(&project));
        }
        let must_fail = resolved.as_ref().map_or(true, Resolved::is_outside);
        // What the rules alone refuse is not tried; what resolution refuses, using it refuses too.
        if verdict == "allow" || must_fail || resolved.is_ok_and(|resolved| resolved.links > 1) {
            let is_done = act(&project, &row, &path).await;
            assert!(!(must_fail && is_done), "{}: {}", row.id, row.why);
            assert!(
                is_done || must_fail || row.race.is_some() || row.act == "read",
                "{}: {}",
                row.id,
                row.why
            );
        }
        assert_eq!(row.untouched.iter().map(contents).collect::<Vec<_>>(), before, "{}: {}", row.id, row.why);
        let is_there = |place: &&String| fs::symlink_metadata(project.base.join(place)).is_ok();
        assert_eq!(row.absent.iter().find(is_there), None, "{}: {}", row.id, row.why);
        assert!(row.present.iter().all(|place| is_there(&place)), "{}: {}", row.id, row.why);
    }
}
