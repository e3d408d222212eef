//! The gates that an answer has to pass before it ends its turn.

use std::panic::AssertUnwindSafe;

use everturn_core::{Error, Result};
use futures_util::FutureExt;

use super::state::{Judged, Phase, TurnInput, TurnState};
use crate::{
    extension::{Gated, TurnAnswer},
    harness::{Shared, agent::Agent},
    task::{TaskContext, panic_text},
};

/// Asks the gates about an answer that they have not seen; none where there is nothing to ask, or the turn was told to stop
/// meanwhile.
pub(super) async fn ask(
    shared: &Shared,
    cx: &TaskContext,
    input: &TurnInput,
    state: &TurnState,
) -> Result<Option<Judged>> {
    let Phase::Responded { reply, judged: Judged::Open, .. } = &state.phase else { return Ok(None) };
    let (session, conversation) = (cx.session(), cx.conversation());
    let mut agent = session.snapshot::<Agent>(conversation).await?.unwrap_or_default();
    input.options.agent.clone().apply(&mut agent);
    let text = session.entry(conversation, *reply).await?.text();
    let answer = TurnAnswer { conversation, turn: cx.id(), refusals: state.counts.refusals, text };
    for gate in shared.select(&agent).gates() {
        let said = tokio::select! {
            biased;
            () = cx.cancel().cancelled() => return match cx.abort_reason() {
                Some(_) => Ok(None),
                None => Err(Error::closed("the session closed while the gates looked at an answer")),
            },
            said = AssertUnwindSafe(gate.check(&answer)).catch_unwind() => said,
        };
        match said {
            Ok(Gated::Pass) => {}
            Ok(Gated::Refuse(message)) => return Ok(Some(Judged::Refused(message))),
            // A gate that breaks stops nobody.
            Err(panic) => {
                let why = panic_text(&*panic);
                tracing::error!(turn = %cx.id(), why, "a gate broke and lets the answer pass");
            }
        }
    }
    Ok(Some(Judged::Passed))
}
