//! What the host's work goes by, beside code: when it changes, what waits because of it is woken.

use std::sync::{Arc, Weak};

use everturn_core::Result;

use super::{Runner, run::RETRY};

/// Wakes what waits because of what the host goes by: the first time that a session runs here, and whenever that has changed.
/// Until the session is over.
pub(super) async fn follow(weak: Weak<Runner>) {
    let Some(runner) = weak.upgrade() else { return };
    let (closing, mut changes) = (runner.closing.clone(), runner.host.rule_changes());
    drop(runner);
    loop {
        let now = *changes.borrow_and_update();
        let Some(runner) = weak.upgrade().filter(|runner| runner.session.0.check_open().is_ok()) else {
            return;
        };
        if let Err(error) = look(&runner).await {
            tracing::warn!(session = %runner.session.id(), %error, "what waits is not woken yet; trying again");
            runner.pause(RETRY).await;
        } else {
            runner.goes_by(now);
            drop(runner);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = closing.cancelled() => return,
            }
        }
        if closing.is_cancelled() {
            return;
        }
    }
}

async fn look(runner: &Arc<Runner>) -> Result<()> {
    let is_new = runner.went_by().is_none();
    if is_new && !runner.host.postman.has_waiting(&runner.session) {
        // Nothing that ran here has gone by anything else.
        return Ok(());
    }
    // What goes by what was before is stored by now, or goes by what is.
    let mut tx = runner.session.begin_last().await?;
    runner.host.postman.wake(&mut tx).await?;
    tx.commit_until(runner.closing.clone()).await.map(drop)
}
