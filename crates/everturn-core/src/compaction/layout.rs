//! Where a transcript can be cut, and what stands on either side.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Plan, Transcript, Wanted, tokens};
use crate::{
    context::{Active, Context},
    entry::{EntryRecord, kind},
    id::EntryId,
    message::{CallId, Message},
};

/// How many tokens are left free for a summary; an eighth of the room where that is less.
const SUMMARY: u64 = 2_048;

/// The newest entry with a head or edits.
pub(super) fn newest_break(context: &Context) -> Option<EntryId> {
    context.standing().broken.map(|(entry, _)| entry)
}

/// A transcript's active entries, what they weigh, and where they can be cut.
pub(super) struct Layout<'a> {
    pub(super) pieces: Vec<Piece<'a>>,
    /// Where it can be cut, in order.
    pub(super) cuts: Vec<Cut>,
    /// Where the calls that still run begin; the end, where none does.
    pub(super) running: usize,
    /// How many tokens the context has, as far as was reported.
    tokens: u64,
    /// What of them is told beside the messages, and will be told anew.
    told: u64,
    based_on: Option<EntryId>,
}

/// An active entry, and what it weighs.
pub(super) struct Piece<'a> {
    pub(super) record: &'a EntryRecord,
    /// All that it contributes.
    pub(super) contributed: Vec<Arc<Message>>,
    /// What of that has a place in the request.
    pub(super) sent: Vec<Arc<Message>>,
    /// What it weighs as a part of the conversation: nothing, for what is told of the system prompt.
    pub(super) tokens: u64,
}

/// A place before a piece where a transcript can be cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// The first piece behind it.
    pub(super) at: usize,
    /// Whether a turn begins there.
    pub(super) is_turn: bool,
}

impl<'a> Piece<'a> {
    fn of(record: &'a EntryRecord, active: &Active, sent: &HashSet<*const Message>) -> Self {
        let contributed = active.messages.clone();
        let is_sent = |message: &&Arc<Message>| sent.contains(&Arc::as_ptr(message));
        let sent: Vec<_> = contributed.iter().filter(is_sent).cloned().collect();
        let tokens = sent.iter().map(|message| tokens::weigh(message)).sum();
        let piece = Self { record, contributed, sent, tokens };
        if piece.is_told() { Self { tokens: 0, ..piece } } else { piece }
    }

    /// Whether it says something of the system prompt, which the next epoch tells anew.
    fn is_told(&self) -> bool {
        matches!(self.record.kind.as_str(), kind::SYSTEM | kind::EPOCH)
    }

    /// Whether it is a part of the turn that wrote it, in its place: who carries a head stands at the front.
    fn is_of_turn(&self) -> bool {
        let kind = self.record.kind.as_str();
        let is_written = matches!(kind, kind::USER | kind::ASSISTANT | kind::RESULT | kind::NOTICE);
        is_written && self.record.head.is_none()
    }
}

/// For each place whether something spans it.
struct Spans(Vec<i32>);

impl Spans {
    fn add(&mut self, first: usize, last: usize) {
        self.0[first + 1] += 1;
        self.0[last + 1] -= 1;
    }

    fn are_over(&self) -> Vec<bool> {
        let sum = |sum: &mut i32, change: &i32| {
            *sum += change;
            Some(*sum > 0)
        };
        self.0.iter().scan(0, sum).collect()
    }
}

impl<'a> Layout<'a> {
    pub(super) fn of(transcript: &Transcript<'a>) -> Self {
        let context = transcript.context();
        let records: HashMap<_, _> = transcript.entries.iter().map(|entry| (entry.id, entry)).collect();
        let sent: HashSet<_> = context.messages().iter().map(Arc::as_ptr).collect();
        let pieces = context.active().iter().map(|active| Piece::of(records[&active.entry], active, &sent));
        let pieces: Vec<_> = pieces.collect();
        let prompt = &context.standing().prompt;
        let told = tokens::of_tools(&prompt.tools) + tokens::of_bytes(prompt.text().len());
        let mut layout = Self {
            cuts: Vec::new(),
            running: pieces.len(),
            tokens: tokens::tokens_of(&context),
            told,
            based_on: newest_break(&context),
            pieces,
        };
        layout.find_cuts();
        layout
    }

    fn find_cuts(&mut self) {
        let (pairs, running) = self.pairs();
        self.running = running;
        let (pairs, turns) = (pairs.are_over(), self.turns().are_over());
        let cut = |at: usize| {
            let is_turn = match self.pieces[at].sent.first().map(|message| &**message) {
                Some(Message::User(_)) if !turns[at] => true,
                Some(Message::Assistant(_)) => false,
                _ => return None,
            };
            (!pairs[at]).then_some(Cut { at, is_turn })
        };
        let last = running.min(self.pieces.len().saturating_sub(1));
        self.cuts = (1..=last).filter_map(cut).collect();
    }

    /// What calls and their results span, and where the calls begin that still run: those of the newest answer that have
    /// no result yet.
    fn pairs(&self) -> (Spans, usize) {
        let mut spans = Spans(vec![0; self.pieces.len() + 1]);
        let mut open: HashMap<&CallId, usize> = HashMap::new();
        let mut newest: Option<(usize, Vec<&CallId>)> = None;
        for (at, piece) in self.pieces.iter().enumerate() {
            for message in &piece.sent {
                match &**message {
                    Message::Assistant(assistant) => {
                        let calls: Vec<_> = assistant.calls().map(|call| &call.id).collect();
                        open.extend(calls.iter().map(|call| (*call, at)));
                        newest = Some((at, calls));
                    }
                    Message::Result(result) => {
                        if let Some(begin) = open.remove(&result.call) {
                            spans.add(begin, at);
                        }
                    }
                    Message::System(_) | Message::User(_) => {}
                }
            }
        }
        let runs = newest.filter(|(_, calls)| calls.iter().any(|call| open.contains_key(*call)));
        (spans, runs.map_or(self.pieces.len(), |(at, _)| at))
    }

    fn turns(&self) -> Spans {
        let mut spans = Spans(vec![0; self.pieces.len() + 1]);
        let mut turns = HashMap::new();
        for (at, piece) in self.pieces.iter().enumerate().filter(|(_, piece)| piece.is_of_turn()) {
            let Some(task) = piece.record.task else { continue };
            let (_, last) = turns.entry(task).or_insert((at, at));
            *last = at;
        }
        turns.values().for_each(|(first, last)| spans.add(*first, *last));
        spans
    }

    /// What the pieces from a place on weigh.
    pub(super) fn kept(&self, at: usize) -> u64 {
        self.pieces[at..].iter().map(|piece| piece.tokens).sum()
    }

    /// The same as a provider would count it, by how it counted all of it, where that is more.
    pub(super) fn counted(&self, tokens: u64) -> u64 {
        let all = self.all().max(1);
        let more = u128::from(tokens) * u128::from(self.tokens.max(all)) / u128::from(all);
        u64::try_from(more).unwrap_or(u64::MAX)
    }

    /// Whether what is kept from a place on leaves enough room.
    pub(super) fn fits(&self, at: usize, wanted: &Wanted) -> bool {
        let with = |room: u64| self.told + self.kept(at) + SUMMARY.min(room / 8);
        wanted.room.is_none_or(|room| self.counted(with(room)) < room)
    }

    /// How many of the newest tokens are kept.
    pub(super) fn keep(&self, wanted: &Wanted) -> u64 {
        let half = |room: u64| room.saturating_sub(self.told) / 2;
        wanted.room.map_or(u64::MAX, half).min(wanted.keep_recent)
    }

    /// The last place before which a cut keeps as many of the newest tokens as wanted.
    pub(super) fn recent(&self, wanted: &Wanted) -> usize {
        let keep = self.keep(wanted);
        let (mut place, mut sum) = (self.pieces.len(), 0);
        for (at, piece) in self.pieces.iter().enumerate().rev().filter(|(_, piece)| piece.tokens > 0) {
            sum += piece.tokens;
            if sum > keep {
                break;
            }
            place = at;
        }
        place
    }

    /// Where to cut when no turn begins in a good place: as late as the newest tokens allow, and later where that leaves
    /// not enough room.
    pub(super) fn anywhere(&self, wanted: &Wanted) -> Option<usize> {
        let recent = self.recent(wanted);
        let best = self.cuts.iter().rev().map(|cut| cut.at).find(|at| *at <= recent);
        if best.is_some_and(|at| self.fits(at, wanted)) || wanted.room.is_none() {
            return best;
        }
        let mut later = self.cuts.iter().map(|cut| cut.at).filter(|at| *at > recent);
        later.find(|at| self.fits(*at, wanted)).or(self.cuts.last().map(|cut| cut.at))
    }

    /// The plan that cuts at a place; none where that gains nothing. An earlier summary is no gain: another takes its
    /// place.
    pub(super) fn cut(&self, at: usize, least: u64) -> Option<Plan> {
        let gone = &self.pieces[..at];
        let gain =
            gone.iter().filter(|piece| piece.record.head.is_none()).map(|piece| piece.tokens).sum::<u64>();
        let is_said = |piece: &&Piece<'_>| !piece.is_told() && piece.tokens > 0;
        (gain > least).then(|| Plan {
            first_kept: Some(self.pieces[at].record.id),
            summarise: gone.iter().filter(is_said).map(|piece| piece.record.id).collect(),
            ..self.nothing(self.told + self.kept(at))
        })
    }

    /// A plan that does nothing yet, and keeps so many tokens.
    pub(super) fn nothing(&self, kept: u64) -> Plan {
        Plan {
            strategy: "",
            first_kept: None,
            summarise: Vec::new(),
            edits: Vec::new(),
            needs_summary: false,
            tokens_before: self.tokens,
            tokens_kept: self.counted(kept),
            based_on: self.based_on,
        }
    }

    /// What all of it weighs.
    pub(super) fn all(&self) -> u64 {
        self.told + self.kept(0)
    }
}
