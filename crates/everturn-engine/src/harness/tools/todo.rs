//! `todo`: a list of what is to be done, as a document of the conversation.

use everturn_core::{
    document::Document,
    tool::{ToolError, ToolOutput},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::{Does, SessionCall, SessionTool, Writes};

/// What is to be done in a conversation, as the tool `todo` keeps it. A fork starts with it as of the fork's entry.
///
/// ```
/// use everturn_engine::{Todo, TodoItem, TodoStatus};
/// let todo = Todo { items: vec![TodoItem { text: "read".into(), status: TodoStatus::Done }] };
/// assert_eq!(todo.to_string(), "[x] read");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Document, Serialize, Deserialize)]
#[document(
    kind = "et.todo",
    version = 1,
    scope = "conversation",
    history = "rewindable",
    fork = "as_of",
    crate = "everturn_core"
)]
pub struct Todo {
    /// The items, in order.
    #[serde(default)]
    pub items: Vec<TodoItem>,
}

/// Something that is to be done.
///
/// ```
/// use everturn_engine::{TodoItem, TodoStatus};
/// assert_eq!(TodoItem { text: "read".into(), status: TodoStatus::Open }.text, "read");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoItem {
    /// What it is.
    pub text: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far something is.
///
/// ```
/// use everturn_engine::TodoStatus;
/// assert_eq!(serde_json::to_string(&TodoStatus::Doing).unwrap(), r#""doing""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Nobody has begun it.
    Open,
    /// It is being done.
    Doing,
    /// It is done.
    Done,
}

impl std::fmt::Display for Todo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, item) in self.items.iter().enumerate() {
            let mark = match item.status {
                TodoStatus::Open => ' ',
                TodoStatus::Doing => '~',
                TodoStatus::Done => 'x',
            };
            write!(f, "{}[{mark}] {}", if at > 0 { "\n" } else { "" }, item.text)?;
        }
        Ok(())
    }
}

/// What the list is from now on.
#[derive(Deserialize, JsonSchema)]
pub(super) struct TodoArguments {
    /// The whole list, in order; it replaces the one before.
    items: Vec<TodoItem>,
}

pub(super) struct TodoTool;

impl SessionTool for TodoTool {
    const NAME: &'static str = "todo";
    type Arguments = TodoArguments;

    fn description(&self) -> &str {
        "Keeps the list of what is to be done. Send the whole list each time; the person sees it. Use it for work of several \
         steps, and keep it up to date."
    }

    async fn run(&self, cx: &SessionCall, arguments: TodoArguments) -> Result<Does, ToolError> {
        let todo = Todo { items: arguments.items };
        let output =
            ToolOutput::from(if todo.items.is_empty() { "(empty)".into() } else { todo.to_string() });
        let conversation = cx.conversation;
        let writes = Writes::new(move |mut tx| async move {
            *tx.doc::<Todo>(conversation).await? = todo;
            Ok(tx)
        });
        Ok(Does::Stored(output, writes))
    }
}
