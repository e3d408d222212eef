//! This program as its own child: a process that is fresh, so that its memory can be counted.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::{flat, giant, memory};

/// Does what a child is asked for; false when this is not one.
pub(crate) fn is_asked(words: &[String]) -> bool {
    if let Some(history) = flat::asked_of_child(words) {
        flat::child(history);
        return true;
    }
    match words {
        [what, file, rest @ ..] if what == memory::CHILD => memory::child(Path::new(file), rest),
        [what, file, session] if what == giant::CHILD => giant::child(Path::new(file), session),
        _ => return false,
    }
    true
}

/// Runs this program as a child, and gives the numbers that it prints.
pub(crate) fn ask(words: &[&str]) -> Vec<f64> {
    let this = std::env::current_exe().expect("this program has a name");
    let child = Command::new(this).args(words).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let said = child.expect("this program can be run again").stdout;
    let said = String::from_utf8(said).expect("numbers");
    said.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}
