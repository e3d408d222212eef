//! Reports what was counted, now and then, from a thread of its own.

use std::{
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    time::Duration,
};

use everturn_core::clock::{Clock, Timestamp};
use everturn_engine::{Metrics, SystemClock};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;

use crate::{
    report::{self, Interval},
    spans::Counts,
    wire::{Signal, Wire},
};

/// What a reporter is told.
pub(crate) enum Note {
    /// Where to read what was counted.
    Read(Box<dyn Fn() -> Metrics + Send>),
    /// One more report, and then no more; an answer says that it is over.
    Last(SyncSender<()>),
}

/// What a thread reports.
pub(crate) struct Reporter {
    pub(crate) wire: Arc<Wire>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) resource: Vec<(String, String)>,
    pub(crate) every: Duration,
    pub(crate) since: Timestamp,
    pub(crate) notes: Receiver<Note>,
}

impl Reporter {
    /// Reports until it is told that it is over, or nobody is left to tell.
    pub(crate) fn run(self) {
        let mut read: Option<Box<dyn Fn() -> Metrics + Send>> = None;
        loop {
            match self.notes.recv_timeout(self.every) {
                Ok(Note::Read(reader)) => read = Some(reader),
                Err(RecvTimeoutError::Timeout) => {
                    read.iter().for_each(|read| _ = self.report(&read()));
                }
                Ok(Note::Last(told)) => {
                    let arrived = read.is_none_or(|read| self.report(&read()));
                    self.counts.is_reported.store(arrived, Relaxed);
                    // Who has waited long enough listens no more.
                    told.send(()).ok();
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reports once; says whether it arrived whole.
    fn report(&self, metrics: &Metrics) -> bool {
        let interval = Interval { since: nanos(self.since), now: nanos(SystemClock.now()) };
        let request = report::request(&self.resource, metrics, interval);
        let Ok(answer) = self.wire.post(Signal::Metrics, &request.encode_to_vec()) else { return false };
        // An answer that cannot be read is still one of success.
        let answer = ExportMetricsServiceResponse::decode(&*answer).unwrap_or_default();
        answer.partial_success.is_none_or(|partial| partial.rejected_data_points == 0)
    }
}

fn nanos(time: Timestamp) -> u64 {
    u64::try_from(time.0).unwrap_or(0).saturating_mul(1_000_000)
}
