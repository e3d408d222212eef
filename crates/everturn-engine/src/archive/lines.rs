//! Reading an archive line by line.

use everturn_core::{Error, Result};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::line::{Line, Tally};

/// The lines of an archive, each counted and hashed as it comes.
pub(super) struct Lines<R> {
    archive: R,
    tally: Tally,
    line_max: usize,
}

impl<R: AsyncBufRead + Unpin + Send> Lines<R> {
    pub(super) fn new(archive: R, line_max: usize) -> Self {
        Self { archive, tally: Tally::default(), line_max }
    }

    /// The next line; none at the end. The last line proves those before it.
    pub(super) async fn next(&mut self) -> Result<Option<Line>> {
        let number = self.tally.lines + 1;
        let wrong = |what: String| invalid(&format!("line {number}: {what}"));
        let mut bytes = Vec::new();
        // One more than is allowed: then it is known that it is too long, and the rest is not read.
        let mut limited = (&mut self.archive).take(self.line_max as u64 + 1);
        limited.read_until(b'\n', &mut bytes).await.map_err(|fault| wrong(fault.to_string()))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        if bytes.len() > self.line_max {
            let limit = self.line_max;
            let message = format!(
                "restore an archive: line {number} is longer than {limit} bytes, the most that is allowed"
            );
            return Err(Error::too_large(message));
        }
        let text = str::from_utf8(&bytes).map_err(|fault| wrong(fault.to_string()))?;
        let line: Line = serde_json::from_str(text).map_err(|fault| wrong(fault.to_string()))?;
        if matches!(line, Line::End { .. }) {
            if text != self.tally.end().to_text()? {
                return Err(invalid("its last line does not fit those before it: it was changed"));
            }
        } else {
            self.tally.add(text);
        }
        Ok(Some(line))
    }
}

pub(super) fn invalid(what: &str) -> Error {
    Error::invalid(format!("restore an archive: {what}"))
}
