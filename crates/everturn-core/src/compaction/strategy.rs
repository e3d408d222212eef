//! The strategies that are built in.

use super::{
    Plan, Strategy, Transcript, Wanted,
    layout::{Layout, Piece},
    summary, tokens,
};
use crate::{
    entry::Edit,
    message::{CallResult, Message},
};

/// A summary takes the place of all but the newest messages.
///
/// ```
/// use everturn_core::compaction::{Strategy, Summarise};
/// assert_eq!(Summarise.name(), "summarise");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Summarise;

impl Strategy for Summarise {
    fn name(&self) -> &'static str {
        "summarise"
    }

    fn plan(&self, transcript: &Transcript<'_>, wanted: &Wanted) -> Option<Plan> {
        let layout = Layout::of(transcript);
        let (recent, keep) = (layout.recent(wanted), layout.keep(wanted));
        let turn =
            layout.cuts.iter().rev().find(|cut| cut.is_turn && cut.at <= recent).map_or(0, |cut| cut.at);
        // What began before all of it is a turn too: where that is not too large, nothing is to be gained.
        let is_good = layout.kept(turn) <= keep.saturating_mul(2) && layout.fits(turn, wanted);
        let at = if is_good { turn } else { layout.anywhere(wanted)? };
        let plan = layout.cut(at, summary::frame_tokens())?;
        Some(Plan { strategy: self.name(), needs_summary: true, ..plan })
    }
}

/// Only the newest turns are kept, and a short note says so. Nobody is asked for a summary, and an earlier one goes too.
///
/// ```
/// use everturn_core::compaction::{KeepLast, Strategy};
/// assert_eq!(KeepLast { turns: 8 }.name(), "keep_last");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeepLast {
    /// How many turns are kept, at least one; more, where they have fewer tokens than are wanted.
    pub turns: usize,
}

impl Strategy for KeepLast {
    fn name(&self) -> &'static str {
        "keep_last"
    }

    fn plan(&self, transcript: &Transcript<'_>, wanted: &Wanted) -> Option<Plan> {
        let layout = Layout::of(transcript);
        let recent = layout.recent(wanted);
        let turns: Vec<_> = layout.cuts.iter().filter(|cut| cut.is_turn).map(|cut| cut.at).collect();
        let few = &turns[..(turns.len() + 1).saturating_sub(self.turns.max(1))];
        let turn = few.iter().rev().find(|at| **at <= recent).copied();
        let at = match turn.filter(|at| layout.fits(*at, wanted)) {
            Some(at) => at,
            None if layout.fits(0, wanted) => return None,
            None => layout.anywhere(wanted)?,
        };
        let plan = layout.cut(at, tokens::of_bytes(summary::NOTE.len()))?;
        Some(Plan { strategy: self.name(), ..plan })
    }
}

/// Old outputs of tools are dropped, all else stays. The whole outputs are still stored.
///
/// ```
/// use everturn_core::compaction::{DropToolOutput, Strategy};
/// assert_eq!(DropToolOutput { keep_last: 10, at_least_bytes: 2_000 }.name(), "drop_tool_output");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DropToolOutput {
    /// How many of the newest results stay as they are.
    pub keep_last: usize,
    /// How many bytes an output has that is worth dropping.
    pub at_least_bytes: usize,
}

impl Strategy for DropToolOutput {
    fn name(&self) -> &'static str {
        "drop_tool_output"
    }

    fn plan(&self, transcript: &Transcript<'_>, wanted: &Wanted) -> Option<Plan> {
        let layout = Layout::of(transcript);
        let before = layout.recent(wanted).min(layout.running);
        let mut newest = self.keep_last;
        let mut saved = 0;
        let mut edits = Vec::new();
        for (at, piece) in layout.pieces.iter().enumerate().rev() {
            let results = results(piece);
            if newest < results && at < before {
                edits.extend(self.shortened(piece, newest, &mut saved));
            }
            newest = newest.saturating_sub(results);
        }
        edits.reverse();
        let plan = layout.nothing(layout.all().saturating_sub(saved));
        (!edits.is_empty()).then_some(Plan { strategy: self.name(), edits, ..plan })
    }
}

fn results(piece: &Piece<'_>) -> usize {
    piece.contributed.iter().filter(|message| matches!(***message, Message::Result(_))).count()
}

impl DropToolOutput {
    /// The edit that drops the outputs of an entry but the `newest`; none where there is nothing to drop.
    fn shortened(&self, piece: &Piece<'_>, newest: usize, saved: &mut u64) -> Option<Edit> {
        let mut left = results(piece) - newest;
        let mut gain = 0;
        let messages: Vec<_> = piece
            .contributed
            .iter()
            .map(|message| match &**message {
                Message::Result(result) if left > 0 => {
                    left -= 1;
                    let short = self.dropped(result).map_or_else(|| (**message).clone(), Message::Result);
                    gain += tokens::weigh(message) - tokens::weigh(&short);
                    short
                }
                _ => (**message).clone(),
            })
            .collect();
        *saved += gain;
        (gain > 0).then(|| Edit::replace(piece.record.id, messages))
    }

    /// The result without its output; none where it is short.
    fn dropped(&self, result: &CallResult) -> Option<CallResult> {
        let text = format!("[The output was dropped to make room: it had {} bytes.]", result.text.len());
        let is_worth = result.text.len() >= self.at_least_bytes && result.text.len() > text.len();
        is_worth.then(|| CallResult { text, details: None, truncated: true, shown: 0, ..result.clone() })
    }
}
