//! The promises of the environment port, kept by a directory.

use everturn_core::env::Env;
use everturn_testkit::env::Promise;
use everturn_tools::Directory;

/// Runs a promise on an empty directory.
fn run(promise: Promise) {
    let root = tempfile::tempdir().unwrap();
    let env = Env::new(Directory::open(root.path()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(promise(&env));
}

everturn_testkit::env_suite!(run);
