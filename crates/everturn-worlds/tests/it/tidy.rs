//! The house stays as it is drawn: arrows, forbidden calls, words, files, promises.

mod arrows;
mod calls;
mod files;
mod manifest;
mod papers;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// A file of Rust, its path from the root with `/` between.
struct Source {
    path: String,
    text: String,
}

/// All Rust of the repository.
fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in ["crates", "xtask", "examples", "benches"] {
        collect(&root().join(folder), &mut sources);
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(sources.len() > 50, "the sources were found");
    sources
}

fn collect(folder: &Path, sources: &mut Vec<Source>) {
    for path in paths_in(folder) {
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("fixtures") {
                collect(&path, sources);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
            sources.push(Source { path, text });
        }
    }
}

/// What is in a folder; nothing where there is none.
fn paths_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|fault| panic!("read {path}: {fault}"))
}

/// What `cargo tree` prints; no network.
fn tree(words: &str) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline"])
        .args(words.split(' '))
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo tree {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Fails with all findings, one a line.
fn check(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}
