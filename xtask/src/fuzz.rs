//! The fuzz targets: each is built for libFuzzer and runs a fixed number of inputs, the same ones each time.

use std::{
    fs::{self, DirEntry},
    io,
    process::Command,
};

use crate::{
    command::{cargo, root},
    gates::Passed,
};

const TARGETS: &[&str] = &["document_difference", "cursor", "archive"];

/// How many inputs each target gets; some seconds' work.
const RUNS: u32 = 50_000;

/// The targets' code says where it has been, which is how libFuzzer finds its way. These are the flags of `cargo fuzz`, but for
/// those that need a nightly compiler.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs every target from its corpus.
pub(crate) fn run() -> Passed {
    let compiler = Command::new("c++").arg("--version").output();
    if !compiler.is_ok_and(|output| output.status.success()) {
        println!(
            "==> SKIPPED: a C++ compiler (`c++`) is missing, and libFuzzer is C++. `.ci/run` installs one."
        );
        return Ok(());
    }
    // The target platform is named, or else the compiler's own plug-ins would be built with the flags too.
    cargo("build --manifest-path fuzz/Cargo.toml --locked --release --target host-tuple")
        .env("RUSTFLAGS", FLAGS)
        .run()?;
    TARGETS.iter().try_for_each(|target| run_one(target))
}

fn run_one(target: &str) -> Passed {
    // What fails is kept where `cargo fuzz` keeps it. The corpus is read and not written to, so that each run is the same.
    let artifacts = format!("fuzz/artifacts/{target}/");
    fs::create_dir_all(root().join(&artifacts)).map_err(|fault| format!("make {artifacts}: {fault}"))?;
    let seeds = corpus(target)?.join(",");
    cargo("run --manifest-path fuzz/Cargo.toml --locked --release --target host-tuple")
        .args(["--bin", target, "--"])
        .args([format!("-runs={RUNS}"), "-seed=1".into(), "-max_len=4096".into()])
        .args([format!("-artifact_prefix={artifacts}"), format!("-seed_inputs={seeds}")])
        .env("RUSTFLAGS", FLAGS)
        .run_hushed()?;
    println!("fuzz target {target}: {RUNS} runs found nothing");
    Ok(())
}

/// The paths of the inputs that are kept, from the root, in the order of their names.
fn corpus(target: &str) -> Result<Vec<String>, String> {
    let folder = format!("fuzz/corpus/{target}");
    let read = || -> io::Result<Vec<String>> {
        let path = |entry: DirEntry| format!("{folder}/{}", entry.file_name().display());
        fs::read_dir(root().join(&folder))?.map(|entry| entry.map(path)).collect()
    };
    let mut paths = read().map_err(|fault| format!("read {folder}: {fault}"))?;
    paths.sort();
    Ok(paths)
}
