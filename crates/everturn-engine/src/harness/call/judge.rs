//! Judging a call: by the tool's acts, the policies of its conversation and of all that own it, and the session's rules.

use std::{panic::AssertUnwindSafe, sync::Arc};

use everturn_core::{
    Error, ErrorKind, Result,
    approval::Question,
    clock::Clock,
    document::Document,
    env::{Access, Env, ResolvePath},
    id::ConversationId,
    json::RawJson,
    message::{CallId, Outcome},
    policy::{Act, Effect, Judged, Layer, Policy, Rule, Verdict},
    tool::{AnyTool, CallContext, Output, ToolError},
};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use super::{Ended, Intent};
use crate::{
    Transaction,
    harness::{Shared, agent::Agent, within::within},
    registry::Selected,
    task::panic_text,
};

/// What a person has allowed for as long as the session lives.
#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "et.rules", version = 1, scope = "session", crate = "everturn_core")]
pub(in crate::harness) struct SessionRules {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::harness) rules: Vec<SessionRule>,
}

/// A rule of the session: it holds for calls in the directory in which it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::harness) struct SessionRule {
    pub(in crate::harness) rule: Rule,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::harness) directory: Option<String>,
}

/// Where calls of a conversation are judged.
pub(in crate::harness) struct Bench<'a> {
    conversation: ConversationId,
    agent: &'a Agent,
    selected: &'a Selected,
    /// The policies that a call has to pass: the conversation's own, then those of its owners.
    policies: Vec<Option<Arc<Policy>>>,
    session: Vec<Rule>,
    env: Result<Env>,
    clock: Arc<dyn Clock>,
}

/// What is to become of a call.
pub(super) enum Judgement {
    /// It may run.
    Run(Intent),
    /// A person is asked whether it may.
    Ask(Intent, Question),
    /// It does not run.
    End(Intent, Ended),
}

impl<'a> Bench<'a> {
    /// A bench for calls of a conversation, as things stand in a transaction.
    pub(in crate::harness) async fn of(
        shared: &Shared,
        tx: &Transaction,
        conversation: ConversationId,
        (agent, selected): (&'a Agent, &'a Selected),
    ) -> Result<Self> {
        let mut policies = vec![shared.policy(agent.policy.as_deref())];
        let mut place = tx.conversation(conversation).await?;
        while let Some(owner) = place.owner.and_then(|owner| tx.task(owner)) {
            place = tx.conversation(owner.conversation).await?;
            let above = tx.agent_above(&owner).await?;
            policies.push(shared.policy(above.policy.as_deref()));
        }
        let rules = tx.snapshot::<SessionRules>(()).await?.unwrap_or_default().rules.into_iter();
        let session = rules.filter(|one| one.directory == agent.directory).map(|one| one.rule).collect();
        let (env, clock) = ((shared.env)(agent), shared.opener.world.clock.clone());
        Ok(Self { conversation, agent, selected, policies, session, env, clock })
    }

    /// The same bench for a call that somebody has decided about: that nobody can be asked now does not take it back.
    pub(super) fn decided(mut self) -> Self {
        for policy in self.policies.iter_mut().flatten() {
            *policy = Arc::new(Policy::clone(policy).attended());
        }
        self
    }

    /// Resolves, validates and judges a call.
    pub(super) async fn judge(&self, mut intent: Intent) -> Judgement {
        let Some(tool) = self.selected.tool(&intent.name) else {
            let ended = Ended::unavailable(&intent.name);
            return Judgement::End(intent, ended);
        };
        let contract = tool.contract();
        (intent.replay, intent.on_unknown) = (contract.replay, contract.on_unknown);
        let acts = match acts_of(tool, &intent.arguments) {
            Ok(acts) => acts,
            Err(error) => {
                let (text, outcome) = error.into_parts();
                return Judgement::End(intent, Ended::new(outcome, text));
            }
        };
        let (verdict, acts) = self.verdict(&intent.name, acts).await;
        intent.verdict = Some(verdict.clone());
        intent.acts.clone_from(&acts);
        match verdict.effect {
            Effect::Allow => Judgement::Run(intent),
            Effect::Ask => {
                let question = self.question(tool, &intent, (verdict, acts)).await;
                Judgement::Ask(intent, question)
            }
            _ => {
                let ended = denied(&verdict);
                Judgement::End(intent, ended)
            }
        }
    }

    /// What policy says of acts, and the acts as they were judged: with paths resolved.
    async fn verdict(&self, tool: &str, acts: Vec<Act>) -> (Verdict, Vec<Act>) {
        let mut resolved = Vec::with_capacity(acts.len());
        for act in acts {
            match self.resolve(act).await {
                Ok(act) => resolved.push(act),
                Err(verdict) => return (verdict, resolved),
            }
        }
        let installed = [tool];
        let judged = Judged { tool, acts: &resolved, session: &self.session, installed: &installed };
        let of_nobody = Policy::new();
        let verdicts = self.policies.iter().map(|policy| match policy {
            Some(policy) => policy.verdict(&judged),
            None => of_nobody.verdict(&Judged { session: &[], installed: &[], ..judged }),
        });
        let verdict = verdicts.reduce(Verdict::and).expect("there is the conversation's own policy");
        (verdict, resolved)
    }

    /// An act with its path as policy judges it. What leads nowhere that could be judged is denied.
    async fn resolve(&self, act: Act) -> Result<Act, Verdict> {
        let (path, access) = match &act {
            Act::Read(path) => (path.clone(), Access::Read),
            Act::Write(path) => (path.clone(), Access::Write),
            _ => return Ok(act),
        };
        let Ok(env) = &self.env else { return Ok(act) };
        let resolved = within(&*self.clock, env.resolve(ResolvePath { path, access })).await;
        let late = || Err(Error::invalid("it cannot be resolved in time"));
        match resolved.unwrap_or_else(late) {
            Ok(resolved) if access == Access::Read => Ok(Act::Read(resolved.path)),
            Ok(resolved) => Ok(Act::Write(resolved.path)),
            Err(error) if matches!(error.kind(), ErrorKind::Invalid) => {
                let rule = format!("no rule can allow {act}: {error}");
                Err(Verdict { effect: Effect::Deny, layer: Layer::Code, rule })
            }
            // Where nothing can be reached, the tool says so.
            Err(_) => Ok(act),
        }
    }

    async fn question(
        &self,
        tool: &AnyTool,
        intent: &Intent,
        (verdict, acts): (Verdict, Vec<Act>),
    ) -> Question {
        let preview = match &self.env {
            Ok(env) => self.preview(tool, &intent.arguments, env.clone()).await,
            Err(_) => None,
        };
        Question::Call {
            tool: intent.name.clone(),
            arguments: intent.arguments.clone(),
            directory: self.agent.directory.clone(),
            acts,
            verdict,
            policy: self.policies[0].as_ref().map(|policy| policy.hash()).unwrap_or_default(),
            preview,
        }
    }

    /// What would happen, as the tool shows it: it is no call yet, and may change nothing.
    async fn preview(&self, tool: &AnyTool, arguments: &RawJson, env: Env) -> Option<RawJson> {
        let cx = CallContext {
            call: CallId(String::new()),
            conversation: self.conversation,
            key: String::new(),
            cancel: everturn_core::CancelToken::new(),
            env,
            output: Output::default(),
        };
        let preview = AssertUnwindSafe(tool.preview(&cx, arguments)).catch_unwind();
        let why = match within(&*self.clock, preview).await {
            Some(Ok(preview)) => return preview,
            Some(Err(panic)) => panic_text(&*panic).to_owned(),
            None => "it took too long".into(),
        };
        tracing::error!(tool = tool.spec().name, why, "a preview broke and is left out");
        None
    }
}

/// What a call does, as its tool declares it. A tool that breaks does nothing.
///
/// Errors: `invalid_arguments` when they do not fit.
pub(in crate::harness) fn acts_of(tool: &AnyTool, arguments: &RawJson) -> Result<Vec<Act>, ToolError> {
    let acts = std::panic::catch_unwind(AssertUnwindSafe(|| tool.acts(arguments)));
    acts.unwrap_or_else(|panic| {
        let name = &tool.spec().name;
        Err(ToolError::new(format!("The tool {name} broke: {}", panic_text(&*panic))))
    })
}

/// The end of a call that policy refuses.
pub(super) fn denied(verdict: &Verdict) -> Ended {
    let text = format!("Refused by policy: {}.", verdict.rule);
    Ended::new(Outcome::Denied { rule: verdict.rule.clone() }, text)
}
