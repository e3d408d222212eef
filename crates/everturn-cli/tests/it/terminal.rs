//! In a terminal: what is typed while a turn runs, and what is asked there at once.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::{
    place::Place,
    script::{Script, results},
};

/// A terminal with the command in it.
struct Seat {
    child: Child,
    keys: File,
    /// What was shown and not looked at yet.
    shown: String,
}

impl Seat {
    fn new(place: &Place, arguments: &[&str]) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let mut command = behind(&place.command(arguments));
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        command.stdin(terminal.try_clone().unwrap()).stdout(terminal.try_clone().unwrap()).stderr(terminal);
        Self { child: command.spawn().unwrap(), keys: keys.into(), shown: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until something is shown.
    fn until(&mut self, says: &str) {
        let mut bytes = [0; 4096];
        while !self.shown.contains(says) {
            let count = self.keys.read(&mut bytes).unwrap_or(0);
            assert!(count > 0, "{says:?} is not in {:?}", self.shown);
            self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        let (_, rest) = self.shown.split_once(says).unwrap();
        self.shown = rest.to_owned();
    }

    fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

/// The command as a shell in this terminal starts it: Ctrl-C is a signal while no line is edited.
fn behind(command: &Command) -> Command {
    let mut leader = Command::new("setsid");
    leader.arg("--ctty").arg(command.get_program()).args(command.get_args());
    leader.current_dir(command.get_current_dir().unwrap()).env_clear();
    leader.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    leader
}

#[test]
fn a_chat_takes_lines_while_a_turn_runs() {
    let (place, script) = (Place::new(), Script::new());
    let mut seat = Seat::new(&place, &["chat", "--model", &script.model]);
    seat.until("/help says what else there is");
    seat.types("go\r");
    script.asked();
    seat.types("in French, please\r");
    seat.until("the turn gets it before its next request");
    script.calls(&[("write", json!({"path": "b.txt", "content": "b"}))]);
    seat.until("may write run? write(b.txt)");
    seat.types("what?\r");
    seat.until("n REASON denies it");
    seat.until("n REASON denies it");
    seat.types("n not that\r");
    seat.until("denied: not that");
    let request = script.asked();
    assert!(results(&request)[0].contains("Declined by local: not that"), "{request}");
    assert!(request.to_string().contains("in French, please"), "{request}");
    script.says("bon");
    seat.until("bon");
    // What was shown may not be committed yet: the next turn begins behind it.
    seat.types("again\r");
    script.asked();
    seat.types("/usage\r");
    seat.until("2 requests");
    seat.types("\u{3}");
    seat.until("cancelled");
    script.says("too late");
    seat.types("/quit\r");
    seat.until("goes on here");
    assert_eq!(seat.ended(), Some(0));
}

#[test]
fn a_question_of_a_run_in_a_terminal_is_asked_there() {
    let (place, script) = (Place::new(), Script::new());
    let mut seat = Seat::new(&place, &["run", "go", "--model", &script.model]);
    script.asked();
    script.calls(&[("write", json!({"path": "b.txt", "content": "b"}))]);
    seat.until("may write run? write(b.txt)");
    seat.types("maybe\n");
    seat.until("e JSON allows it with these arguments\r\n");
    seat.types("y\n");
    seat.until("allowed");
    let results = results(&script.asked());
    assert!(results[0].contains("created"), "{results:?}");
    // Decided elsewhere, while it is asked here.
    script.calls(&[("write", json!({"path": "c.txt", "content": "c"}))]);
    seat.until("may write run? write(c.txt)");
    place.run(&["deny", &place.newest(), "--reason", "no"]).well();
    seat.until("was decided elsewhere");
    script.asked();
    script.says("done");
    seat.until("done");
    assert_eq!(seat.ended(), Some(0));
}

#[test]
fn a_chat_undoes_resets_and_lists() {
    let (place, script) = (Place::new(), Script::new());
    let arguments = ["chat", "--allow", "write(src/**)", "--model", &script.model];
    let mut seat = Seat::new(&place, &arguments);
    seat.until("/help says what else there is");
    seat.types("/undo\r");
    seat.until("nothing was asked yet");
    seat.types("change it\r");
    script.asked();
    script.calls(&[("write", json!({"path": "src/small.rs", "content": "changed"}))]);
    script.asked();
    script.says("changed it");
    seat.until("changed it");
    seat.types("/turns\r");
    seat.until("answered, 2 requests");
    seat.types("/undo\r");
    seat.until(": src/small.rs");
    assert!(std::fs::read_to_string(place.path().join("src/small.rs")).unwrap().contains('7'));
    seat.types("/approvals\r");
    seat.until("nothing waits for a decision");
    seat.types("/compact\r");
    seat.until("as short as it can be");
    seat.types("/reset it was about pears\r");
    seat.until("begun anew at entry");
    seat.types("/nonsense\r");
    seat.until("there is no /nonsense");
    seat.types("/quit\r");
    seat.until("goes on here");
    assert_eq!(seat.ended(), Some(0));
}
