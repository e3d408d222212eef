//! Programs for which an allow rule only asks, because what they run does not show: those that run others, that evaluate text, and
//! interpreters whose program is an argument.

use super::word::Word;

/// Programs that run what stands behind them.
const WRAPPERS: &[&str] = &[
    "env", "xargs", "parallel", "sudo", "doas", "su", "nohup", "nice", "ionice", "timeout", "time", "stdbuf",
    "setsid", "watch", "ssh", "command", "builtin", "exec", "coproc", "busybox",
];

/// What makes `find` run others.
const FIND_RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// What evaluates text, or changes what words mean.
const EVALUATORS: &[&str] = &["eval", ".", "source", "trap", "alias", "hash", "enable"];

/// How an interpreter is given its program.
struct Interpreter {
    names: &'static [&'static str],
    /// Flags of one letter with which the program is an argument.
    text: &'static [char],
    /// The same, spelt out.
    text_long: &'static [&'static str],
    /// Flags of one letter that take a value: what is behind them in their word or, where there is nothing, the next.
    valued: &'static [char],
    /// The same, spelt out: the next word, unless there is a `=`.
    valued_long: &'static [&'static str],
    /// The flag behind which the program's name and its own arguments stand.
    module: Option<char>,
    /// Whether letters behind one that takes a value are flags too, and its value is always the next word.
    is_shell: bool,
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"],
        text: &['c'],
        text_long: &["command", "init-command"],
        valued: &['o', 'O'],
        valued_long: &["rcfile", "init-file"],
        module: None,
        is_shell: true,
    },
    Interpreter {
        names: &["python", "pypy"],
        text: &['c'],
        text_long: &[],
        valued: &['W', 'X'],
        valued_long: &["check-hash-based-pycs"],
        module: Some('m'),
        is_shell: false,
    },
    Interpreter {
        names: &["node", "nodejs", "bun"],
        text: &['e', 'p'],
        text_long: &["eval", "print"],
        valued: &['r', 'C'],
        valued_long: &["require", "import", "loader", "experimental-loader", "conditions", "title"],
        module: None,
        is_shell: false,
    },
    Interpreter {
        names: &["perl"],
        text: &['e', 'E'],
        text_long: &[],
        valued: &['I', 'M', 'm', 'F', 'C', 'D', 'x', 'i', 'd', 'V'],
        valued_long: &[],
        module: None,
        is_shell: false,
    },
    Interpreter {
        names: &["ruby"],
        text: &['e'],
        text_long: &[],
        valued: &['I', 'r', 'C', 'E', 'F', 'K', 'T', 'W', 'x', 'i'],
        valued_long: &["encoding", "external-encoding", "internal-encoding"],
        module: None,
        is_shell: false,
    },
];

/// The name of a program: the last part of its path, in lower case.
pub(super) fn name(program: &str) -> String {
    program.rsplit('/').next().unwrap_or(program).to_ascii_lowercase()
}

/// Whether the words behind the first may be a command of their own.
pub(super) fn runs_others(words: &[Word<'_>]) -> bool {
    let [Word::Known(program), arguments @ ..] = words else { return false };
    let may_be = |word: &Word<'_>| match word {
        Word::Known(word) => FIND_RUNS.contains(word),
        Word::One | Word::Many => true,
    };
    match &*name(program) {
        "find" => arguments.iter().any(may_be),
        name => WRAPPERS.contains(&name) && !arguments.is_empty(),
    }
}

/// Why an allow rule only asks for a command, where that is so.
pub(super) fn hides(words: &[Word<'_>]) -> Option<&'static str> {
    let [Word::Known(program), arguments @ ..] = words else {
        return Some("its program is not known before the run");
    };
    let name = name(program);
    if runs_others(words) {
        Some("it runs another program")
    } else if EVALUATORS.contains(&&*name) {
        Some("it evaluates text, or changes what words mean")
    } else {
        let interpreter = INTERPRETERS.iter().find(|one| one.names.contains(&without_version(&name)));
        let is_text = interpreter.is_some_and(|interpreter| interpreter.takes_text(arguments));
        is_text.then_some("its program is an argument")
    }
}

/// `python` of `python3.12`.
fn without_version(name: &str) -> &str {
    name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.' || letter == '-')
}

/// What comes behind a word of flags.
enum Behind {
    /// More flags, or the file.
    Flags,
    /// A value, then more flags.
    Value,
    /// The program, as text.
    Text,
    /// The program's own arguments.
    Own,
}

impl Interpreter {
    /// Whether its program may be an argument. Flags end at the file.
    fn takes_text(&self, arguments: &[Word<'_>]) -> bool {
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let Word::Known(argument) = argument else { return true };
            match self.behind(argument) {
                Behind::Flags => {}
                Behind::Value if arguments.next() == Some(&Word::Many) => return true,
                Behind::Value => {}
                Behind::Text => return true,
                Behind::Own => return false,
            }
        }
        false
    }

    fn behind(&self, argument: &str) -> Behind {
        if let Some(long) = argument.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or(long);
            return match name {
                "" => Behind::Own,
                _ if self.text_long.contains(&name) => Behind::Text,
                _ if self.valued_long.contains(&long) => Behind::Value,
                _ => Behind::Flags,
            };
        }
        match argument.strip_prefix(['-', '+']) {
            Some(flags) if !flags.is_empty() => self.behind_flags(flags),
            _ => Behind::Own,
        }
    }

    fn behind_flags(&self, flags: &str) -> Behind {
        let mut behind = Behind::Flags;
        for (at, flag) in flags.char_indices() {
            if self.text.contains(&flag) {
                return Behind::Text;
            }
            if self.module == Some(flag) {
                return Behind::Own;
            }
            if self.valued.contains(&flag) {
                let is_last = at + flag.len_utf8() == flags.len();
                behind = if is_last || self.is_shell { Behind::Value } else { Behind::Flags };
                if !self.is_shell {
                    break;
                }
            }
        }
        behind
    }
}
