//! Forbidden calls: clippy knows them, and nobody hushes it in silence.

use super::{Source, check, manifest::members, read, sources};

const LINT: &str = concat!("clippy::", "disallowed_methods");

/// The files that stand behind a port, or measure, and may expect the lint.
const BEHIND_A_PORT: &[&str] = &[
    "crates/everturn-cli/src/config.rs",
    "crates/everturn-engine/src/world.rs",
    "crates/everturn-tools/src/directory/process.rs",
    "crates/everturn-tools/src/directory/process/program.rs",
    "crates/everturn-worlds/benches/",
    "xtask/src/command.rs",
];

#[test]
fn clippy_forbids_clock_sleep_randomness_and_environment() {
    let list = read("clippy.toml");
    let forbidden = [
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "std::thread::sleep",
        "tokio::time::sleep",
        "tokio::time::timeout",
        "uuid::Uuid::new_v4",
        "uuid::Uuid::now_v7",
        "std::env::var",
        "std::env::var_os",
        "std::env::vars",
        "std::env::current_dir",
    ];
    let is_missing = |path: &&&str| !list.contains(&format!("path = \"{path}\""));
    let findings: Vec<_> = forbidden.iter().filter(is_missing).map(ToString::to_string).collect();
    check("clippy.toml forbids", &findings);
    assert!(read("Cargo.toml").contains(r#"disallowed_methods = "deny""#), "the workspace's lints deny them");
    let hushed = members().into_iter().filter(|member| member.text.contains("disallowed_methods"));
    check("no manifest changes the lint", &hushed.map(|member| member.name).collect::<Vec<_>>());
}

#[test]
fn forbidden_calls_are_expected_only_behind_a_port() {
    let mut findings = Vec::new();
    for source in sources() {
        let may_expect = BEHIND_A_PORT.iter().any(|path| source.path.starts_with(path));
        for attribute in hushing(&source) {
            if attribute != "expect" || !may_expect {
                findings.push(format!("{}: {attribute}({LINT})", source.path));
            }
        }
    }
    check("a forbidden call that is not behind a port", &findings);
}

/// The attributes that name the lint.
fn hushing(source: &Source) -> Vec<&'static str> {
    let mentions = source.text.match_indices(LINT).map(|(at, _)| &source.text[..at]);
    let is_code = |before: &&str| !before.rsplit('\n').next().unwrap().trim_start().starts_with("//");
    let attribute = |before: &str| {
        let last = |word: &str| before.rfind(&format!("{word}("));
        ["allow", "expect", "warn"].into_iter().max_by_key(|word| last(word)).unwrap()
    };
    mentions.filter(is_code).map(attribute).collect()
}

#[test]
fn an_attribute_is_found_over_several_lines_and_not_in_comments() {
    let text = format!(
        "// allow({LINT})\n#[expect(\n    {LINT},\n    reason = \"\"\n)]\n#![allow(unused, {LINT})]\n"
    );
    assert_eq!(hushing(&Source { path: String::new(), text }), ["expect", "allow"]);
}
