//! `ask`: a question to the person, which waits as long as it takes.

use everturn_core::tool::ToolError;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{Does, SessionCall, SessionTool};

/// What is asked.
#[derive(Deserialize, JsonSchema)]
pub(super) struct AskArguments {
    /// The question.
    question: String,
    /// Answers to choose from; the person may give another.
    #[serde(default)]
    choices: Vec<String>,
}

pub(super) struct AskTool;

impl SessionTool for AskTool {
    const NAME: &'static str = "ask";
    type Arguments = AskArguments;

    fn description(&self) -> &str {
        "Asks the person something that only they can say, and waits for the answer."
    }

    async fn run(&self, _: &SessionCall, arguments: AskArguments) -> Result<Does, ToolError> {
        match arguments.question.trim() {
            "" => Err(ToolError::new("ask: the question is empty")),
            text => Ok(Does::Ask { text: text.into(), choices: arguments.choices }),
        }
    }
}
