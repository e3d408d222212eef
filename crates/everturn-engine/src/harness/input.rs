//! What is handed to a conversation.

use everturn_core::message::Part;

/// An input of a person, or of the application for them.
///
/// ```
/// use everturn_engine::{Input, WhenBusy};
///
/// let input = Input::text("hello").request("r-1").when_busy(WhenBusy::Reject);
/// assert_eq!(input.request.as_deref(), Some("r-1"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// What is said.
    pub parts: Vec<Part>,
    /// The sender's own id, unique in the conversation: sending again with it returns the first submission.
    pub request: Option<String>,
    /// What happens while a turn runs.
    pub when_busy: WhenBusy,
}

/// What happens to an input that comes while a turn runs.
///
/// ```
/// use everturn_engine::WhenBusy;
/// assert_eq!(WhenBusy::default(), WhenBusy::FollowUp);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// It waits until the turn has ended.
    #[default]
    FollowUp,
    /// It is refused with `Conflict`, and nothing is stored.
    Reject,
}

impl Input {
    /// An input of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())], request: None, when_busy: WhenBusy::default() }
    }

    /// The same input with the sender's own id.
    #[must_use]
    pub fn request(mut self, id: impl Into<String>) -> Self {
        self.request = Some(id.into());
        self
    }

    /// The same input with a word about busy conversations.
    #[must_use]
    pub fn when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.when_busy = when_busy;
        self
    }
}
