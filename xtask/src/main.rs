//! Everturn's own errands: `cargo xtask test` runs everything that CI runs.

mod command;
mod examples;
mod fuzz;
mod gates;

use std::process::ExitCode;

const HELP: &str = "\
Everturn's own errands.

Usage: cargo xtask test [--deny]

  test      everything that CI runs, in order, up to the first failure: format, clippy, tests, doctests,
            examples, fuzz targets, licences and bans, documentation
    --deny  installs cargo-deny where it is missing (about three minutes of a processor); CI=1 does too
  help      this text
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["test"] => gates::pass(gates::Deny::IfInstalledOrCi),
        ["test", "--deny"] => gates::pass(gates::Deny::Always),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
    }
}
