//! Text from outside (a model, a tool, a server, a file name) as a terminal, and a transcript, may get it.
//!
//! Whole control sequences are removed. A beginning of one that never ends becomes U+FFFD and what is behind it is
//! shown, so nothing is swallowed. Other controls and direction marks become U+FFFD, hidden characters are removed,
//! and every end of line becomes a newline. Cleaning clean text changes nothing.

#[cfg(test)]
mod tests;

const REPLACEMENT: char = '\u{fffd}';
const ESC: char = '\u{1b}';
const BEL: char = '\u{7}';

/// Where in a control sequence the text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// In none.
    #[default]
    Text,
    /// Behind ESC.
    Escape,
    /// Behind ESC and intermediates: one final character ends it.
    Intermediate,
    /// In the parameters of a CSI.
    Parameters,
    /// In the intermediates of a CSI.
    CsiIntermediate,
    /// In the text of OSC, which BEL ends too.
    Command,
    /// In the text of DCS, SOS, PM or APC.
    Passage,
    /// Behind an ESC in either text: a backslash ends it.
    Terminator,
}

/// Cleans text that comes in pieces, cut anywhere.
///
/// Promise: the pieces of a text give, joined, what the whole text gives. What may be the beginning of a control
/// sequence is held back until that is known.
///
/// ```
/// use everturn_core::clean::Cleaner;
/// let mut cleaner = Cleaner::default();
/// assert_eq!(cleaner.push("\u{1b}[3") + &cleaner.push("1mred") + &cleaner.finish(), "red");
/// ```
#[derive(Debug, Default)]
pub struct Cleaner {
    state: State,
    /// The sequence so far.
    held: String,
    /// A carriage return came last and was written as a newline: a newline right behind it is the same one.
    is_behind_return: bool,
}

/// What a character does to a sequence.
enum Turn {
    /// It belongs to it.
    On(State),
    /// It ends it.
    Complete,
    /// It does not belong to it: no sequence.
    Broken,
}

impl Cleaner {
    /// Takes the next piece, and gives what may be written so far.
    pub fn push(&mut self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for c in text.chars() {
            self.take(c, &mut clean);
        }
        clean
    }

    /// Ends the text, and gives what was held back. The cleaner is then as new.
    pub fn finish(&mut self) -> String {
        let mut clean = String::new();
        while self.state != State::Text {
            self.give_up(&mut clean);
        }
        self.is_behind_return = false;
        clean
    }

    fn take(&mut self, c: char, clean: &mut String) {
        let turn =
            if self.state == State::Text { begin(c).map(Turn::On) } else { Some(go_on(self.state, c)) };
        match turn {
            None => self.write(c, clean),
            Some(Turn::On(state)) => {
                self.state = state;
                self.held.push(c);
                self.is_behind_return = false;
            }
            Some(Turn::Complete) => {
                self.state = State::Text;
                self.held.clear();
            }
            Some(Turn::Broken) => {
                self.give_up(clean);
                self.take(c, clean);
            }
        }
    }

    /// Takes what is held for no sequence. All behind its introducer is read again; at most the ESC that might have
    /// ended it is then held anew.
    fn give_up(&mut self, clean: &mut String) {
        self.state = State::Text;
        let held = std::mem::take(&mut self.held);
        clean.push(REPLACEMENT);
        for c in held.chars().skip(1) {
            self.take(c, clean);
        }
    }

    /// Writes a character that is in no sequence.
    fn write(&mut self, c: char, clean: &mut String) {
        let was_behind_return = std::mem::replace(&mut self.is_behind_return, c == '\r');
        match c {
            '\n' if was_behind_return => {}
            '\r' | '\u{2028}' | '\u{2029}' => clean.push('\n'),
            '\n' | '\t' => clean.push(c),
            c if c.is_control() || turns_direction(c) => clean.push(REPLACEMENT),
            c if is_hidden(c) => {}
            c => clean.push(c),
        }
    }
}

/// Cleans a text.
///
/// ```
/// use everturn_core::clean;
/// assert_eq!(clean::text("a\u{1b}[2Kb\r\n"), "ab\n");
/// ```
pub fn text(text: &str) -> String {
    let mut cleaner = Cleaner::default();
    cleaner.push(text) + &cleaner.finish()
}

/// Cleans a name or a question, which is one line: a newline in it becomes U+FFFD too.
///
/// ```
/// use everturn_core::clean;
/// assert_eq!(clean::line("a\nb"), "a\u{fffd}b");
/// ```
pub fn line(text: &str) -> String {
    self::text(text).replace('\n', "\u{fffd}")
}

/// The sequence that a character begins.
fn begin(c: char) -> Option<State> {
    match c {
        ESC => Some(State::Escape),
        '\u{9b}' => Some(State::Parameters),
        '\u{9d}' => Some(State::Command),
        '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => Some(State::Passage),
        _ => None,
    }
}

fn go_on(state: State, c: char) -> Turn {
    use State::{Command, CsiIntermediate, Escape, Intermediate, Parameters, Passage, Terminator, Text};
    match (state, c) {
        (Escape, '[') => Turn::On(Parameters),
        (Escape, ']') => Turn::On(Command),
        (Escape, 'P' | 'X' | '^' | '_') => Turn::On(Passage),
        (Escape | Intermediate, ' '..='/') => Turn::On(Intermediate),
        (Escape | Intermediate, '0'..='~') => Turn::Complete,
        (Parameters, '0'..='?') => Turn::On(Parameters),
        (Parameters | CsiIntermediate, ' '..='/') => Turn::On(CsiIntermediate),
        (Parameters | CsiIntermediate, '@'..='~') => Turn::Complete,
        (Command, BEL) | (Command | Passage, '\u{9c}') | (Terminator, '\\') => Turn::Complete,
        (Command | Passage, ESC) => Turn::On(Terminator),
        (Command | Passage, c) if !c.is_control() => Turn::On(state),
        (Text | Escape | Intermediate | Parameters | CsiIntermediate | Command | Passage | Terminator, _) => {
            Turn::Broken
        }
    }
}

/// Whether a character turns the direction in which its neighbours are shown.
fn turns_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Whether a character is never seen, and so can carry what nobody reads.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}
