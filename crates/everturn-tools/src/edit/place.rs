//! Where a piece of text stands, and what a file is with another in its place.

use super::{Replacement, why};

/// How the lines of a text end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Lf,
    CrLf,
    Mixed,
}

impl Ending {
    pub(super) fn of(text: &str) -> Self {
        let (all, crlf) = (text.matches('\n').count(), text.matches("\r\n").count());
        match crlf {
            0 => Self::Lf,
            crlf if crlf == all => Self::CrLf,
            _ => Self::Mixed,
        }
    }

    /// The ways in which a piece may be meant, the likeliest first: a reader is not shown how lines end.
    fn ways(self, edit: &Replacement) -> Vec<(String, String)> {
        let given = (edit.old.clone(), edit.new.clone());
        let lf = (to_lf(&edit.old), to_lf(&edit.new));
        let crlf = (to_crlf(&edit.old), to_crlf(&edit.new));
        match self {
            Self::Lf => vec![given, lf],
            Self::CrLf => vec![crlf],
            Self::Mixed => vec![given, crlf, lf],
        }
    }
}

fn to_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn to_crlf(text: &str) -> String {
    to_lf(text).replace('\n', "\r\n")
}

/// The text with one edit made, and how many places it replaced; or why it cannot be made.
pub(super) fn replace(text: &str, edit: &Replacement, ending: Ending) -> Result<(String, usize), String> {
    if edit.old.is_empty() {
        return Err("old is empty, which stands everywhere; write replaces a whole file".into());
    }
    if edit.old == edit.new {
        return Err("old and new are the same".into());
    }
    let found = ending.ways(edit).into_iter().find(|(old, _)| text.contains(old.as_str()));
    let Some((old, new)) = found else {
        return Err(why::not_found(text, &edit.old));
    };
    let places = text.matches(old.as_str()).count();
    if places > 1 && edit.all != Some(true) {
        return Err(why::found_often(text, &old));
    }
    Ok((text.replace(old.as_str(), &new), places))
}
