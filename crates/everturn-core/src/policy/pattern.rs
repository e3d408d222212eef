//! Patterns: which acts a rule is for.

use std::{fmt, str::FromStr};

use super::{
    path::Glob,
    stars::Stars,
    subject::Subject,
    text::{self, Letter, letters},
    word::{Command, Fit},
};
use crate::Error;

/// Which acts a rule is for; its text reads as an act, with stars.
///
/// | text | fits |
/// | --- | --- |
/// | `read(src/**)`, `write(*.md)` | paths below the session's root: a star inside a component, `**` any number of components, none too |
/// | `read(/etc/hosts)` | a place outside of the root |
/// | `exec(git log **)` | commands, as [`Word`](super::Word) says |
/// | `net(*.example.com, 443)`, `net(*, *)` | hosts, in any case of letters, and a port |
/// | `mcp(files, *)`, `spawn(review)`, `tool(count)` | names, in which a star is any run of characters |
///
/// A backslash takes the meaning of what follows: `\*`, `\ `, `\,`, `\\`; `\n`, `\t` and `\u{1b}` are characters that a
/// text does not show.
///
/// ```
/// use everturn_core::policy::Pattern;
///
/// let pattern: Pattern = "write(./src//**)".parse()?;
/// assert_eq!(pattern.to_string(), "write(src/**)");
/// assert!("delete(src)".parse::<Pattern>().unwrap_err().to_string().contains("the acts are read, write,"));
/// # Ok::<(), everturn_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Read(Glob),
    Write(Glob),
    Exec(Command),
    /// The host in lower case; no port is any.
    Net(Stars, Option<u16>),
    Mcp(Stars, Stars),
    Spawn(Stars),
    Tool(Stars),
}

impl Pattern {
    /// The pattern for one act and nothing else.
    pub(super) fn exactly(subject: &Subject<'_>) -> Option<Self> {
        Some(Self(match subject {
            Subject::Read(path) => Kind::Read(Glob::exactly(path)),
            Subject::Write(path) => Kind::Write(Glob::exactly(path)),
            Subject::Exec(words) => Kind::Exec(Command::exactly(words)?),
            Subject::Net(host, port) => Kind::Net(Stars::exactly(host), Some(*port)),
            Subject::Mcp(server, tool) => Kind::Mcp(Stars::exactly(*server), Stars::exactly(*tool)),
            Subject::Spawn(agent) => Kind::Spawn(Stars::exactly(*agent)),
            Subject::Tool(name) => Kind::Tool(Stars::exactly(*name)),
        }))
    }

    /// Whether it fits as an allow rule does.
    pub(super) fn fits_narrowly(&self, subject: &Subject<'_>) -> bool {
        match (&self.0, subject) {
            (Kind::Read(glob), Subject::Read(path)) | (Kind::Write(glob), Subject::Write(path)) => {
                glob.matches(path)
            }
            (Kind::Exec(command), Subject::Exec(words)) => command.fits_narrowly(words),
            (Kind::Net(hosts, ports), Subject::Net(host, port)) => {
                hosts.matches(host) && ports.is_none_or(|one| one == *port)
            }
            (Kind::Mcp(servers, tools), Subject::Mcp(server, tool)) => {
                servers.matches(server) && tools.matches(tool)
            }
            (Kind::Spawn(names), Subject::Spawn(name)) | (Kind::Tool(names), Subject::Tool(name)) => {
                names.matches(name)
            }
            _ => false,
        }
    }

    /// How surely it fits as a deny rule does.
    pub(super) fn fits_broadly(&self, subject: &Subject<'_>) -> Fit {
        match (&self.0, subject) {
            (Kind::Exec(command), Subject::Exec(words)) => command.fits_broadly(words),
            _ if self.fits_narrowly(subject) => Fit::Yes,
            _ => Fit::No,
        }
    }
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|why| Error::invalid(format!("read pattern {text:?}: {why}")))
    }
}

/// Errors: what is wrong, and what is right.
pub(super) fn parse(text: &str) -> Result<Pattern, String> {
    let parts = text.split_once('(').and_then(|(act, rest)| Some((act, rest.strip_suffix(')')?)));
    let Some((act, inside)) = parts else {
        return Err("an act and its pattern in brackets are missing; write them as in read(src/**)".into());
    };
    let inside = letters(inside)?;
    Ok(Pattern(match act {
        "read" => Kind::Read(Glob::parse(&inside)?),
        "write" => Kind::Write(Glob::parse(&inside)?),
        "exec" => Kind::Exec(Command::parse(&inside)?),
        "net" => {
            let [host, port] = pair(&inside, "net takes a host and a port, as in net(example.com, 443)")?;
            Kind::Net(of_host(host)?, of_port(port)?)
        }
        "mcp" => {
            let [server, tool] = pair(&inside, "mcp takes a server and a tool, as in mcp(files, *)")?;
            Kind::Mcp(of_name(server)?, of_name(tool)?)
        }
        "spawn" => Kind::Spawn(of_name(&inside)?),
        "tool" => Kind::Tool(of_name(&inside)?),
        _ => {
            return Err(format!(
                "{act:?} is no act; the acts are read, write, exec, net, mcp, spawn and tool"
            ));
        }
    }))
}

/// The two halves around a comma.
fn pair<'a>(letters: &'a [Letter], right: &str) -> Result<[&'a [Letter]; 2], String> {
    let halves: Vec<_> = letters.split(|letter| letter.means(',')).map(text::trim).collect();
    halves.try_into().map_err(|_| right.to_owned())
}

fn of_name(letters: &[Letter]) -> Result<Stars, String> {
    if letters.is_empty() {
        return Err("a name is empty; write * for any".into());
    }
    Stars::parse(letters)
}

fn of_host(letters: &[Letter]) -> Result<Stars, String> {
    let letters = letters.strip_suffix(&[Letter { letter: '.', is_plain: true }]).unwrap_or(letters);
    Ok(of_name(letters)?.lower())
}

fn of_port(letters: &[Letter]) -> Result<Option<u16>, String> {
    match letters {
        [one] if one.means('*') => Ok(None),
        _ => {
            let port: String = letters.iter().map(|letter| letter.letter).collect();
            let number =
                port.parse().map_err(|_| format!("{port:?} is no port; write a number to 65535, or *"))?;
            Ok(Some(number))
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |stars: &Stars| text::at_ends(stars.text(&[',']));
        match &self.0 {
            Kind::Read(glob) => write!(f, "read({})", glob.text()),
            Kind::Write(glob) => write!(f, "write({})", glob.text()),
            Kind::Exec(command) => write!(f, "exec({})", command.text()),
            Kind::Net(host, Some(port)) => write!(f, "net({}, {port})", name(host)),
            Kind::Net(host, None) => write!(f, "net({}, *)", name(host)),
            Kind::Mcp(server, tool) => write!(f, "mcp({}, {})", name(server), name(tool)),
            Kind::Spawn(agent) => write!(f, "spawn({})", name(agent)),
            Kind::Tool(tool) => write!(f, "tool({})", name(tool)),
        }
    }
}
