//! Names of the conventions for generative AI, and ours.
//!
//! OpenTelemetry, "semantic-conventions-genai" 0.1.0 (all of it in development), read 2026-11-30.

pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const MODEL: &str = "gen_ai.request.model";
pub(crate) const MODALITY: &str = "gen_ai.token.modality";
pub(crate) const SERVER: &str = "server.address";
pub(crate) const PORT: &str = "server.port";
pub(crate) const SERVICE: &str = "service.name";

pub(crate) const INFERENCE_DURATION: &str = "gen_ai.client.inference.duration";
pub(crate) const FIRST_CHUNK: &str = "gen_ai.client.inference.time_to_first_chunk";
pub(crate) const INPUT: &str = "gen_ai.client.inference.usage.input_tokens";
pub(crate) const OUTPUT: &str = "gen_ai.client.inference.usage.output_tokens";
pub(crate) const CACHE_READ: &str = "gen_ai.client.inference.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE: &str = "gen_ai.client.inference.usage.cache_write.input_tokens";
pub(crate) const REASONING: &str = "gen_ai.client.inference.usage.reasoning.output_tokens";
pub(crate) const AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";

/// How a turn or a request ended.
pub(crate) const END: &str = "everturn.end";
/// How a call ended.
pub(crate) const OUTCOME: &str = "everturn.outcome";
