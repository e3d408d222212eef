//! STUB
use crate::{
    error::Result,
    id::{ConversationId, TaskId},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
/// d
pub trait Document: Serialize + DeserializeOwned + Default + Send + Sync + 'static {
    /// d
    const KIND: &'static str;
    /// d
    const VERSION: u32;
    /// d
    const HISTORY: History;
    /// d
    const FORK: ForkPolicy;
    /// d
    type Scope: Scope;
    /// d
    fn migrate(value: Value, from: u32) -> Result<Value>;
}
/// d
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum History {
    /// d
    Latest,
    /// d
    Rewindable,
}
/// d
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForkPolicy {
    /// d
    Initial,
    /// d
    Current,
    /// d
    AsOf,
}
/// d
pub trait Scope: Copy + Send + Sync + 'static {
    /// d
    fn key(self) -> ScopeKey;
}
/// d
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ScopeKey {
    /// d
    Session,
    /// d
    Conversation(ConversationId),
    /// d
    Task(TaskId),
}
