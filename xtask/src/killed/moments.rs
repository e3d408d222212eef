//! When to kill: moments from a seed.

use std::time::Duration;

/// When a life is cut short.
#[derive(Clone, Copy)]
pub(super) enum Kill {
    /// After this time.
    After(Duration),
    /// When so many changes of the files in its directory were seen: right behind an effect or a commit, or in it.
    AtChange(u64),
}

/// Moments to kill at. They learn how long lives are, so that about four of five are killed and the moments cover a whole
/// life.
pub(super) struct Moments {
    state: u64,
    /// Times fall into this one.
    span: Duration,
    /// Changes are counted up to this number.
    changes: u64,
}

impl Moments {
    pub(super) fn of(seed: u64) -> Self {
        Self { state: seed, span: Duration::from_millis(200), changes: 50 }
    }

    /// A number below `end`: the same ones from the same seed (SplitMix64; Steele, Lea and Flood, "Fast splittable
    /// pseudorandom number generators", 2014).
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// The next moment.
    pub(super) fn kill(&mut self) -> Kill {
        match self.below(2) {
            0 => {
                let span = u64::try_from(self.span.as_micros()).unwrap_or(u64::MAX);
                Kill::After(Duration::from_micros(self.below(span.max(1))))
            }
            _ => Kill::AtChange(1 + self.below(self.changes)),
        }
    }

    /// Takes in whether a moment fell into a life.
    pub(super) fn learn(&mut self, kill: Kill, fell: bool) {
        match (kill, fell) {
            (Kill::After(_), true) => self.span = self.span * 105 / 100,
            (Kill::After(_), false) => self.span = self.span * 80 / 100,
            (Kill::AtChange(_), true) => self.changes += 1,
            (Kill::AtChange(_), false) => self.changes = (self.changes - self.changes / 10).max(2),
        }
    }
}
