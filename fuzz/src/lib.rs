//! What the targets share: inputs that were changed and still are JSON.

pub mod json;

/// Randomness from libFuzzer's seed, so that one seed gives one run.
pub struct Random(u64);

impl Random {
    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// Changes an input in its place by `change`, or as libFuzzer does where that gives nothing; gives its new size.
///
/// Bytes that are changed at random are seldom JSON, and then no target sees more than the parser.
pub fn mutate(
    bytes: &mut [u8],
    size: usize,
    max: usize,
    seed: u32,
    change: impl Fn(&str, &mut Random) -> Option<String>,
) -> usize {
    let mut random = Random(seed.into());
    // The parser has its share too.
    let changed = match random.below(8) {
        0 => None,
        _ => str::from_utf8(&bytes[..size]).ok().and_then(|text| change(text, &mut random)),
    };
    match changed {
        Some(text) if text.len() <= max => {
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            text.len()
        }
        _ => libfuzzer_sys::fuzzer_mutate(bytes, size, max),
    }
}
