//! Commands that are shown, run from the root of the repository, and fail in words.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
};

use crate::gates::Passed;

/// A cargo command.
pub(crate) struct Cargo {
    words: &'static str,
    command: Command,
}

/// The cargo command of these words, which are parted by spaces.
pub(crate) fn cargo(words: &'static str) -> Cargo {
    let mut command = Command::new("cargo");
    command.args(words.split_whitespace()).current_dir(root());
    Cargo { words, command }
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder in the repository")
}

/// Whether this is a machine of continuous integration.
#[expect(
    clippy::disallowed_methods,
    reason = "an errand is a command line, and CI says so in the environment"
)]
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

impl Cargo {
    /// The same command with more words, which may have spaces in them and are not shown.
    pub(crate) fn args(mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(words);
        self
    }

    /// The same command with a variable in its environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Shows the command, runs it, and lets it speak.
    pub(crate) fn run(mut self) -> Passed {
        self.show();
        let status = self.command.status().map_err(|fault| self.cannot_start(&fault))?;
        if status.success() { Ok(()) } else { Err(format!("`cargo {}` ended with {status}", self.words)) }
    }

    /// Shows the command and runs it; what it says is shown only when it fails.
    pub(crate) fn run_hushed(mut self) -> Passed {
        self.show();
        let output = self.command.stdin(Stdio::null()).output().map_err(|fault| self.cannot_start(&fault))?;
        if output.status.success() {
            return Ok(());
        }
        [output.stdout, output.stderr].iter().for_each(|text| eprint!("{}", String::from_utf8_lossy(text)));
        Err(format!("`cargo {}` ended with {}", self.words, output.status))
    }

    /// Whether the command ends well; nobody hears it.
    pub(crate) fn succeeds(mut self) -> bool {
        let silent = self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        silent.status().is_ok_and(|status| status.success())
    }

    /// Shows the command, runs it, and gives what it writes to its standard output.
    pub(crate) fn output(mut self) -> Result<String, String> {
        self.show();
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|fault| self.cannot_start(&fault))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!("`cargo {}` ended with {}", self.words, output.status))
        }
    }

    fn show(&self) {
        println!("$ cargo {}", self.words);
    }

    fn cannot_start(&self, fault: &std::io::Error) -> String {
        format!("start `cargo {}`: {fault}", self.words)
    }
}
