//! Random transcripts, shortened again and again.

use std::sync::Arc;

use everturn_core::{
    compaction::{
        Asking, DropToolOutput, KeepLast, Plan, Strategy as Shortens, Summarise, Transcript, Wanted,
        summary_request, weigh,
    },
    context::{Context, check},
    entry::{Edit, Entry, EntryRecord, Head, kind},
    id::{EntryId, TaskId},
    json::RawJson,
    message::{Assistant, CallId, End, Message, Outcome, Part},
};
use proptest::{collection::vec, prelude::*};

use super::{Log, cut, is_in, prompt};

#[derive(Clone, Debug)]
struct Step {
    /// The sizes of the results of its calls.
    results: Vec<usize>,
    is_reversed: bool,
    is_cut_before: bool,
    /// Somebody says something between its results; the turn places it, or it is just written.
    said_between: Option<bool>,
    has_opaque: bool,
}

#[derive(Clone, Debug)]
enum Move {
    Turn {
        steps: Vec<Step>,
        size: usize,
        leaves_open: usize,
        is_ours: bool,
    },
    /// The calls that run come to an end.
    Settle,
    /// Somebody says something; a turn with running calls places it, or it is just written.
    Say {
        in_turn: bool,
    },
    Prompt(u8),
    Edit {
        target: usize,
        omits: bool,
    },
    Reset {
        to: Option<usize>,
    },
    /// A fork goes on from an earlier entry.
    Fork {
        at: usize,
    },
    Shorten {
        how: u8,
        keep: u64,
        room: Option<u64>,
        from_head: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let results = vec(prop_oneof![4 => 0..80usize, 1 => 200..900usize], 0..4);
    (results, any::<bool>(), any::<bool>(), any::<Option<bool>>(), any::<bool>()).prop_map(
        |(results, is_reversed, is_cut_before, said_between, has_opaque)| Step {
            results,
            is_reversed,
            is_cut_before,
            said_between,
            has_opaque,
        },
    )
}

fn moves() -> impl Strategy<Value = Move> {
    let room = proptest::option::of(50..900u64);
    prop_oneof![
        8 => (vec(step(), 0..4), 0..400usize, 0..3usize, any::<bool>())
            .prop_map(|(steps, size, leaves_open, is_ours)| Move::Turn { steps, size, leaves_open, is_ours }),
        2 => Just(Move::Settle),
        2 => any::<bool>().prop_map(|in_turn| Move::Say { in_turn }),
        1 => any::<u8>().prop_map(Move::Prompt),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(target, omits)| Move::Edit { target, omits }),
        1 => proptest::option::of(any::<usize>()).prop_map(|to| Move::Reset { to }),
        1 => any::<usize>().prop_map(|at| Move::Fork { at }),
        6 => (0..6u8, 0..400u64, room, any::<bool>())
            .prop_map(|(how, keep, room, from_head)| Move::Shorten { how, keep, room, from_head }),
    ]
}

#[derive(Default)]
struct World {
    log: Log,
    prompt: u8,
    /// The calls that run, and their turn.
    open: Vec<(Option<TaskId>, CallId)>,
}

/// A text that occurs once.
fn mark(log: &mut Log, size: usize) -> String {
    format!("<{}>{}", log.mint(), "x".repeat(size))
}

fn marks(text: &str) -> Vec<&str> {
    let is_mark = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split(['<', '>']).filter(is_mark).collect()
}

impl World {
    fn take(&mut self, next: Move) {
        match next {
            Move::Turn { steps, size, leaves_open, is_ours } => {
                // What an application writes by itself has no task.
                let turn = is_ours.then(|| TaskId(self.log.mint()));
                self.turn(turn, steps, size);
                let open = self.answer(turn, leaves_open, false);
                if open.is_empty() {
                    self.log.push(turn, Entry::new(kind::TURN));
                }
                self.open.extend(open.into_iter().map(|id| (turn, id)));
            }
            Move::Settle => self.settle(),
            Move::Say { in_turn } => {
                let turn = self.open.first().and_then(|(turn, _)| *turn).filter(|_| in_turn);
                self.say(turn, 5);
            }
            Move::Prompt(rules) => self.prompt = rules,
            Move::Edit { target, omits } => {
                // What is told of the prompt is told anew behind an edit, whatever takes its place.
                let is_told = |entry: &EntryRecord| [kind::SYSTEM, kind::EPOCH].contains(&&*entry.kind);
                let told = self.log.entries.iter().filter(|entry| is_told(entry)).map(|entry| entry.id);
                let told: Vec<_> = told.collect();
                if let Some(target) = self.pick(target).filter(|target| !told.contains(target)) {
                    let text = mark(&mut self.log, 3);
                    let edit = match omits {
                        true => Edit::omit(target),
                        false => Edit::replace(target, [Message::user(text)]),
                    };
                    self.log.push(None, Entry::new("app.edit").edit(edit));
                }
            }
            Move::Reset { to } => {
                let head = to.and_then(|to| self.pick(to)).map_or(Head::Itself, Head::Entry);
                let text = mark(&mut self.log, 3);
                self.log.push(None, Entry::new(kind::RESET).message(Message::user(text)).head(head));
            }
            Move::Fork { at } => {
                let at = at % (self.log.entries.len() + 1);
                self.log.entries.truncate(at);
                self.open.clear();
            }
            Move::Shorten { how, keep, room, from_head } => {
                self.shorten(how, &Wanted { keep_recent: keep, room }, from_head);
            }
        }
        self.log.context();
    }

    fn pick(&self, choice: usize) -> Option<EntryId> {
        let entries = &self.log.entries;
        entries.get(choice % entries.len().max(1)).map(|entry| entry.id)
    }

    fn turn(&mut self, turn: Option<TaskId>, steps: Vec<Step>, size: usize) {
        self.settle();
        self.tell();
        self.say(turn, size);
        for step in steps {
            if step.is_cut_before {
                self.log.say(turn, kind::ASSISTANT, cut("cut"));
            }
            let ids = self.answer(turn, step.results.len(), step.has_opaque);
            let mut results: Vec<_> = ids.iter().zip(step.results).collect();
            if step.is_reversed {
                results.reverse();
            }
            for (at, (id, size)) in results.into_iter().enumerate() {
                if let (1, Some(in_turn)) = (at, step.said_between) {
                    self.say(turn.filter(|_| in_turn), 5);
                }
                let text = mark(&mut self.log, size);
                self.log.result(turn, id, &text);
            }
        }
    }

    fn say(&mut self, turn: Option<TaskId>, size: usize) {
        let text = mark(&mut self.log, size);
        self.log.push(turn, Entry::new(kind::USER).message(Message::user(text)));
    }

    fn answer(&mut self, turn: Option<TaskId>, calls: usize, has_opaque: bool) -> Vec<CallId> {
        let text = mark(&mut self.log, 10);
        let ids: Vec<_> = (0..calls).map(|_| CallId(format!("c{}", self.log.mint()))).collect();
        let Message::Assistant(mut message) = super::calling(&text, &ids) else { unreachable!() };
        if has_opaque {
            message.parts.push(Part::Opaque(RawJson::empty()));
        }
        self.log.say(turn, kind::ASSISTANT, Message::Assistant(message));
        ids
    }

    fn settle(&mut self) {
        for (turn, call) in std::mem::take(&mut self.open) {
            let text = mark(&mut self.log, 5);
            self.log.result(turn, &call, &text);
        }
    }

    fn tell(&mut self) {
        let rules = format!("rules {}", self.prompt);
        self.log.tell(&prompt(&rules));
        let texts = self.log.context().texts();
        let told = texts.iter().rev().find(|text| text.contains("rules "));
        assert!(told.is_some_and(|text| text.contains(&rules)), "the model knows what it should: {texts:?}");
    }

    fn shorten(&mut self, how: u8, wanted: &Wanted, from_head: bool) {
        let before = self.log.context();
        let begin = from_head.then(|| head_of(&self.log.entries)).flatten();
        let entries = &self.log.entries;
        let begin = entries.iter().position(|entry| Some(entry.id) == begin).unwrap_or(0);
        let transcript = Transcript { entries: &entries[begin..] };
        let strategy: &dyn Shortens = match how {
            0..=2 => &Summarise,
            3 => &KeepLast { turns: 2 },
            _ => &DropToolOutput { keep_last: 2, at_least_bytes: 100 },
        };
        let Some(plan) = strategy.plan(&transcript, wanted) else { return };
        assert!(plan.fits(&before));
        assert!(plan.tokens_kept < plan.tokens_before, "{plan:?}");
        let summary = plan.needs_summary.then(|| self.summary(&before, &plan, &transcript));
        self.log.take(&plan, summary.as_deref());
        self.check(&before, &plan, wanted);
        self.tell();
        self.check(&before, &plan, wanted);
    }

    /// A summary that forgets nothing, once it is shown that whoever wrote it was told all.
    fn summary(&self, before: &Context, plan: &Plan, transcript: &Transcript<'_>) -> String {
        let earlier = before.head().filter(|head| {
            before.active().iter().any(|active| active.entry == *head && !active.messages.is_empty())
        });
        assert_eq!(
            plan.summarise.first().copied().filter(|first| earlier.is_some_and(|head| head == *first)),
            earlier,
            "an earlier summary is summarised first"
        );
        let gone = before.active().iter().filter(|active| plan.summarise.contains(&active.entry));
        let texts: Vec<_> = gone
            .flat_map(|active| &active.messages)
            .filter(|message| !is_cut(message))
            .map(|message| message.text())
            .collect();
        let asking = Asking { focus: None, tokens_max: u64::MAX };
        let request = summary_request(transcript, plan, &asking);
        let told = request[1].text();
        let texts = texts.join("\n");
        assert!(marks(&texts).iter().all(|mark| told.contains(&format!("<{mark}>"))));
        let request: Vec<_> = request.into_iter().map(Arc::new).collect();
        assert_eq!(check(&request), Ok(()));
        marks(&texts).iter().map(|mark| format!("<{mark}>")).collect()
    }

    fn check(&self, before: &Context, plan: &Plan, wanted: &Wanted) {
        let after = self.log.context();
        if let Some((_, call)) = self.open.first() {
            let is_its = |entry: &&EntryRecord| entry.messages.iter().any(|message| makes(message, call));
            let was_there = before.messages().iter().any(|message| makes(message, call));
            let is_there = after.messages().iter().any(|message| makes(message, call));
            assert!(!was_there || is_there, "{:?}", self.log.entries.iter().find(is_its));
        }
        let missing = |context: &Context| -> Vec<CallId> {
            context.messages().iter().filter_map(|message| made_up(message)).collect()
        };
        let missed = missing(before);
        for call in missing(&after) {
            assert!(missed.contains(&call), "{call} and its result were separated: {plan:?}");
        }
        if wanted.room.is_none() {
            let newest = before.active().iter().rev().flat_map(|active| active.messages.iter().rev());
            let mut sum = 0;
            for message in newest.filter(|message| is_in(message, before.messages()) && !is_system(message)) {
                sum += weigh(message);
                if sum > wanted.keep_recent {
                    break;
                }
                let is_kept = after.messages().iter().any(|other| says(other) == says(message));
                assert!(is_kept, "{message:?} is gone: {plan:?}");
            }
        }
        if plan.needs_summary {
            let texts = after.texts().join("\n");
            let of_conversation = before.messages().iter().filter(|message| !is_system(message));
            for message in of_conversation {
                for mark in marks(&message.text()) {
                    assert!(texts.contains(&format!("<{mark}>")), "{mark} is forgotten: {plan:?}");
                }
            }
        }
    }
}

/// What a message says, whatever provider reads it.
fn says(message: &Message) -> Message {
    match message {
        Message::Assistant(assistant) => {
            let is_opaque = |part: &Part| matches!(part, Part::Opaque(_));
            let parts = assistant.parts.iter().filter(|part| !is_opaque(part)).cloned().collect();
            Message::Assistant(Assistant { parts, ..assistant.clone() })
        }
        other => other.clone(),
    }
}

fn head_of(entries: &[EntryRecord]) -> Option<EntryId> {
    entries.iter().rev().find_map(|entry| Some(entry.head?.entry(entry.id)))
}

fn makes(message: &Message, id: &CallId) -> bool {
    matches!(message, Message::Assistant(assistant) if assistant.calls().any(|call| call.id == *id))
}

fn made_up(message: &Message) -> Option<CallId> {
    match message {
        Message::Result(result) if result.outcome == Outcome::MissingResult => Some(result.call.clone()),
        _ => None,
    }
}

fn is_cut(message: &Message) -> bool {
    matches!(message, Message::Assistant(assistant) if assistant.end != End::Complete)
}

fn is_system(message: &Message) -> bool {
    matches!(message, Message::System(_))
}

proptest! {
    #[test]
    fn no_chain_of_compactions_makes_a_request_illegal_or_forgets_what_is_recent(
        moves in vec(moves(), 0..40),
    ) {
        let mut world = World::default();
        moves.into_iter().for_each(|next| world.take(next));
    }
}
