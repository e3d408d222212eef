//! A glob pattern: which files match, and which directories are worth entering.

use everturn_core::tool::ToolError;
use globset::{GlobBuilder, GlobMatcher};

/// A pattern for paths below a directory. `*` stays within a name, `**` stands for any number of directories.
pub(crate) struct Pattern {
    matcher: GlobMatcher,
    /// The files that do not match are wanted.
    is_negated: bool,
    /// The directories that the pattern names, down to its first wildcard.
    directories: Vec<String>,
    /// How deep a match may lie; none with `**`.
    depth_max: Option<usize>,
    /// The parts of the pattern that name something hidden.
    hidden: Vec<GlobMatcher>,
}

impl Pattern {
    /// Reads a pattern that stands for whole paths.
    pub(crate) fn new(text: &str) -> Result<Self, ToolError> {
        let refused = |why: &str| Err(ToolError::new(format!("read pattern {text:?}: {why}")));
        let mut pattern = text.trim_start_matches("./").to_owned();
        if pattern.is_empty() {
            return refused("it is empty; every file is \"**\"");
        }
        if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            return refused("it is relative to path and stays below it: name the directory in path");
        }
        if pattern.ends_with('/') {
            pattern.push_str("**");
        }
        let parts: Vec<_> = pattern.split('/').collect();
        let names = parts[..parts.len() - 1].iter().take_while(|part| !part.contains(is_wild));
        // A slash inside braces belongs to one of several paths, which may differ in depth.
        let is_any_depth = parts.iter().any(|part| part.contains("**")) || pattern.contains('{');
        let hidden = parts.iter().filter(|part| names_hidden(part)).map(|part| compile(part));
        Ok(Self {
            matcher: compile(&pattern)?,
            is_negated: false,
            directories: names.map(|name| (*name).to_owned()).collect(),
            depth_max: (!is_any_depth).then_some(parts.len()),
            hidden: hidden.filter_map(Result::ok).collect(),
        })
    }

    /// Reads a filter: without a slash it stands for names at any depth, and with `!` in front for all others.
    pub(crate) fn filter(text: &str) -> Result<Self, ToolError> {
        let (is_negated, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let is_name = !rest.trim_end_matches('/').contains('/');
        let mut pattern = Self::new(&if is_name { format!("**/{rest}") } else { rest.to_owned() })?;
        if is_negated {
            pattern =
                Self { is_negated, directories: Vec::new(), depth_max: None, hidden: Vec::new(), ..pattern };
        }
        Ok(pattern)
    }

    /// Whether a file matches, by its path below the directory.
    pub(crate) fn is_match(&self, path: &str) -> bool {
        self.matcher.is_match(path) != self.is_negated
    }

    /// Whether there may be a match below a directory, by its path.
    pub(crate) fn enters(&self, path: &str) -> bool {
        let mut names = path.split('/');
        self.directories.iter().zip(names.by_ref()).all(|(wanted, name)| wanted == name)
            && self.depth_max.is_none_or(|depth| path.split('/').count() < depth)
    }

    /// Whether a name may be seen: hidden ones only where the pattern names them.
    pub(crate) fn sees(&self, name: &str) -> bool {
        !name.starts_with('.') || self.hidden.iter().any(|hidden| hidden.is_match(name))
    }
}

fn compile(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    Ok(glob.map_err(|fault| ToolError::new(format!("read pattern: {fault}")))?.compile_matcher())
}

fn is_wild(c: char) -> bool {
    matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\')
}

fn names_hidden(part: &str) -> bool {
    part.starts_with('.') || part.starts_with('{') && (part.contains("{.") || part.contains(",."))
}
