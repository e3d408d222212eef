//! Text with stars, and sequences with double stars: what all patterns are made of.

use super::text::{Letter, escaped};

/// A text in which each star stands for any run of characters, none too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stars {
    /// What stands between the stars: one more than there are stars.
    parts: Vec<String>,
}

impl Stars {
    /// A text that means itself.
    pub(super) fn exactly(text: impl Into<String>) -> Self {
        Self { parts: vec![text.into()] }
    }

    /// Errors: two stars in a row.
    pub(super) fn parse(letters: &[Letter]) -> Result<Self, String> {
        let parts: Vec<String> = letters
            .split(|letter| letter.means('*'))
            .map(|part| part.iter().map(|letter| letter.letter).collect())
            .collect();
        let inner = parts.get(1..parts.len() - 1).unwrap_or_default();
        if inner.iter().any(String::is_empty) {
            return Err("two stars stand only as a whole component of a path, or a whole argument; \
                        write one star"
                .into());
        }
        Ok(Self { parts })
    }

    /// The same with ASCII letters in lower case.
    pub(super) fn lower(&self) -> Self {
        Self { parts: self.parts.iter().map(|part| part.to_ascii_lowercase()).collect() }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, inner @ .., last] = &self.parts[..] else { return self.parts[0] == text };
        let Some(rest) = text.strip_prefix(&**first) else { return false };
        // The first place for each part leaves the most to the parts behind it.
        let behind = |rest: &'_ str, part: &String| rest.find(&**part).map(|at| at + part.len());
        let mut rest = rest;
        for part in inner {
            let Some(end) = behind(rest, part) else { return false };
            rest = &rest[end..];
        }
        rest.ends_with(&**last)
    }

    /// Its text; `special` are the characters beside the star that have a meaning where it stands.
    pub(super) fn text(&self, special: &[char]) -> String {
        let special = [special, &['*']].concat();
        self.parts.iter().map(|part| escaped(part, &special)).collect::<Vec<_>>().join("*")
    }
}

/// Patterns in a row, each for one thing; in between, any number of things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sequence<T>(pub(super) Vec<Place<T>>);

/// A place in a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place<T> {
    /// Any number of things, none too.
    Any,
    /// One thing.
    One(T),
}

/// How far a sequence may have come: `true` at each place that may be next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reached(pub(super) Vec<bool>);

impl<T> Sequence<T> {
    /// Before the first thing.
    pub(super) fn start(&self) -> Reached {
        let mut reached = vec![false; self.0.len() + 1];
        reached[0] = true;
        self.past_any(reached)
    }

    /// Behind one thing more; `takes` says whether a place takes it.
    pub(super) fn step(&self, reached: &Reached, takes: impl Fn(usize, &T) -> bool) -> Reached {
        let mut next = vec![false; self.0.len() + 1];
        for (at, place) in self.0.iter().enumerate().filter(|(at, _)| reached.0[*at]) {
            match place {
                Place::Any => next[at] = true,
                Place::One(one) => next[at + 1] |= takes(at, one),
            }
        }
        self.past_any(next)
    }

    /// Whether the sequence may end here.
    pub(super) fn is_end(&self, reached: &Reached) -> bool {
        reached.0[self.0.len()]
    }

    fn past_any(&self, mut reached: Vec<bool>) -> Reached {
        for (at, place) in self.0.iter().enumerate() {
            reached[at + 1] |= reached[at] && matches!(place, Place::Any);
        }
        Reached(reached)
    }
}
