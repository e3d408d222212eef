//! Words, numbers and marks; comments are skipped, and a string is one mark.

use super::Style;

/// The smallest thing that means something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    /// A whole number, whatever its base and suffix.
    Number(i128),
    /// Any other character; `"` stands for a whole string.
    Mark(char),
}

/// A token and where it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lexeme<'a> {
    pub(super) token: Token<'a>,
    /// From 1.
    pub(super) line: usize,
    /// In characters, from 0.
    pub(super) column: usize,
}

/// Takes source text apart.
pub(super) fn lex(text: &str, style: Style) -> Vec<Lexeme<'_>> {
    let mut lexer = Lexer { rest: text, style, line: 1, column: 0 };
    let mut lexemes = Vec::new();
    while lexer.skip_blank() {
        let (line, column) = (lexer.line, lexer.column);
        let token = lexer.token();
        lexemes.push(Lexeme { token, line, column });
    }
    lexemes
}

struct Lexer<'a> {
    rest: &'a str,
    style: Style,
    line: usize,
    column: usize,
}

impl<'a> Lexer<'a> {
    /// Skips space and comments; says whether anything is left.
    fn skip_blank(&mut self) -> bool {
        loop {
            let space = self.rest.len() - self.rest.trim_start().len();
            let comment = match self.style {
                Style::Python if self.rest[space..].starts_with('#') => self.until(space, "\n"),
                Style::Python => 0,
                _ if self.rest[space..].starts_with("//") => self.until(space, "\n"),
                _ if self.rest[space..].starts_with("/*") => self.until(space + 2, "*/") + 2,
                _ => 0,
            };
            if space + comment == 0 {
                return !self.rest.is_empty();
            }
            self.take(space + comment);
        }
    }

    /// How many bytes there are from `from` through `end`, or to the end of the text.
    fn until(&self, from: usize, end: &str) -> usize {
        let rest = &self.rest[from..];
        rest.find(end).map_or(rest.len(), |at| at + end.len())
    }

    fn token(&mut self) -> Token<'a> {
        let first = self.rest.chars().next().expect("skip_blank says that something is left");
        if let Some(length) = self.string() {
            self.take(length);
            return Token::Mark('"');
        }
        if first.is_alphanumeric() || first == '_' {
            let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let word = self.take(end.unwrap_or(self.rest.len()));
            return match number(word) {
                Some(number) => Token::Number(number),
                None => Token::Word(word),
            };
        }
        self.take(first.len_utf8());
        Token::Mark(first)
    }

    /// The length of the string that begins here, if one does.
    fn string(&self) -> Option<usize> {
        let rest = self.rest;
        if self.style == Style::Python && (rest.starts_with("\"\"\"") || rest.starts_with("'''")) {
            return Some(3 + self.until(3, &rest[..3]));
        }
        if self.style == Style::Rust && rest.starts_with('r') {
            let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
            if rest[1 + hashes..].starts_with('"') {
                let start = hashes + 2;
                return Some(start + self.until(start, &format!("\"{}", "#".repeat(hashes))));
            }
        }
        let quote = rest.chars().next()?;
        let opens = match quote {
            '"' => true,
            '`' => matches!(self.style, Style::Script | Style::Go),
            // In Rust it may begin the name of a lifetime.
            '\'' => self.style != Style::Rust || rest.starts_with("'\\") || rest.chars().nth(2) == Some('\''),
            _ => false,
        };
        opens.then(|| quoted(rest, quote))
    }

    /// Takes bytes and counts the lines and columns in them.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        self.line += taken.matches('\n').count();
        self.column = match taken.rsplit_once('\n') {
            Some((_, last)) => last.chars().count(),
            None => self.column + taken.chars().count(),
        };
        taken
    }
}

/// The length of a string through its closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => (),
        }
    }
    text.len()
}

/// The value of a literal such as `1_000u64`, `0xFF` or `10n`.
fn number(word: &str) -> Option<i128> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits: String = word.chars().filter(|c| *c != '_').collect::<String>().to_lowercase();
    let (radix, digits) = match digits.get(..2) {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        _ => (10, digits.as_str()),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (value, suffix) = digits.split_at(end);
    // `1e9` is no whole number.
    let is_suffix = suffix.is_empty() || suffix.starts_with(['u', 'i', 'l', 'n']);
    i128::from_str_radix(value, radix).ok().filter(|_| is_suffix)
}
