//! Functions in source text, and the numbers they return as they stand.
//!
//! No parser: words, numbers and marks are enough to find a function, its body and `return 42`. What is computed is not
//! seen.

mod lexer;

use self::lexer::{Lexeme, Token, lex};

/// A language that is read.
pub(super) struct Language {
    /// As people say it.
    pub(super) name: &'static str,
    pub(super) extensions: &'static [&'static str],
    style: Style,
}

/// How a language writes functions.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Rust,
    Python,
    Script,
    Go,
    C,
}

pub(super) const LANGUAGES: &[Language] = &[
    Language { name: "rust", extensions: &["rs"], style: Style::Rust },
    Language { name: "python", extensions: &["py"], style: Style::Python },
    Language { name: "javascript", extensions: &["js", "mjs", "cjs", "jsx"], style: Style::Script },
    Language { name: "typescript", extensions: &["ts", "tsx"], style: Style::Script },
    Language { name: "go", extensions: &["go"], style: Style::Go },
    Language { name: "c", extensions: &["c", "h"], style: Style::C },
];

/// A function that returns numbers as they stand.
#[derive(Debug, PartialEq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Where it begins, from 1.
    pub(super) line: usize,
    /// The largest of the numbers.
    pub(super) largest: i128,
}

/// The functions of a file that return numbers; the file's name tells the language.
pub(super) fn functions(path: &str, text: &str) -> Vec<Function> {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let Some(language) = LANGUAGES.iter().find(|language| language.extensions.contains(&extension)) else {
        return Vec::new();
    };
    let style = language.style;
    let source = Source { lexemes: &lex(text, style), style };
    let found = if style == Style::Python { source.indented() } else { source.braced() };
    let returning = found.into_iter().filter_map(|(header, largest)| {
        Some(Function { name: header.name.to_owned(), line: header.line, largest: largest? })
    });
    returning.collect()
}

#[derive(Clone, Copy)]
struct Header<'a> {
    name: &'a str,
    line: usize,
}

/// Functions in the order of their headers, each with the largest number found in it.
type Found<'a> = Vec<(Header<'a>, Option<i128>)>;

#[derive(Clone, Copy)]
struct Source<'a> {
    lexemes: &'a [Lexeme<'a>],
    style: Style,
}

impl<'a> Source<'a> {
    /// Functions whose bodies are indented.
    fn indented(self) -> Found<'a> {
        let mut found = Found::new();
        // The functions around this line, with their indent.
        let mut around: Vec<(usize, usize)> = Vec::new();
        let mut indent = 0;
        for (at, lexeme) in self.lexemes.iter().enumerate() {
            if at == 0 || self.lexemes[at - 1].line != lexeme.line {
                indent = lexeme.column;
                while around.pop_if(|(outer, _)| *outer >= indent).is_some() {}
            }
            if lexeme.token == Token::Word("def") {
                if let Some(header) = self.header_at(at + 1) {
                    around.push((indent, found.len()));
                    found.push((header, None));
                }
            } else if let Some(number) = self.returned(at)
                && let Some((_, function)) = around.last()
            {
                note(&mut found, *function, number);
            }
        }
        found
    }

    /// Functions whose bodies stand in braces.
    fn braced(self) -> Found<'a> {
        let mut found = Found::new();
        // For each open brace the function that it is the body of, if it is one.
        let mut open: Vec<Option<usize>> = Vec::new();
        let mut awaited: Option<Header<'a>> = None;
        for (at, lexeme) in self.lexemes.iter().enumerate() {
            awaited = self.header(at).or(awaited);
            match lexeme.token {
                Token::Mark('{') => {
                    open.push(awaited.take().map(|header| {
                        found.push((header, None));
                        found.len() - 1
                    }));
                }
                Token::Mark('}') => drop(open.pop()),
                Token::Mark(';') if self.style != Style::Rust || !self.in_brackets(at) => awaited = None,
                _ => (),
            }
            if let Some(number) = self.arrow(at)
                && let Some(header) = awaited.take()
            {
                found.push((header, Some(number)));
            } else if let Some(number) = self.returned(at).or_else(|| self.last_expression(at))
                && let Some(function) = open.iter().rev().find_map(|body| *body)
            {
                note(&mut found, function, number);
            }
        }
        found
    }

    /// The header of a function whose first word stands here.
    fn header(self, at: usize) -> Option<Header<'a>> {
        let word = self.word(at)?;
        match (self.style, word) {
            (Style::Rust, "fn") => self.header_at(at + 1),
            // A method has its receiver in front of its name.
            (Style::Go, "func") if self.is(at + 1, '(') => self.header_at(self.closing(at + 1)? + 1),
            (Style::Go, "func") => self.header_at(at + 1),
            (Style::Script, "function") => self.header_at(at + 1).or_else(|| self.header_at(at + 2)),
            (Style::Script, _) if self.is_arrow_function(at) => self.header_at(at),
            (Style::Script | Style::C, _) if self.is_definition(at) => self.header_at(at),
            _ => None,
        }
    }

    fn header_at(self, at: usize) -> Option<Header<'a>> {
        Some(Header { name: self.word(at)?, line: self.lexemes[at].line })
    }

    /// `NAME(...) {`, with a type of the result between in some languages.
    fn is_definition(self, at: usize) -> bool {
        const CONTROL: &[&str] =
            &["if", "for", "while", "switch", "catch", "function", "with", "return", "do", "else"];
        let is_name = self.word(at).is_some_and(|word| !CONTROL.contains(&word));
        if !is_name || !self.is(at + 1, '(') {
            return false;
        }
        let Some(end) = self.closing(at + 1) else {
            return false;
        };
        if self.style == Style::C || !self.is(end + 1, ':') {
            return self.is(end + 1, '{');
        }
        self.lexemes[end + 1..].iter().take(8).any(|lexeme| lexeme.token == Token::Mark('{'))
    }

    /// `NAME = (...) =>` or `NAME = x =>`.
    fn is_arrow_function(self, at: usize) -> bool {
        if !self.is(at + 1, '=') {
            return false;
        }
        let from = at + 2 + usize::from(self.word(at + 2) == Some("async"));
        let end = self.closing(from).unwrap_or(from);
        self.is(end + 1, '=') && self.is(end + 2, '>')
    }

    /// The number of `return 42`.
    fn returned(self, at: usize) -> Option<i128> {
        (self.word(at)? == "return").then(|| self.number_alone(at + 1)).flatten()
    }

    /// The number of `=> 42`.
    fn arrow(self, at: usize) -> Option<i128> {
        let is_arrow = self.style == Style::Script && self.is(at, '>') && at > 0 && self.is(at - 1, '=');
        is_arrow.then(|| self.number_alone(at + 1)).flatten()
    }

    /// The number that a Rust block ends with, where the block's value goes on outwards.
    fn last_expression(self, at: usize) -> Option<i128> {
        let begins = self.style == Style::Rust && ['{', ';', '}'].into_iter().any(|mark| self.is(at, mark));
        let (number, end) = self.number(at + 1).filter(|_| begins)?;
        (self.is(end, '}') && self.gives(end)).then_some(number)
    }

    /// Whether the block that ends here gives its value to the block around it, and not to a `let` or a call.
    fn gives(self, mut end: usize) -> bool {
        while self.word(end + 1) == Some("else") {
            let open = (end + 2..self.lexemes.len()).find(|at| self.is(*at, '{'));
            let Some(close) = open.and_then(|open| self.closing(open)) else {
                return false;
            };
            end = close;
        }
        ![';', ',', ')', '.', '?'].into_iter().any(|mark| self.is(end + 1, mark))
    }

    /// A number that is the whole expression: what comes next ends it.
    fn number_alone(self, at: usize) -> Option<i128> {
        let (number, end) = self.number(at)?;
        let ends = match self.lexemes.get(end) {
            Some(next) => {
                matches!(next.token, Token::Mark(';' | '}' | ',' | ')')) || next.line > self.lexemes[at].line
            }
            None => true,
        };
        ends.then_some(number)
    }

    /// A number with its sign, and what comes behind it.
    fn number(self, at: usize) -> Option<(i128, usize)> {
        if self.is(at, '-') {
            let (number, end) = self.number(at + 1)?;
            return Some((-number, end));
        }
        match self.lexemes.get(at)?.token {
            Token::Number(number) => Some((number, at + 1)),
            _ => None,
        }
    }

    /// The bracket that closes the one that opens here.
    fn closing(self, at: usize) -> Option<usize> {
        let (open, close) = match self.lexemes.get(at)?.token {
            Token::Mark('(') => ('(', ')'),
            Token::Mark('{') => ('{', '}'),
            _ => return None,
        };
        let mut depth = 0;
        (at..self.lexemes.len()).find(|at| {
            depth += i32::from(self.is(*at, open)) - i32::from(self.is(*at, close));
            depth == 0
        })
    }

    /// Whether the semicolon here is that of an array: `[u8; 4]`.
    fn in_brackets(self, at: usize) -> bool {
        self.is(at + 2, ']')
    }

    fn word(self, at: usize) -> Option<&'a str> {
        match self.lexemes.get(at)?.token {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    fn is(self, at: usize, mark: char) -> bool {
        self.lexemes.get(at).is_some_and(|lexeme| lexeme.token == Token::Mark(mark))
    }
}

fn note(found: &mut Found<'_>, function: usize, number: i128) {
    let largest = &mut found[function].1;
    *largest = Some(largest.map_or(number, |largest| largest.max(number)));
}
