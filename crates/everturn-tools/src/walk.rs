//! A walk over the files below a directory, in the order of their paths' bytes.

mod ignored;

use everturn_core::{
    Result,
    env::{DirectoryEntry, FileKind, ListDirectory},
    tool::{CallContext, ToolError},
};

use self::ignored::Ignored;
use crate::{check_cancel, near, pattern::Pattern};

/// How many names are asked for at once.
const PAGE: usize = 10_000;

/// Visits the files that match a pattern and that no ignore file excludes.
///
/// Promise: `.git` is never entered, nor is a link to a directory, so that a walk ends. Hidden names are passed over
/// unless the pattern names them. Between two files the call's cancel token is asked.
pub(crate) struct Walk<'a> {
    cx: &'a CallContext,
    pattern: &'a Pattern,
    /// The directories from the start down to the current one.
    levels: Vec<Level>,
    ignored: Ignored,
    unreadable: usize,
}

struct Level {
    /// The path from the environment's root.
    path: String,
    /// The path from the start; empty there.
    inner: String,
    entries: std::vec::IntoIter<DirectoryEntry>,
}

/// A file that a walk came to.
pub(crate) struct Visited {
    /// Its path from the environment's root, as the tools take it.
    pub(crate) path: String,
    /// A file or a link.
    pub(crate) kind: FileKind,
}

impl<'a> Walk<'a> {
    /// Begins at a directory, which is visited even if an ignore file excludes it: it was asked for by name.
    pub(crate) async fn new(
        cx: &'a CallContext,
        start: &str,
        pattern: &'a Pattern,
    ) -> Result<Self, ToolError> {
        let start = plain(start);
        let mut walk = Self {
            cx,
            pattern,
            levels: Vec::new(),
            ignored: Ignored::above(&cx.env, &start).await,
            unreadable: 0,
        };
        match walk.enter(start.clone(), String::new()).await {
            Ok(()) => Ok(walk),
            Err(error) => Err(near::explain(cx, &start, error).await),
        }
    }

    /// The next file.
    ///
    /// Errors: only when the call was told to stop.
    pub(crate) async fn next(&mut self) -> Result<Option<Visited>, ToolError> {
        while let Some(level) = self.levels.last_mut() {
            check_cancel(self.cx)?;
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                self.ignored.leave();
                continue;
            };
            let path = near::join(&level.path, &entry.name);
            let inner = near::join(&level.inner, &entry.name);
            let is_directory = entry.kind == FileKind::Directory;
            if is_git(&entry.name) || !self.pattern.sees(&entry.name) || self.ignored.has(&path, is_directory)
            {
                continue;
            }
            match entry.kind {
                FileKind::Directory if self.pattern.enters(&inner) => self.descend(path, inner).await,
                FileKind::File | FileKind::Link if self.pattern.is_match(&inner) => {
                    return Ok(Some(Visited { path, kind: entry.kind }));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// How many directories could not be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    async fn descend(&mut self, path: String, inner: String) {
        if self.enter(path, inner).await.is_err() {
            self.unreadable += 1;
        }
    }

    async fn enter(&mut self, path: String, inner: String) -> Result<()> {
        let mut entries = self.entries(&path).await?;
        // With its slash a directory stands where the paths below it do.
        entries.sort_by(|a, b| key(a).cmp(key(b)));
        self.ignored.enter(&self.cx.env, &path, &entries).await;
        self.levels.push(Level { path, inner, entries: entries.into_iter() });
        Ok(())
    }

    async fn entries(&self, path: &str) -> Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        loop {
            let after = entries.last().map(|entry: &DirectoryEntry| entry.name.clone());
            let page = self.cx.env.list(ListDirectory { path: path.into(), after, limit: PAGE }).await?;
            let is_last = page.len() < PAGE;
            entries.extend(page);
            if is_last || self.cx.cancel.is_cancelled() {
                return Ok(entries);
            }
        }
    }
}

fn key(entry: &DirectoryEntry) -> impl Iterator<Item = u8> {
    let slash = (entry.kind == FileKind::Directory).then_some(b'/');
    entry.name.bytes().chain(slash)
}

fn is_git(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// A path without what means nothing: `./` in front, `/` behind.
fn plain(path: &str) -> String {
    let path = path.trim_start_matches("./");
    let trimmed = path.trim_end_matches('/');
    match (trimmed, path) {
        ("", "") => ".".into(),
        ("", _) => "/".into(),
        (trimmed, _) => trimmed.into(),
    }
}
