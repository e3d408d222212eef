//! The text of patterns: what has a meaning, and how it is written where it has none.

/// A character of a pattern; a plain one may have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) letter: char,
    pub(super) is_plain: bool,
}

impl Letter {
    /// Whether it is this character and has its meaning.
    pub(super) fn means(self, letter: char) -> bool {
        self.is_plain && self.letter == letter
    }
}

/// What may follow a backslash and then stands for itself.
const ESCAPED: &[char] = &['\\', '*', ' ', ',', '"', '\'', '~'];

/// The characters of a text, escapes undone; spaces at its ends are dropped.
///
/// Errors: what is wrong, and what is right.
pub(super) fn letters(text: &str) -> Result<Vec<Letter>, String> {
    let mut letters = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        if is_hidden(letter) {
            return Err(format!("it holds {letter:?}; write {}", escaped(&letter.to_string(), &[])));
        }
        let is_plain = letter != '\\';
        let letter = if is_plain { letter } else { behind_backslash(&mut rest)? };
        letters.push(Letter { letter, is_plain });
    }
    Ok(trim(&letters).to_vec())
}

/// Letters without the spaces at their ends.
pub(super) fn trim(mut letters: &[Letter]) -> &[Letter] {
    while let [first, rest @ ..] = letters
        && first.means(' ')
    {
        letters = rest;
    }
    while let [rest @ .., last] = letters
        && last.means(' ')
    {
        letters = rest;
    }
    letters
}

fn behind_backslash(rest: &mut std::str::Chars<'_>) -> Result<char, String> {
    match rest.next() {
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some('u') => {
            let (code, behind) = rest
                .as_str()
                .strip_prefix('{')
                .and_then(|code| code.split_once('}'))
                .ok_or(r"behind \u stands a character's number in hexadecimal digits, as in \u{1b}")?;
            *rest = behind.chars();
            let letter = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
            letter.ok_or_else(|| format!(r"\u{{{code}}} is no character"))
        }
        Some(letter) if ESCAPED.contains(&letter) => Ok(letter),
        Some(letter) => Err(format!(
            r"\{letter} means nothing; a backslash is written \\, and \* \  \, \u{{1b}} are escapes"
        )),
        None => Err(r"it ends with a backslash; write \\ for one that is meant".into()),
    }
}

/// Whether a character hides what a text says: a control character, or one that turns its direction.
pub(super) fn is_hidden(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text that means itself, beside other characters that have a meaning where it stands.
pub(super) fn escaped(text: &str, special: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str(r"\n"),
            '\t' => out.push_str(r"\t"),
            _ if is_hidden(letter) => out.extend(letter.escape_unicode()),
            _ => {
                out.extend(Some('\\').filter(|_| letter == '\\' || special.contains(&letter)));
                out.push(letter);
            }
        }
    }
    out
}

/// How much of an act's text a verdict and an explanation hold, in characters.
const SHOWN_MAX: usize = 400;

/// The beginning of a text, where all of it is too much to store with a call and to show.
pub(super) fn beginning(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(SHOWN_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// A path that means itself.
pub(super) fn path(path: &str) -> String {
    let text = at_ends(escaped(path, &['*']));
    if text.starts_with('~') { format!(r"\{text}") } else { text }
}

/// An argument that means itself.
pub(super) fn argument(argument: &str) -> String {
    let text = escaped(argument, &['*', ' ']);
    match argument.chars().next() {
        Some('"' | '\'') => format!(r"\{text}"),
        Some(_) => text,
        None => EMPTY.into(),
    }
}

/// How an empty argument is written.
pub(super) const EMPTY: &str = r#""""#;

/// A name that means itself.
pub(super) fn name(name: &str) -> String {
    at_ends(escaped(name, &['*', ',']))
}

/// A text whose spaces at its ends belong to it.
pub(super) fn at_ends(mut text: String) -> String {
    if text.starts_with(' ') {
        text.insert(0, '\\');
    }
    if text.ends_with(' ') && text != r"\ " {
        text.insert(text.len() - 1, '\\');
    }
    text
}
