//! Names that may have been meant, for a path that leads to nothing.

use everturn_core::{
    Error, ErrorKind,
    env::ListDirectory,
    tool::{CallContext, ToolError},
};

/// How many names of a directory are compared.
const NAMES: usize = 2_000;

/// How alike two names are, from 0 to 1, where one may have been meant for the other.
const ALIKE: f64 = 0.6;

/// How many names are proposed.
const PROPOSALS: usize = 3;

/// The error as a tool reports it: where nothing was found, with near names of the same directory.
pub(crate) async fn explain(cx: &CallContext, path: &str, error: Error) -> ToolError {
    if !matches!(error.kind(), ErrorKind::NotFound) {
        return error.into();
    }
    let (directory, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or((".", path));
    let names = ListDirectory {
        path: if directory.is_empty() { "/" } else { directory }.into(),
        after: None,
        limit: NAMES,
    };
    let names = cx.env.list(names).await.unwrap_or_default();
    let near = proposals(name, names.into_iter().map(|entry| entry.name));
    if near.is_empty() {
        return error.into();
    }
    let near: Vec<_> = near.iter().map(|name| format!("{:?}", join(directory, name))).collect();
    ToolError::new(format!("{error}; near it: {}", near.join(", ")))
}

fn proposals(name: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted = name.to_lowercase();
    let mut near: Vec<_> = names
        .map(|name| (strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    near.sort_by(|(a, a_name), (b, b_name)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
    near.into_iter().map(|(_, name)| name).take(PROPOSALS).collect()
}

/// The path of a name in a directory.
pub(crate) fn join(directory: &str, name: &str) -> String {
    match directory {
        "" | "." => name.into(),
        directory if directory.ends_with('/') => format!("{directory}{name}"),
        directory => format!("{directory}/{name}"),
    }
}
