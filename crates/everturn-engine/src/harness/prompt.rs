//! What a conversation's model is told beside the messages, before each request.

use std::{panic::AssertUnwindSafe, sync::Arc};

use everturn_core::{
    Result,
    budget::OUTPUT_ASSUMED,
    entry::Entry,
    id::{ConversationId, TaskId},
    model::{Abilities, Model, ModelRef},
    prompt::{Epoch, EpochReason, Prompt, Section, Speaks},
};
use futures_util::FutureExt;

use super::{Shared, agent::Agent, within::within};
use crate::{
    Transaction,
    extension::{AnySection, SectionContext},
    registry::Selected,
    task::panic_text,
};

/// The key of the section that an agent's own instructions are.
const INSTRUCTIONS: &str = "instructions";

/// Who is asked next in a conversation, resolved once.
#[derive(Clone)]
pub(super) struct Resolved {
    pub(super) agent: Agent,
    pub(super) model: ModelRef,
    pub(super) abilities: Abilities,
    pub(super) selected: Selected,
}

impl Resolved {
    /// Who is asked, by an agent.
    ///
    /// Errors: `NotFound` when nobody answers for the model.
    pub(super) fn of(shared: &Shared, agent: Agent, model: ModelRef) -> Result<Self> {
        let client: Arc<dyn Model> = shared.models.resolve(&model)?;
        let abilities = client.abilities(&model.model);
        let selected = shared.select(&agent);
        Ok(Self { agent, model, abilities, selected })
    }

    /// How many tokens a request may have so that there is room for an answer; none where nobody knows.
    pub(super) fn room(&self) -> Option<u64> {
        let window = self.abilities.window?;
        // An answer seldom needs all that a model may write: a quarter of the window is kept free at most.
        let answer = self.abilities.output_max.unwrap_or(OUTPUT_ASSUMED).min(window / 4);
        Some(window - answer)
    }

    /// The models that can go on with what this one is sent.
    pub(super) fn family(&self) -> String {
        let family = self.abilities.family.as_ref().unwrap_or(&self.model.model);
        format!("{}/{family}", self.model.provider)
    }
}

/// Where a model is told, and who writes it down.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) conversation: ConversationId,
    pub(super) turn: TaskId,
}

/// Stages the entry that brings the model up to what it should know, if there is anything to tell.
pub(super) async fn tell(tx: &mut Transaction, place: Place, resolved: &Resolved) -> Result<()> {
    let wanted = render(tx, place.conversation, resolved).await?;
    let standing = tx.standing(place.conversation).await?;
    let family = resolved.family();
    let speaks = Speaks { family: &family, takes_changes: resolved.abilities.takes_changes };
    let entry: Option<Entry> = standing.tell(&wanted, speaks).into_entry()?;
    if let Some(entry) = entry {
        tx.append_for(Some(place.turn), place.conversation, entry)?;
    }
    Ok(())
}

/// Stages an epoch that says what was told before: what was signed is dropped with it.
pub(super) async fn rebind(tx: &mut Transaction, place: Place) -> Result<()> {
    let standing = tx.standing(place.conversation).await?;
    let family = standing.family.unwrap_or_default();
    let epoch = Epoch { reason: EpochReason::Binding, family, prompt: standing.prompt };
    if let Some(entry) = everturn_core::prompt::Told::Epoch(epoch).into_entry()? {
        tx.append_for(Some(place.turn), place.conversation, entry)?;
    }
    Ok(())
}

/// All that the model should know.
async fn render(tx: &Transaction, conversation: ConversationId, resolved: &Resolved) -> Result<Prompt> {
    let Resolved { agent, selected, .. } = resolved;
    let is_sub_agent = tx.conversation(conversation).await?.owner.is_some();
    let cx = SectionContext { tx, conversation, agent, selected, is_sub_agent };
    let mut sections = Vec::new();
    for section in selected.sections() {
        if let Some(text) = say(&cx, section).await {
            sections.push(match section.is_tagged() {
                true => Section::tagged(section.key(), text),
                false => Section { key: section.key().into(), text },
            });
        }
    }
    let instructions = agent.instructions.as_ref().map(|text| Section::tagged(INSTRUCTIONS, text));
    sections.extend(instructions);
    Ok(Prompt { sections, tools: selected.specs() })
}

/// What a section says, with all that stands around it. One that breaks says nothing: the turn goes on without it.
async fn say(cx: &SectionContext<'_>, section: &AnySection) -> Option<String> {
    let said = async {
        let mut text = section.render(cx).await;
        for wrap in cx.selected.wraps(section.key()) {
            text = wrap.wrap(cx, text).await;
        }
        text
    };
    let clock = &*cx.tx.session().0.opener.world.clock;
    let why = match within(clock, AssertUnwindSafe(said).catch_unwind()).await {
        Some(Ok(text)) => return text,
        Some(Err(panic)) => panic_text(&*panic).to_owned(),
        None => "it took too long".into(),
    };
    tracing::error!(section = section.key(), why, "a section of the prompt broke and is left out");
    None
}
