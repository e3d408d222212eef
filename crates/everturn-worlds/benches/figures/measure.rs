//! Clocks and statistics.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Wall time since it was started.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "a bench measures the machine's own time, which no port stands for"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Microseconds.
    pub(crate) fn us(&self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1e6
    }
}

/// CPU time that the process has used so far, of all its threads, in user and kernel mode.
pub(crate) fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(now.tv_sec).expect("CPU time is not negative");
    let nanos = u32::try_from(now.tv_nsec).expect("less than a second");
    Duration::new(seconds, nanos)
}

/// CPU microseconds that the process uses for `work`.
pub(crate) fn cpu_us_of<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = cpu();
    let value = work();
    ((cpu() - before).as_secs_f64() * 1e6, value)
}

/// The middle of the samples, of which there must be some.
pub(crate) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The sample below which a share of them lies.
pub(crate) fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short list")]
    let at = ((sorted.len() - 1) as f64 * share).round() as usize;
    sorted[at]
}

/// `a[i] / b[i]`, of which the median is what is reported: each pair was measured at the same time.
pub(crate) fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}
