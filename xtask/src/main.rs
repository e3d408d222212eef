//! Everturn's own errands: `cargo xtask test` runs everything that CI runs.

mod command;
mod examples;
mod fuzz;
mod gates;
mod killed;

use std::process::ExitCode;

const HELP: &str = "\
Everturn's own errands.

Usage: cargo xtask test [--deny]
       cargo xtask killed [RUNS [SEED]]

  test      everything that CI runs, in order, up to the first failure: format, clippy, tests, doctests,
            examples, examples killed at random, fuzz targets, licences and bans, documentation
    --deny  installs cargo-deny where it is missing (about three minutes of a processor); CI=1 does too
  killed    kills the examples of tasks at random, in so many runs of each (100), and proves that each run
            comes to the same end; the moments come from the seed, which is printed
  help      this text
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["test"] => gates::pass(gates::Deny::IfInstalledOrCi),
        ["test", "--deny"] => gates::pass(gates::Deny::Always),
        ["killed", ref numbers @ ..] if let Some((runs, seed)) = runs_and_seed(numbers) => {
            match killed::run(runs, seed) {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => {
                    eprintln!("{why}");
                    ExitCode::FAILURE
                }
            }
        }
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

/// The numbers behind `killed`; none where they are no numbers.
fn runs_and_seed(words: &[&str]) -> Option<(u32, Option<u64>)> {
    match words {
        [] => Some((100, None)),
        [runs] => Some((runs.parse().ok()?, None)),
        [runs, seed] => Some((runs.parse().ok()?, Some(seed.parse().ok()?))),
        _ => None,
    }
}
