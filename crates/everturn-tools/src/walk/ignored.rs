//! What ignore files exclude.

use everturn_core::env::{DirectoryEntry, Env, ReadFile};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

/// The ignore files, the one that decides first in front.
const FILES: [&str; 2] = [".ignore", ".gitignore"];

/// How much of an ignore file is read.
const BYTES: usize = 1024 * 1024;

/// The ignore files of the directories from the root down to the current one. The deeper decides, and `.ignore`
/// before `.gitignore`, as in ripgrep.
pub(super) struct Ignored(Vec<Level>);

struct Level {
    /// The directory, with a slash behind; empty for the root.
    directory: String,
    files: [Gitignore; FILES.len()],
}

impl Ignored {
    /// The ignore files of the directories above `start`.
    pub(super) async fn above(env: &Env, start: &str) -> Self {
        let mut levels = Vec::new();
        // Where an absolute path, or one with dots, is in the tree, its text does not say.
        let is_plain =
            !start.starts_with('/') && start.split('/').all(|name| !matches!(name, "" | "." | ".."));
        if is_plain {
            let slashes = start.match_indices('/').map(|(at, _)| &start[..=at]);
            for directory in std::iter::once("").chain(slashes) {
                levels.push(Level::read(env, directory.into(), |_| true).await);
            }
        }
        Self(levels)
    }

    /// Adds the ignore files of a directory that has these entries.
    pub(super) async fn enter(&mut self, env: &Env, directory: &str, entries: &[DirectoryEntry]) {
        let directory = match directory {
            "." => String::new(),
            directory => format!("{}/", directory.trim_end_matches('/')),
        };
        let exists = |file: &str| entries.iter().any(|entry| entry.name == file);
        self.0.push(Level::read(env, directory, exists).await);
    }

    /// Drops the ignore files of the directory that was entered last.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    /// Whether a path is excluded.
    pub(super) fn has(&self, path: &str, is_directory: bool) -> bool {
        for file in 0..FILES.len() {
            for level in self.0.iter().rev() {
                let Some(below) = path.strip_prefix(&level.directory) else {
                    continue;
                };
                match level.files[file].matched(below, is_directory) {
                    Match::None => {}
                    found => return found.is_ignore(),
                }
            }
        }
        false
    }
}

impl Level {
    async fn read(env: &Env, directory: String, exists: impl Fn(&str) -> bool) -> Self {
        let mut files = [const { None }; FILES.len()];
        for (file, name) in files.iter_mut().zip(FILES) {
            if exists(name) {
                *file = Some(rules(env, format!("{directory}{name}")).await);
            }
        }
        let files = files.map(|file| file.unwrap_or_else(Gitignore::empty));
        Self { directory, files }
    }
}

/// The rules of an ignore file. One that cannot be read has none, and a broken rule is passed over, as git does.
async fn rules(env: &Env, path: String) -> Gitignore {
    let read = ReadFile { path, offset: 0, limit: BYTES };
    let bytes = env.read(read).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut rules = GitignoreBuilder::new(".");
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = rules.add_line(None, line);
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}
