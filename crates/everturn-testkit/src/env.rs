//! The promises of the environment port, as functions over any [`Env`].
//!
//! Shape: a chapter is a file, a promise is an async function whose name says it, and panics where it is broken. Each
//! runs on an environment of its own whose root is an empty directory, and which has the programs of a Unix.

#![expect(clippy::unwrap_used, reason = "a promise that is broken panics")]

pub mod ends;
pub mod files;
pub mod places;
pub mod programs;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use everturn_core::{
    BoxFuture, Error, ErrorKind, Result,
    env::{Access, Env, Exec, Exit, Expect, ReadFile, ResolvePath, Resolved, WriteFile, Written},
    tool::Output,
};

/// A promise: a check that panics where it is broken.
///
/// ```
/// use everturn_core::env::Env;
/// use everturn_testkit::env::{Promise, files};
///
/// let promise: Promise = |env| Box::pin(files::a_missing_file_is_not_found(env));
/// # let _ = promise;
/// ```
pub type Promise = for<'a> fn(&'a Env) -> BoxFuture<'a, ()>;

macro_rules! promises {
    ($d:tt $($chapter:ident { $($name:ident)+ })+) => {
        /// All promises, by name.
        ///
        /// ```
        /// for (name, _) in everturn_testkit::env::suite() {
        ///     println!("{name}");
        /// }
        /// ```
        pub fn suite() -> Vec<(&'static str, Promise)> {
            vec![$($((stringify!($name), |env| Box::pin($chapter::$name(env)))),+),+]
        }

        /// A `#[test]` for every promise of the environment port.
        ///
        /// Shape: one function that takes a [`Promise`](crate::env::Promise) and runs it, in the runtime that the
        /// environment asks for, on a fresh environment whose root is empty.
        ///
        /// ```text
        /// mod directory {
        ///     fn run(promise: everturn_testkit::env::Promise) {
        ///         let root = tempfile::tempdir().unwrap();
        ///         let env = Env::new(Directory::open(root.path()).unwrap());
        ///         runtime().block_on(promise(&env));
        ///     }
        ///     everturn_testkit::env_suite!(run);
        /// }
        /// ```
        #[macro_export]
        macro_rules! env_suite {
            ($d run:expr) => {
                $($(
                    #[test]
                    fn $name() {
                        $d run(|env| Box::pin($d crate::env::$chapter::$name(env)));
                    }
                )+)+
            };
        }
    };
}

promises! { $
    files {
        what_was_written_is_read
        a_write_replaces_the_whole_file
        a_write_makes_the_directories_above_it
        a_missing_file_is_not_found
        a_version_is_another_after_each_write
        nothing_is_written_where_something_else_was_expected
        of_writers_that_expect_the_same_one_wins
        a_reader_sees_a_file_before_or_after_a_write
        a_write_leaves_nothing_beside_its_file
        a_file_that_was_removed_is_gone
        a_directory_is_neither_written_nor_removed
    }
    places {
        nothing_outside_is_read_or_written
        a_link_that_leaves_is_not_followed
        a_link_that_stays_inside_is_followed
        below_git_nothing_is_written
        hostile_paths_are_refused
        a_path_resolves_to_where_it_leads
        a_missing_name_resolves_to_what_would_be_made
        what_leads_nowhere_does_not_resolve
        what_lies_outside_is_told
        the_names_of_a_file_are_counted
    }
    programs {
        a_program_gives_its_output_and_its_code
        output_comes_in_the_order_in_which_it_is_written
        output_comes_while_the_program_runs
        no_shell_reads_the_arguments
        a_program_reads_what_it_is_given
        a_program_runs_where_it_is_told
        a_program_gets_its_variables_and_none_of_the_host_s
        a_program_that_does_not_exist_is_named
        what_is_no_program_is_refused
    }
    ends {
        a_deadline_ends_the_whole_tree
        a_cancellation_ends_the_whole_tree
        a_dropped_run_ends_the_whole_tree
        a_run_that_was_cancelled_before_does_not_begin
        a_process_that_ignores_the_request_is_ended
        a_process_that_is_left_behind_holds_nobody_up
        a_signal_is_told
    }
}

/// Writes a file, whatever there is.
async fn put(env: &Env, path: &str, text: &str) -> Result<Written> {
    put_if(env, path, text, Expect::Any).await
}

async fn put_if(env: &Env, path: &str, text: &str, expect: Expect) -> Result<Written> {
    env.write(WriteFile { path: path.into(), bytes: text.into(), expect }).await
}

async fn get(env: &Env, path: &str) -> Result<String> {
    let bytes = env.read(ReadFile { path: path.into(), offset: 0, limit: 1 << 24 }).await?;
    Ok(String::from_utf8(bytes).unwrap())
}

async fn resolve(env: &Env, path: &str, access: Access) -> Result<Resolved> {
    env.resolve(ResolvePath { path: path.into(), access }).await
}

/// Runs a line of the shell, and gives its output.
async fn shell(env: &Env, line: &str) -> (Exit, String) {
    run(env, Exec::new(["sh", "-c", line])).await
}

async fn run(env: &Env, exec: Exec) -> (Exit, String) {
    let (output, text) = kept();
    let exit = env.exec(Exec { output, ..exec }).await.unwrap();
    let text = text.lock().unwrap().clone();
    (exit, String::from_utf8(text).unwrap())
}

/// An output, and what was written to it.
fn kept() -> (Output, Arc<Mutex<Vec<u8>>>) {
    let text: Arc<Mutex<Vec<u8>>> = Arc::default();
    let output = Output::new({
        let text = text.clone();
        move |bytes| text.lock().unwrap().extend_from_slice(bytes)
    });
    (output, text)
}

/// Where the root is on its machine, as the environment's own programs see it.
async fn root(env: &Env) -> PathBuf {
    let (exit, text) = shell(env, "pwd -P").await;
    assert!(exit.is_success(), "{exit:?}");
    text.trim_end().into()
}

/// Whether an error has this kind and names the path.
fn names(error: &Error, path: &str, is_kind: fn(&ErrorKind) -> bool) -> bool {
    is_kind(error.kind()) && error.to_string().contains(path)
}
