//! A directory to run the command in, with nothing of the machine's own configuration.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// A directory with a small source tree.
pub(crate) struct Place {
    directory: TempDir,
}

/// What a run of the command gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Asserts the exit code and what standard error says; nothing may stand on standard output.
    pub(crate) fn refused(&self, code: i32, says: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains(says), "{says:?} is not in {self:?}");
        assert_eq!(self.out, "", "only results go to standard output");
    }

    /// Asserts that it went well, and gives standard output.
    pub(crate) fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        place.write("src/small.rs", "fn small() -> u32 {\n    7\n}\n");
        place.write("src/large.rs", "fn large() -> u32 {\n    7_000\n}\n");
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The command, ready to run here.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
        command.args(arguments).current_dir(self.path()).env_clear().env("HOME", self.path().join("home"));
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments))
    }

    /// The id of the newest session.
    pub(crate) fn newest(&self) -> String {
        let listed = self.run(&["sessions"]).well();
        listed.split_whitespace().next().unwrap().to_owned()
    }
}

pub(crate) fn ran(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
