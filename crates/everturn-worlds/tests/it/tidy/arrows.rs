//! Arrows between crates, and what each crate must never contain.

use super::{
    check,
    manifest::{Manifest, members},
    tree,
};

const CORE: &str = "everturn-core";
const MACROS: &str = "everturn-macros";
const ENGINE: &str = "everturn-engine";
const STORE: &str = "everturn-store";
const MODELS: &str = "everturn-models";
const TOOLS: &str = "everturn-tools";
const SERVE: &str = "everturn-serve";
const OTEL: &str = "everturn-otel";
const FACADE: &str = "everturn";
const CLI: &str = "everturn-cli";
const TESTKIT: &str = "everturn-testkit";
const WORLDS: &str = "everturn-worlds";

/// Which of our crates a crate may depend on. Its tests may use the testkit too.
const ARROWS: &[(&str, &[&str])] = &[
    (CORE, &[MACROS]),
    (MACROS, &[]),
    (ENGINE, &[CORE, MACROS]),
    (STORE, &[CORE]),
    (MODELS, &[CORE]),
    (TOOLS, &[CORE, MACROS]),
    (SERVE, &[CORE, ENGINE]),
    (OTEL, &[CORE, ENGINE]),
    (FACADE, &[CORE, MACROS, ENGINE, STORE, MODELS, TOOLS, SERVE, OTEL]),
    (CLI, &[CORE, MACROS, ENGINE, STORE, MODELS, TOOLS, SERVE, OTEL, FACADE]),
    (TESTKIT, &[CORE]),
    (WORLDS, &[CORE, MACROS, ENGINE, STORE, MODELS, TOOLS, SERVE, OTEL, FACADE, CLI, TESTKIT]),
    ("xtask", &[]),
];

const SQL: &[&str] = &["rusqlite", "libsqlite3-sys", "tokio-postgres"];
const HTTP: &[&str] = &["reqwest", "hyper", "rustls", "axum"];
const TERMINAL: &[&str] = &["clap", "rustyline"];
const RUNTIME: &[&str] = &["tokio", "mio"];
const CHANCE: &[&str] = &["getrandom", "rand", "fastrand"];

/// What must not ship with a crate, at any depth.
const NEVER: &[(&str, &[&[&str]])] = &[
    (CORE, &[SQL, HTTP, TERMINAL, RUNTIME, CHANCE]),
    (ENGINE, &[SQL, HTTP, TERMINAL]),
    (STORE, &[HTTP, TERMINAL]),
    (MODELS, &[SQL, TERMINAL]),
    (TOOLS, &[SQL, HTTP, TERMINAL]),
    (OTEL, &[SQL, TERMINAL]),
    (TESTKIT, &[SQL, HTTP, TERMINAL]),
];

#[test]
fn crates_depend_on_each_other_as_the_house_is_drawn() {
    let mut findings = Vec::new();
    for member in members() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == member.name) else {
            findings.push(format!("{} is not in the table of arrows", member.name));
            continue;
        };
        findings.extend(wrong(&member.name, &member.dependencies, |to| allowed.contains(&to)));
        findings.extend(wrong(&member.name, &member.dev, |to| to == TESTKIT || allowed.contains(&to)));
    }
    check("an arrow that is not in the table", &findings);
}

fn wrong(from: &str, to: &[String], is_allowed: impl Fn(&str) -> bool) -> Vec<String> {
    let ours = to.iter().filter(|name| name.starts_with("everturn"));
    ours.filter(|name| !is_allowed(name)).map(|name| format!("{from} -> {name}")).collect()
}

#[test]
fn what_a_crate_must_never_contain_is_not_below_it_either() {
    let mut findings = Vec::new();
    for (name, never) in NEVER {
        let below = tree(&format!("-p {name} -e normal --all-features --prefix none --format {{lib}}"));
        assert!(below.lines().any(|line| line == "serde_json"), "what is below {name} was listed");
        let is_below = |library: &&str| {
            below.lines().any(|line| line.split(' ').next() == Some(&library.replace('-', "_")))
        };
        let found = never.concat().into_iter().filter(|library| is_below(library));
        findings.extend(found.map(|library| format!("{name} -> ... -> {library}")));
    }
    check("a crate must never contain", &findings);
}

#[test]
fn every_crate_keeps_the_workspace_s_lints() {
    let lax = |member: &Manifest| !member.text.contains("[lints]\nworkspace = true");
    let findings: Vec<_> = members().into_iter().filter(lax).map(|member| member.name).collect();
    check("a manifest says `[lints]` `workspace = true`", &findings);
}

// Any crate in the graph can turn it on for all, and then numbers are maps of a secret key to everyone who reads them.
// Guards that stored JSON reads the same whatever else is built.
#[test]
fn numbers_are_numbers_in_the_whole_graph() {
    let features = tree("--workspace -e features -i serde_json");
    assert!(features.contains(r#"serde_json feature "raw_value""#), "the features were listed");
    assert!(!features.contains("arbitrary_precision"), "{features}");
}
