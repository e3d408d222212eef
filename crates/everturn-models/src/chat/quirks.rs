//! How the servers that speak Chat Completions differ.

/// What a server takes and what not.
///
/// ```
/// use everturn_models::chat::Quirks;
/// assert!(Quirks::default().include_usage);
/// assert!(!Quirks::of_host("api.mistral.ai").include_usage);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Whether it takes `stream_options.include_usage`.
    pub include_usage: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self { include_usage: true }
    }
}

/// Hosts that are not like the others.
const HOSTS: &[(&str, Quirks)] = &[
    // Answers `stream_options` with status 422, and reports usage unasked (cline/cline #582, TabbyML/tabby PR 4082).
    ("api.mistral.ai", Quirks { include_usage: false }),
];

impl Quirks {
    /// What is known of a host.
    pub fn of_host(host: &str) -> Self {
        let row = HOSTS.iter().find(|(name, _)| *name == host);
        row.map_or_else(Self::default, |(_, quirks)| *quirks)
    }
}
