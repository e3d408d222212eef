//! The gates that a change passes, in order, up to the first that is shut.
//!
//! All of them but fuzz build with one profile, for the whole workspace and with what is off by default, so that nothing is
//! built twice.

use std::process::ExitCode;

use crate::{
    command::{cargo, is_ci},
    examples, fuzz, killed,
};

/// Why a gate is shut, in words.
pub(crate) type Passed = Result<(), String>;

/// When licences and bans are checked.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Deny {
    /// Where the checker is installed, and in CI.
    IfInstalledOrCi,
    /// Everywhere: what is missing is installed.
    Always,
}

/// Runs all gates, and says which one is shut.
pub(crate) fn pass(deny: Deny) -> ExitCode {
    let gates: [(&str, &dyn Fn() -> Passed); 9] = [
        ("format", &format),
        ("clippy", &clippy),
        ("tests", &tests),
        ("doctests", &doctests),
        ("examples", &examples::run),
        ("killed at random", &|| killed::run(killed::RUNS, None)),
        ("fuzz", &fuzz::run),
        ("licences and bans", &|| licences(deny)),
        ("documentation", &documentation),
    ];
    for (number, (name, gate)) in (1..).zip(gates) {
        println!("\n==> {number} of {}: {name}", gates.len());
        if let Err(why) = gate() {
            eprintln!("\n==> FAILED at {name} ({number} of {}): {why}", gates.len());
            return ExitCode::FAILURE;
        }
    }
    println!("\n==> all {} passed", gates.len());
    ExitCode::SUCCESS
}

fn format() -> Passed {
    cargo("fmt --all --check").run()?;
    cargo("fmt --manifest-path fuzz/Cargo.toml --check").run()
}

fn clippy() -> Passed {
    // First as it is built by default: nothing may lean on what is off.
    cargo("clippy --workspace --all-targets --profile ci -- -D warnings").run()?;
    cargo("clippy --workspace --features everturn-cli/otel --all-targets --profile ci -- -D warnings").run()
}

fn tests() -> Passed {
    if !cargo("nextest --version").succeeds() {
        println!("==> cargo-nextest is missing: it is BUILT AND INSTALLED NOW, which takes some minutes");
        cargo("install cargo-nextest --locked --version 0.9.143").run()?;
    }
    cargo("nextest run --workspace --features everturn-cli/otel --cargo-profile ci").run()
}

fn doctests() -> Passed {
    cargo("test --doc --workspace --features everturn-cli/otel --profile ci --quiet").run()
}

fn licences(deny: Deny) -> Passed {
    if !cargo("deny --version").succeeds() {
        if deny == Deny::IfInstalledOrCi && !is_ci() {
            println!(
                "==> SKIPPED: cargo-deny is missing. `cargo xtask test --deny` installs it and checks licences and bans."
            );
            return Ok(());
        }
        println!("==> cargo-deny is missing: it is BUILT AND INSTALLED NOW, which takes some minutes");
        cargo("install cargo-deny --locked --version 0.20.2").run()?;
    }
    // The checker reads the manifests of all platforms' crates, also of those that are not built here.
    cargo("fetch").run()?;
    cargo("deny --offline check licenses bans sources").run()
}

fn documentation() -> Passed {
    cargo("doc --workspace --features everturn-cli/otel --no-deps --profile ci")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}
