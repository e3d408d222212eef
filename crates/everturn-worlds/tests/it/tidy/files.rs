//! Files: none is forgotten, and how long they are.

use std::{collections::HashMap, path::Path};

use super::{check, manifest::members, paths_in, root, sources};

/// Files that cargo finds by itself.
const ROOTS: &[&str] = &["main", "lib", "mod", "build"];
const ROOT_FOLDERS: &[&str] = &["bin", "examples", "benches"];

// A file that no `mod` names is not compiled, and its tests pass because they never run.
#[test]
fn every_file_is_named_by_its_parent() {
    let sources = sources();
    let texts: HashMap<&str, &str> = sources.iter().map(|source| (&*source.path, &*source.text)).collect();
    let mut findings = Vec::new();
    for source in &sources {
        let (folder, file) = source.path.rsplit_once('/').unwrap();
        let stem = file.trim_end_matches(".rs");
        let folder_name = folder.rsplit('/').next().unwrap();
        if ROOTS.contains(&stem) || ROOT_FOLDERS.contains(&folder_name) {
            continue;
        }
        let parents = ["main", "lib", "mod"].map(|parent| format!("{folder}/{parent}.rs"));
        let parents = parents.into_iter().chain([format!("{folder}.rs")]);
        let is_named = |parent: String| texts.get(&*parent).is_some_and(|text| names(text, stem));
        if !parents.into_iter().any(is_named) {
            findings.push(source.path.clone());
        }
    }
    check("no `mod` names the file", &findings);
}

fn names(text: &str, module: &str) -> bool {
    let declares =
        |line: &str| line == format!("mod {module};") || line.ends_with(&format!(" mod {module};"));
    text.lines().map(str::trim).any(|line| !line.starts_with("//") && declares(line))
}

#[test]
fn each_crate_has_one_binary_of_tests() {
    let mut findings = Vec::new();
    for member in members() {
        let folder = if member.name == "xtask" { "xtask".into() } else { format!("crates/{}", member.name) };
        for path in paths_in(&root().join(&folder).join("tests")) {
            let is_file = path.extension().is_some_and(|end| end == "rs");
            if is_file || (path.join("main.rs").exists() && !path.ends_with("it")) {
                findings.push(format!("{folder}: {}", path.file_name().unwrap().display()));
            }
        }
    }
    check("tests live in tests/it", &findings);
}

/// A report, not a rule: near 500 lines, look for the second noun that moved in.
#[test]
fn long_files_are_reported() {
    let mut lines: Vec<_> =
        sources().iter().map(|source| (source.text.lines().count(), source.path.clone())).collect();
    lines.sort_by(|a, b| b.cmp(a));
    let all: usize = lines.iter().map(|(lines, _)| lines).sum();
    println!("{} files, {all} lines; the longest:", lines.len());
    for (lines, path) in lines.iter().take(10) {
        let noun = Path::new(path).file_stem().unwrap().display();
        let hint =
            if *lines > 500 { format!("  which noun beside {noun} lives here?") } else { String::new() };
        println!("{lines:>6} {path}{hint}");
    }
}
