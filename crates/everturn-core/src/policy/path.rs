//! Paths: where a resolved path lies, and globs that are held against it.

use super::{
    stars::{Place, Sequence, Stars},
    text::{self, Letter, is_hidden},
};

/// A resolved path, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path<'a> {
    /// Whether it is outside of the root.
    pub(super) is_absolute: bool,
    components: Vec<&'a str>,
}

impl<'a> Path<'a> {
    /// Errors: why no rule may allow it.
    pub(super) fn of(path: &'a str) -> Result<Self, &'static str> {
        if path.is_empty() {
            return Err("an empty path names nothing");
        }
        if path.chars().any(is_hidden) {
            return Err("the path holds a control character or a direction override");
        }
        let components: Vec<_> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        if components.contains(&"..") {
            return Err("the path is not resolved");
        }
        Ok(Self { is_absolute: path.starts_with('/'), components })
    }

    /// Whether it is a component `.git`, or lies below one.
    pub(super) fn is_of_git(&self) -> bool {
        self.components.iter().any(|name| name.eq_ignore_ascii_case(".git"))
    }
}

/// A pattern for resolved paths: component by component, a star inside one, two stars for any number of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    is_absolute: bool,
    components: Sequence<Stars>,
}

impl Glob {
    /// The glob for one path and nothing else.
    pub(super) fn exactly(path: &Path<'_>) -> Self {
        let components = path.components.iter().map(|name| Place::One(Stars::exactly(*name)));
        Self { is_absolute: path.is_absolute, components: Sequence(components.collect()) }
    }

    pub(super) fn parse(letters: &[Letter]) -> Result<Self, String> {
        let Some(first) = letters.first() else {
            return Err(
                "the path is empty; write ** for all below the root, and . for the root itself".into()
            );
        };
        if first.means('~') {
            return Err(
                r"~ is not the home directory; write its path, or \~ for a name that begins so".into()
            );
        }
        let mut components = Vec::new();
        for name in letters.split(|letter| letter.letter == '/') {
            let plain: String = name.iter().map(|letter| letter.letter).collect();
            match name {
                [] => {}
                _ if plain == "." => {}
                _ if plain == ".." => {
                    return Err(
                        ".. never matches, because paths are resolved; begin a place outside of the \
                                root with /"
                            .into(),
                    );
                }
                [a, b] if a.means('*') && b.means('*') => components.push(Place::Any),
                _ => components.push(Place::One(Stars::parse(name)?)),
            }
        }
        Ok(Self { is_absolute: first.letter == '/', components: Sequence(components) })
    }

    /// One without a slash in front never matches outside of the root, one with it never inside.
    pub(super) fn matches(&self, path: &Path<'_>) -> bool {
        let mut reached = self.components.start();
        for name in &path.components {
            reached = self.components.step(&reached, |_, stars| stars.matches(name));
        }
        self.is_absolute == path.is_absolute && self.components.is_end(&reached)
    }

    pub(super) fn text(&self) -> String {
        let components: Vec<_> = self.components.0.iter().map(component).collect();
        let text = text::at_ends(components.join("/"));
        match &*text {
            _ if self.is_absolute => format!("/{text}"),
            "" => ".".into(),
            _ if text.starts_with('~') => format!(r"\{text}"),
            _ => text,
        }
    }
}

fn component(place: &Place<Stars>) -> String {
    match place {
        Place::Any => "**".into(),
        Place::One(stars) => stars.text(&[]),
    }
}
