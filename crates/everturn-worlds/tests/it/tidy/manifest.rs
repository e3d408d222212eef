//! Manifests, as far as the checks read them.

use super::{paths_in, read, root};

/// A member of the workspace.
pub(super) struct Manifest {
    /// Its folder's name, which is its name.
    pub(super) name: String,
    /// The names of what ships with it.
    pub(super) dependencies: Vec<String>,
    /// The names of what its tests, examples and benches use.
    pub(super) dev: Vec<String>,
    pub(super) text: String,
}

/// All members of the workspace.
pub(super) fn members() -> Vec<Manifest> {
    let crates = paths_in(&root().join("crates"));
    let names = crates.iter().filter(|path| path.join("Cargo.toml").exists());
    let mut paths: Vec<_> =
        names.map(|path| format!("crates/{}", path.file_name().unwrap().to_str().unwrap())).collect();
    paths.push("xtask".into());
    paths.sort();
    paths.iter().map(|path| manifest(path)).collect()
}

fn manifest(path: &str) -> Manifest {
    let text = read(&format!("{path}/Cargo.toml"));
    let name = path.rsplit('/').next().unwrap().to_owned();
    assert!(text.contains(&format!("name = {name:?}")), "{path} is named as its folder");
    let dependencies =
        ["dependencies", "build-dependencies"].iter().flat_map(|section| names(&text, section));
    Manifest { name, dependencies: dependencies.collect(), dev: names(&text, "dev-dependencies"), text }
}

/// The names in a section, for all platforms, in each way that a manifest can say them.
pub(super) fn names(text: &str, section: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            let (table, name) = match header.rsplit_once('.') {
                Some((table, name)) if name != section => (table, Some(name)),
                _ => (header, None),
            };
            is_inside = name.is_none() && is_section(table, section);
            names.extend(name.filter(|_| is_section(table, section)).map(str::to_owned));
        } else if is_inside && !line.starts_with('#') && line.contains('=') {
            let key = line.split('=').next().unwrap().trim();
            names.push(key.split('.').next().unwrap().trim_matches('"').to_owned());
        }
    }
    names
}

fn is_section(table: &str, section: &str) -> bool {
    table == section || table.ends_with(&format!(".{section}"))
}

#[test]
fn names_are_read_however_they_are_written() {
    let text = r#"
[package]
name = "x"
[dependencies]
a.workspace = true
# b = "1"
c = { version = "1" }
"d" = "1"
[dependencies.e]
version = "1"
[target.'cfg(unix)'.dependencies]
f = "1"
[target.'cfg(unix)'.dependencies.g]
version = "1"
[dev-dependencies]
h = "1"
"#;
    assert_eq!(names(text, "dependencies"), ["a", "c", "d", "e", "f", "g"]);
    assert_eq!(names(text, "dev-dependencies"), ["h"]);
}
