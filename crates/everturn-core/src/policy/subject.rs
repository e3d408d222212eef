//! What rules are held against: an act, taken apart, or a command of which some words are not known.

use super::{Act, path::Path, program, text::is_hidden, word::Word};

/// An act that rules may be held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    Read(Path<'a>),
    Write(Path<'a>),
    Exec(Vec<Word<'a>>),
    /// The host in lower case, without a dot at its end.
    Net(String, u16),
    Mcp(&'a str, &'a str),
    Spawn(&'a str),
    Tool(&'a str),
}

impl<'a> Subject<'a> {
    /// Errors: why the act is denied whatever rules say.
    pub(super) fn of(act: &'a Act) -> Result<Self, &'static str> {
        match act {
            Act::Read(path) => Path::of(path).map(Self::Read),
            Act::Write(path) => match Path::of(path)? {
                path if path.is_of_git() => Err("it lies at or below .git"),
                path => Ok(Self::Write(path)),
            },
            Act::Exec(argv) => Self::of_words(argv.iter().map(|word| Word::Known(word)).collect()),
            Act::Net { host, port } => Ok(Self::Net(of_host(host)?, *port)),
            Act::Mcp { server, tool } => Ok(Self::Mcp(of_name(server)?, of_name(tool)?)),
            Act::Spawn(agent) => of_name(agent).map(Self::Spawn),
            Act::Tool(name) => of_name(name).map(Self::Tool),
        }
    }

    /// Errors: why the command is denied whatever rules say.
    pub(super) fn of_words(words: Vec<Word<'a>>) -> Result<Self, &'static str> {
        if matches!(words.first(), None | Some(Word::Known(""))) {
            return Err("there is no program to run");
        }
        if words.iter().any(|word| matches!(word, Word::Known(word) if word.contains('\0'))) {
            return Err("no argument can hold a NUL");
        }
        Ok(Self::Exec(words))
    }

    /// Why an allow rule only asks for it, where that is so.
    pub(super) fn hides(&self) -> Option<&'static str> {
        match self {
            Self::Exec(words) => program::hides(words),
            _ => None,
        }
    }

    /// Whether it lies outside of the session's root.
    pub(super) fn is_outside(&self) -> bool {
        matches!(self, Self::Read(path) | Self::Write(path) if path.is_absolute)
    }
}

fn of_host(host: &str) -> Result<String, &'static str> {
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_of_host = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]%".contains(letter);
    if name.is_empty() || !name.chars().all(is_of_host) {
        return Err("the host is no name or address in ASCII letters");
    }
    Ok(name.to_ascii_lowercase())
}

fn of_name(name: &str) -> Result<&str, &'static str> {
    match name {
        "" => Err("its name is empty"),
        _ if name.chars().any(is_hidden) => Err("its name holds a control character or a direction override"),
        _ => Ok(name),
    }
}
