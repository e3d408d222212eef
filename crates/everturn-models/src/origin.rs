//! Whether opaque items may go back.

use everturn_core::message::Assistant;

/// Whether a message was made by this model, so that it is sent its opaque items again.
pub(crate) fn is_own(assistant: &Assistant, provider: &str, model: &str) -> bool {
    let is_it =
        |origin: &everturn_core::message::Origin| origin.provider == provider && origin.model == model;
    assistant.origin.as_ref().is_some_and(is_it)
}
