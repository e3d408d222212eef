//! A model that keeps what passes through it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::{
    message::Usage,
    model::{Delta, DeltaStream, Model, Request},
};
use futures_util::StreamExt;

/// Another model, with a record of what it was asked and of what it said that it cost.
///
/// Promise: it changes nothing of what passes.
///
/// ```
/// use everturn_core::{message::{Message, Usage}, model::{Model, Request}};
/// use everturn_testkit::{block_on, recorded::Recorded, scripted::{Reply, Scripted}};
/// use futures_util::StreamExt;
///
/// let model = Recorded::new(Scripted::new([Reply::text("one").usage(3, 1)]));
/// let stream = model.stream(Request::new("scripted", [Message::user("count")]));
/// assert_eq!(block_on(stream.count()), 3, "text, usage, end");
/// assert_eq!(model.requests()[0].texts(), ["count"]);
/// assert_eq!(model.usage(), [Some(Usage { input: Some(3), output: Some(1), ..Usage::default() })]);
/// ```
#[derive(Clone)]
pub struct Recorded {
    model: Arc<dyn Model>,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    requests: Vec<Request>,
    usage: Vec<Option<Usage>>,
}

impl Recorded {
    /// The same model, with a record.
    pub fn new(model: impl Model) -> Self {
        Self { model: Arc::new(model), record: Arc::default() }
    }

    /// What it was sent, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.record).requests.clone()
    }

    /// What it last said that each request cost, in the order of the requests; none where it did not say.
    pub fn usage(&self) -> Vec<Option<Usage>> {
        lock(&self.record).usage.clone()
    }
}

impl Model for Recorded {
    fn stream(&self, request: Request) -> DeltaStream {
        let mut record = lock(&self.record);
        let at = record.requests.len();
        record.requests.push(request.clone());
        record.usage.push(None);
        drop(record);
        let record = self.record.clone();
        Box::pin(self.model.stream(request).inspect(move |delta| {
            if let Ok(Delta::Usage(usage)) = delta {
                lock(&record).usage[at] = Some(*usage);
            }
        }))
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}
