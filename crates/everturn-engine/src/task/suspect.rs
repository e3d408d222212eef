//! Tasks that are suspected to end their process run one at a time, so that what happens is told of the right one.

use std::{sync::Arc, time::Duration};

use everturn_core::{BoxFuture, CancelToken, Error, Result, id::TaskId, task::TaskRecord};
use tokio::sync::OwnedSemaphorePermit;

use super::{Runner, table::is_suspect};

/// How long a suspect is watched. What ends its process later than that cannot be told of one step.
const WATCHED: Duration = Duration::from_secs(10);

/// A task about to run, alone among all suspects of the process where it is one.
pub(super) struct Suspected(Option<(Arc<Runner>, TaskId, OwnedSemaphorePermit)>);

impl Runner {
    /// Waits until a task, if it is a suspect, is the only one that runs.
    ///
    /// Errors: `Closed` when it is told to stop first.
    pub(super) async fn suspect(
        self: &Arc<Self>,
        task: &TaskRecord,
        token: &CancelToken,
    ) -> Result<Suspected> {
        if !is_suspect(task) {
            return Ok(Suspected(None));
        }
        tokio::select! {
            place = self.host.suspects() => Ok(Suspected(Some((self.clone(), task.id, place)))),
            () = token.cancelled() => Err(Error::unavailable("run a task: it was told to stop before it began")),
        }
    }
}

impl Suspected {
    /// Runs code, and lets other suspects run once it has shown that it does not end the process.
    pub(super) async fn watch<T>(self, code: impl Future<Output = T> + Send) -> T {
        let Some((runner, id, place)) = self.0 else { return code.await };
        let cleared: BoxFuture<'_, ()> = Box::pin(async {
            runner.session.0.opener.world.clock.sleep(WATCHED).await;
            drop(place);
            runner.clear(id);
            std::future::pending::<()>().await;
        });
        tokio::select! {
            done = code => done,
            () = cleared => unreachable!("it waits for ever"),
        }
    }
}
