//! Words of a command, and patterns for them.

use std::fmt;

use super::{
    program,
    stars::{Place, Reached, Sequence, Stars},
    text::{self, Letter},
};

/// A word of a command: the program, or an argument.
///
/// A pattern for commands is cut at single spaces, the program first, and fits whole commands, never a part:
///
/// | token | fits |
/// | --- | --- |
/// | `word` | exactly this argument |
/// | `*` | one argument, whatever it is; in first place, any program |
/// | `**` | any number of arguments, none too |
/// | `--x=*`, `docs/*` | one argument; a star inside a token is any run of characters without `/` |
/// | `""` | the empty argument |
///
/// To allow, a program without `/` is spelt the same and has none; to ask or deny, it is the last part of a program's
/// path in any case of ASCII letters, also behind programs that run others (`sudo`, `env`, `find -exec` and their
/// like). For those an allow rule asks; so it does for `eval` and its like, for an interpreter that is given its program as
/// text (`sh -c`), and for a program that is not known. Flags are arguments like others.
///
/// ```
/// use everturn_core::policy::{Effect, Judged, Layer, Policy, Word};
///
/// let policy = Policy::new().rule(Layer::User, "allow exec(ls *)".parse()?);
/// let effect = |words: &[Word]| policy.command(words, &Judged::default()).effect;
/// assert_eq!(effect(&[Word::Known("ls"), Word::One]), Effect::Allow, r#"ls "$x""#);
/// assert_eq!(effect(&[Word::Known("ls"), Word::Many]), Effect::Deny, "ls $x");
/// # Ok::<(), everturn_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// A word that is known before the run.
    Known(&'a str),
    /// One word that is not.
    One,
    /// Any number of words that are not known, none too.
    Many,
}

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(word) => f.write_str(&text::argument(word)),
            Self::One => f.write_str("<one word>"),
            Self::Many => f.write_str("<words>"),
        }
    }
}

/// How surely a rule fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// It does not.
    No,
    /// It does for some values of what is not known; an ask, also: in its broad reading only.
    Perhaps,
    /// It does, whatever is not known.
    Yes,
}

/// A pattern for commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command(Sequence<Token>);

/// What one argument may be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Any.
    Any,
    /// One whose parts between slashes are these.
    Parts(Vec<Stars>),
}

impl Token {
    fn parse(letters: &[Letter]) -> Result<Self, String> {
        let quote = |letter: &Letter| letter.means('"') || letter.means('\'');
        match letters {
            [] => Err("two spaces in a row; write one between arguments, and \"\" for an empty one".into()),
            [one] if one.means('*') => Ok(Self::Any),
            [a, b] if a.means('"') && b.means('"') => Ok(Self::Parts(vec![Stars::exactly("")])),
            [first, ..] if quote(first) => {
                Err(r#"quotes mean nothing; write a space that belongs to an argument as "\ ""#.into())
            }
            _ => Ok(Self::Parts(
                letters.split(|letter| letter.letter == '/').map(Stars::parse).collect::<Result<_, _>>()?,
            )),
        }
    }

    fn exactly(argument: &str) -> Self {
        Self::Parts(argument.split('/').map(Stars::exactly).collect())
    }

    fn matches(&self, argument: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Parts(parts) => {
                let names: Vec<_> = argument.split('/').collect();
                parts.len() == names.len() && parts.iter().zip(names).all(|(stars, name)| stars.matches(name))
            }
        }
    }

    /// Whether it names the last part of the program's path, in any case of ASCII letters; one with a slash is a path.
    fn matches_program(&self, program: &str) -> bool {
        match self {
            Self::Parts(parts) if parts.len() == 1 => parts[0].lower().matches(&program::name(program)),
            _ => self.matches(program),
        }
    }

    fn text(&self) -> String {
        let Self::Parts(parts) = self else { return "*".into() };
        let parts: Vec<_> = parts.iter().map(|stars| stars.text(&[' '])).collect();
        let text = parts.join("/");
        match text.chars().next() {
            Some('"' | '\'') => format!(r"\{text}"),
            Some(_) => text,
            None => text::EMPTY.into(),
        }
    }
}

impl Command {
    /// The pattern for one command and nothing else; none where a word is not known.
    pub(super) fn exactly(words: &[Word<'_>]) -> Option<Self> {
        let place = |word: &Word<'_>| match word {
            Word::Known(word) => Some(Place::One(Token::exactly(word))),
            Word::One | Word::Many => None,
        };
        Some(Self(Sequence(words.iter().map(place).collect::<Option<_>>()?)))
    }

    pub(super) fn parse(letters: &[Letter]) -> Result<Self, String> {
        if letters.is_empty() {
            return Err("no program; write * ** for any program with any arguments".into());
        }
        let mut places = Vec::new();
        for token in letters.split(|letter| letter.means(' ')) {
            match token {
                [a, b] if a.means('*') && b.means('*') => places.push(Place::Any),
                _ => places.push(Place::One(Token::parse(token)?)),
            }
        }
        match places[0] {
            Place::Any => Err("** cannot stand for the program; write * for any".into()),
            Place::One(_) => Ok(Self(Sequence(places))),
        }
    }

    pub(super) fn text(&self) -> String {
        let token = |place: &Place<Token>| match place {
            Place::Any => "**".into(),
            Place::One(token) => token.text(),
        };
        self.0.0.iter().map(token).collect::<Vec<_>>().join(" ")
    }

    /// Whether it fits as an allow rule does.
    pub(super) fn fits_narrowly(&self, words: &[Word<'_>]) -> bool {
        self.fits(words, Reading::Narrow)
    }

    /// How surely it fits as a deny or ask rule does.
    pub(super) fn fits_broadly(&self, words: &[Word<'_>]) -> Fit {
        if self.fits(words, Reading::Named) {
            Fit::Yes
        } else if self.fits(words, Reading::Loose) {
            Fit::Perhaps
        } else {
            Fit::No
        }
    }

    fn fits(&self, words: &[Word<'_>], reading: Reading) -> bool {
        let begins_anywhere = reading != Reading::Narrow && program::runs_others(words);
        let takes = |word: &str, at: usize, token: &Token| match reading {
            Reading::Named | Reading::Loose if at == 0 => token.matches_program(word),
            _ => token.matches(word),
        };
        let mut reached = self.0.start();
        for word in words {
            // The program's place comes first and is one word, so nothing else is reached with it.
            reached.0[0] |= begins_anywhere;
            reached = match (word, reading) {
                (Word::Known(word), _) => self.0.step(&reached, |at, token| takes(word, at, token)),
                (Word::One, Reading::Loose) => self.0.step(&reached, |_, _| true),
                // Some word equals none of the tokens' words.
                (Word::One, _) => self.0.step(&reached, |_, token| *token == Token::Any),
                (Word::Many, Reading::Loose) => may_come(reached),
                (Word::Many, _) => self.whatever_comes(reached),
            };
        }
        !words.is_empty() && self.0.is_end(&reached)
    }

    /// The places that are reached however many words come that equal nothing: rather too few than too many.
    fn whatever_comes(&self, reached: Reached) -> Reached {
        let (mut all, mut next) = (reached.clone(), reached);
        // Behind as many words as there are places, nothing changes any more.
        for _ in 0..self.0.0.len() {
            next = self.0.step(&next, |_, token| *token == Token::Any);
            all.0.iter_mut().zip(&next.0).for_each(|(all, next)| *all &= next);
        }
        all
    }
}

/// How a pattern is held against words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The program as it is spelt, whatever the unknown words are.
    Narrow,
    /// The program by its name, whatever the unknown words are.
    Named,
    /// The program by its name, for some values of the unknown words.
    Loose,
}

/// The places that may be reached when any number of any words come.
fn may_come(mut reached: Reached) -> Reached {
    for at in 1..reached.0.len() {
        reached.0[at] |= reached.0[at - 1];
    }
    reached
}
