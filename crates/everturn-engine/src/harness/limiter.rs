//! How many requests are out at an endpoint at once, and until when it asked to be left alone: shared by all sessions of a
//! process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everturn_core::{
    clock::Timestamp,
    model::{Fault, FaultClass, ModelRef},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The endpoints that were asked.
#[derive(Default)]
pub(super) struct Limiter(Mutex<HashMap<Endpoint, Place>>);

/// A provider and its endpoint, which go with one key.
type Endpoint = (String, Option<String>);

struct Place {
    places: Arc<Semaphore>,
    /// Until when the server asked to be left alone.
    closed_until: Timestamp,
}

/// The right to have a request out.
pub(super) struct Pass(#[expect(dead_code, reason = "held for its end")] OwnedSemaphorePermit);

impl Limiter {
    fn places(&self) -> MutexGuard<'_, HashMap<Endpoint, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when nothing should be sent to a model's endpoint; none where it may be at once.
    pub(super) fn closed_until(&self, model: &ModelRef, now: Timestamp) -> Option<Timestamp> {
        let places = self.places();
        let until = places.get(&endpoint(model))?.closed_until;
        (until > now).then_some(until)
    }

    /// Waits for a place at a model's endpoint, of so many.
    pub(super) async fn enter(&self, model: &ModelRef, places_max: usize) -> Pass {
        let places = self.places_at(model, places_max);
        Pass(places.acquire_owned().await.expect("it is never closed"))
    }

    /// A place at a model's endpoint, of so many, where one is free.
    pub(super) fn try_enter(&self, model: &ModelRef, places_max: usize) -> Option<Pass> {
        self.places_at(model, places_max).try_acquire_owned().ok().map(Pass)
    }

    fn places_at(&self, model: &ModelRef, places_max: usize) -> Arc<Semaphore> {
        let mut places = self.places();
        let place = places.entry(endpoint(model)).or_insert_with(|| Place {
            places: Arc::new(Semaphore::new(places_max.min(Semaphore::MAX_PERMITS))),
            closed_until: Timestamp::default(),
        });
        place.places.clone()
    }

    /// Takes what a server said of waiting: it holds for everyone who asks it.
    pub(super) fn heard(&self, model: &ModelRef, fault: &Fault, now: Timestamp) {
        let Some(wait) = fault.wait() else { return };
        if matches!(fault.class, FaultClass::RateLimited | FaultClass::Overloaded)
            && let Some(place) = self.places().get_mut(&endpoint(model))
        {
            place.closed_until = place.closed_until.max(now + wait);
        }
    }
}

fn endpoint(model: &ModelRef) -> Endpoint {
    (model.provider.clone(), model.endpoint.clone())
}
