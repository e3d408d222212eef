//! Text as tools show it: what is binary, where a long line is cut, which characters a name may not hold.

use std::borrow::Cow;

/// How many bytes at the beginning of a file decide whether it is binary.
const PROBE: usize = 8 * 1024;

/// Whether a file that begins with these bytes is binary: a NUL near its beginning says so.
pub(crate) fn is_binary(beginning: &[u8]) -> bool {
    beginning[..beginning.len().min(PROBE)].contains(&0)
}

/// A line as text: bytes that are not UTF-8, and NUL, become U+FFFD; an end of line is taken away.
pub(crate) fn line(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// The longest beginning of `text` that has at most `bytes_max` bytes and ends with a whole character.
pub(crate) fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Whether a character may not stand in a path: controls, and marks that turn the direction of what is read.
pub(crate) fn is_refused(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A path as it may be shown on one line: refused characters are written out, as `\u{a}`.
pub(crate) fn name(path: &str) -> Cow<'_, str> {
    if !path.contains(is_refused) {
        return Cow::Borrowed(path);
    }
    let mut shown = String::with_capacity(path.len() + 8);
    for c in path.chars() {
        if is_refused(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}
