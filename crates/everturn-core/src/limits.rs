//! How big a record may be.

use crate::error::{Error, Result};

/// How big what is stored may be. Something larger is refused before a store is asked, naming the record and the
/// number; large payloads belong into blobs.
///
/// Units: bytes of JSON, but for `depth`.
///
/// ```
/// use everturn_core::limits::Limits;
/// let small = Limits { entry: 64 << 10, ..Limits::default() };
/// assert!(small.check("entry app.note", 70_000, small.entry).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// An entry.
    pub entry: usize,
    /// A document.
    pub document: usize,
    /// All of a commit.
    pub commit: usize,
    /// How many objects and arrays may stand inside one another, at most
    /// [`DEPTH_MAX`](crate::document::DEPTH_MAX).
    pub depth: usize,
    /// The name of a kind, a label, a request id or a key.
    pub name: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entry: 1 << 20, document: 4 << 20, commit: 16 << 20, depth: 128, name: 256 }
    }
}

impl Limits {
    /// Proves that something is inside a limit.
    ///
    /// Errors: `TooLarge`, naming it and both numbers.
    pub fn check(&self, what: &str, found: usize, limit: usize) -> Result<()> {
        if found <= limit {
            return Ok(());
        }
        Err(Error::too_large(format!("write {what}: it has {found} bytes, at most {limit} are allowed")))
    }

    /// Proves that a name is one, and is inside its limit.
    ///
    /// Errors: `Invalid` when it is empty; `TooLarge`.
    pub fn check_name(&self, what: &str, name: &str) -> Result<()> {
        if name.is_empty() {
            return Err(Error::invalid(format!("write {what}: it is empty; name what it is")));
        }
        self.check(what, name.len(), self.name)
    }

    /// Proves that JSON text does not nest too deeply.
    ///
    /// Errors: `TooLarge`.
    pub fn check_depth(&self, what: &str, json: &str) -> Result<()> {
        match depth(json) {
            found if found <= self.depth => Ok(()),
            found => {
                let limit = self.depth;
                Err(Error::too_large(format!(
                    "write {what}: it nests {found} levels, at most {limit} are allowed"
                )))
            }
        }
    }
}

/// How many objects and arrays stand inside one another in JSON text.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_text(&mut bytes),
            _ => {}
        }
    }
    deepest
}

fn skip_text(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn brackets_count_where_they_are_no_text() {
        assert_eq!(depth(r#"{"a":[1,[2]],"b":"[[[["}"#), 3);
        assert_eq!(depth(r#""a\"[[""#), 0);
    }
}
