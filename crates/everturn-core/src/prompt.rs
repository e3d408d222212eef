//! What a model is told beside the messages: sections of the system prompt, and the tools on offer.
//!
//! It is no value of its own: the transcript has it. An **epoch** says all of it; later entries say only what changed,
//! behind what was sent before, so that each request begins with the bytes of the one before it. Where that cannot be
//! (the model, its tools or the transcript itself changed), a new epoch says so, and why.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    entry::{Entry, EntryKind, EntryRecord, kind},
    error::Result,
    id::EntryId,
    message::Message,
    tool::ToolSpec,
};

/// A section of a system prompt, as it was rendered.
///
/// ```
/// use everturn_core::prompt::Section;
/// assert_eq!(Section::tagged("rules", "Be brief.").text, "<rules>\nBe brief.\n</rules>");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Its name among the sections of the prompt.
    pub key: String,
    /// What the model reads.
    pub text: String,
}

impl Section {
    /// A section in tags of its name.
    pub fn tagged(key: impl Into<String>, text: impl AsRef<str>) -> Self {
        let key = key.into();
        let text = format!("<{key}>\n{}\n</{key}>", text.as_ref());
        Self { key, text }
    }
}

/// All that a model is told beside the messages, in order.
///
/// ```
/// use everturn_core::prompt::{Prompt, Section};
/// let prompt = Prompt { sections: vec![Section::tagged("rules", "Be brief.")], ..Prompt::default() };
/// assert!(prompt.text().starts_with("<rules>"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// The sections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<Section>,
    /// The tools on offer.
    #[serde(default = "no_tools", skip_serializing_if = "<[_]>::is_empty")]
    pub tools: Arc<[ToolSpec]>,
}

fn no_tools() -> Arc<[ToolSpec]> {
    Arc::default()
}

impl Prompt {
    /// The sections, one after the other.
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.sections.iter().map(|section| section.text.as_str()).collect();
        texts.join("\n\n")
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.tools.is_empty()
    }

    fn section(&self, key: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.key == key)
    }

    /// What leads from these sections to others, if they differ. Where the order would be another, what stands behind the
    /// first difference is removed and set again.
    fn change_to(&self, wanted: &[Section]) -> Option<PromptChange> {
        let is_wanted = |section: &&Section| wanted.iter().any(|other| other.key == section.key);
        let kept: Vec<&Section> = self.sections.iter().filter(is_wanted).collect();
        let in_order = kept.iter().zip(wanted).take_while(|(old, new)| old.key == new.key).count();
        let is_moved = |key: &str| kept[in_order..].iter().any(|section| section.key == key);
        let removed = self.sections.iter().filter(|section| !is_wanted(section) || is_moved(&section.key));
        let is_set = |section: &&Section| {
            is_moved(&section.key) || self.section(&section.key).is_none_or(|old| old.text != section.text)
        };
        let change = PromptChange {
            removed: removed.map(|section| section.key.clone()).collect(),
            set: wanted.iter().filter(is_set).cloned().collect(),
        };
        (change != PromptChange::default()).then_some(change)
    }

    fn take(&mut self, change: PromptChange) {
        self.sections.retain(|section| !change.removed.contains(&section.key));
        for set in change.set {
            match self.sections.iter_mut().find(|section| section.key == set.key) {
                Some(section) => *section = set,
                None => self.sections.push(set),
            }
        }
    }
}

/// What changed of a system prompt: the data of an `et.system` entry.
///
/// ```
/// use everturn_core::prompt::{PromptChange, Section};
/// let change = PromptChange { removed: vec!["plan".into()], set: vec![Section::tagged("rules", "Be brief.")] };
/// assert_eq!(serde_json::to_value(&change).unwrap()["removed"][0], "plan");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptChange {
    /// Sections that no longer apply. One that is set as well moves to the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Sections that are new, or say something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Section>,
}

impl EntryKind for PromptChange {
    const KIND: &'static str = kind::SYSTEM;
}

impl PromptChange {
    /// What a model is told of it, which was told `before`.
    fn text(&self, before: &Prompt) -> String {
        let is_gone = |key: &&String| !self.set.iter().any(|section| section.key == **key);
        let gone = self.removed.iter().filter(is_gone);
        let gone = gone.map(|key| format!("The section {key} no longer applies."));
        let set = self.set.iter().map(|section| match before.section(&section.key) {
            Some(_) => format!("The section {} now says:\n{}", section.key, section.text),
            None => section.text.clone(),
        });
        gone.chain(set).collect::<Vec<_>>().join("\n\n")
    }
}

/// A new beginning of what is sent: the data of an `et.epoch` entry. Opaque items before it are dropped, for they may be
/// bound to what was sent before them.
///
/// ```
/// use everturn_core::prompt::{Epoch, EpochReason, Prompt};
/// let epoch = Epoch { reason: EpochReason::Model, family: "chat/qwen".into(), prompt: Prompt::default() };
/// assert_eq!(serde_json::to_string(&epoch).unwrap(), r#"{"reason":"model","family":"chat/qwen"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Why what is sent does not go on from what was sent.
    pub reason: EpochReason,
    /// The models that can go on with what is sent: provider and family.
    pub family: String,
    /// All that the model is told beside the messages.
    #[serde(default, skip_serializing_if = "Prompt::is_empty")]
    pub prompt: Prompt,
}

impl EntryKind for Epoch {
    const KIND: &'static str = kind::EPOCH;
}

/// Why a request does not begin with the bytes of the one before it.
///
/// ```
/// use everturn_core::prompt::EpochReason;
/// assert_eq!(EpochReason::Compaction.word(), "compaction");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpochReason {
    /// Nothing was sent before.
    Start,
    /// A summary took the place of what came before.
    Compaction,
    /// The conversation began anew.
    Reset,
    /// Something that was sent was edited.
    Edit,
    /// The provider refused signed items: they did not fit what was sent before them.
    Binding,
    /// Another model answers.
    Model,
    /// The tools on offer are others.
    Tools,
    /// The system prompt is another, and the model takes no change of it behind the messages.
    System,
}

impl EpochReason {
    /// The reason in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Compaction => "compaction",
            Self::Reset => "reset",
            Self::Edit => "edit",
            Self::Binding => "binding",
            Self::Model => "model",
            Self::Tools => "tools",
            Self::System => "system",
        }
    }
}

/// What a model has been told beside the messages, as a transcript has it up to some entry.
///
/// Shape: a fold over entries, oldest first; [`take`](Self::take) adds the next.
///
/// ```
/// use everturn_core::prompt::{EpochReason, Prompt, Standing, Told};
///
/// # use everturn_core::prompt::Speaks;
/// let told = Standing::default().tell(&Prompt::default(), Speaks { family: "demo", takes_changes: true });
/// let Told::Epoch(epoch) = told else { panic!("nothing was sent before") };
/// assert_eq!(epoch.reason, EpochReason::Start);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// What the model knows.
    pub prompt: Prompt,
    /// The models that can go on; none before the first epoch.
    pub family: Option<String>,
    /// The entry of the newest epoch.
    pub epoch: Option<EntryId>,
    /// The newest entry that changed what had been sent before it, and how.
    pub broken: Option<(EntryId, EpochReason)>,
}

/// Who is to be told.
///
/// ```
/// use everturn_core::prompt::Speaks;
/// assert!(Speaks { family: "demo", takes_changes: true }.takes_changes);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Speaks<'a> {
    /// The provider and family of the model.
    pub family: &'a str,
    /// Whether it takes a change of its system prompt behind the messages.
    pub takes_changes: bool,
}

/// What is to be told, so that a model knows what it should.
///
/// ```
/// use everturn_core::prompt::Told;
/// assert!(Told::Nothing.into_entry().unwrap().is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It knows.
    Nothing,
    /// What changed, and how the model is told.
    Change(PromptChange, String),
    /// All of it, anew.
    Epoch(Epoch),
}

impl Told {
    /// The entry that says it; none where there is nothing to say.
    ///
    /// Errors: `Invalid` when a tool's schema has no JSON form.
    pub fn into_entry(self) -> Result<Option<Entry>> {
        let (entry, text) = match self {
            Self::Nothing => return Ok(None),
            Self::Change(change, text) => (Entry::of(&change)?, text),
            Self::Epoch(epoch) => (Entry::of(&epoch)?, epoch.prompt.text()),
        };
        Ok(Some(if text.is_empty() { entry } else { entry.message(Message::system(text)) }))
    }
}

impl Standing {
    /// Adds the next entry of the transcript.
    pub fn take(&mut self, entry: &EntryRecord) {
        match entry.kind.as_str() {
            // What cannot be read says nothing: the next request is told all of it anew.
            kind::EPOCH => {
                let epoch = entry.read::<Epoch>().ok().flatten();
                let (family, prompt) = epoch.map(|epoch| (epoch.family, epoch.prompt)).unzip();
                *self = Self {
                    prompt: prompt.unwrap_or_default(),
                    family,
                    epoch: Some(entry.id),
                    broken: self.broken,
                };
            }
            kind::SYSTEM => {
                if let Ok(Some(change)) = entry.read::<PromptChange>() {
                    self.prompt.take(change);
                }
            }
            kind::COMPACTION if entry.head.is_some() => {
                self.broken = Some((entry.id, EpochReason::Compaction));
            }
            _ if entry.head.is_some() => self.broken = Some((entry.id, EpochReason::Reset)),
            _ if !entry.edits.is_empty() => self.broken = Some((entry.id, EpochReason::Edit)),
            _ => {}
        }
    }

    /// What is to be told to a model that should know `wanted`.
    pub fn tell(&self, wanted: &Prompt, speaks: Speaks<'_>) -> Told {
        let anew =
            |reason| Told::Epoch(Epoch { reason, family: speaks.family.to_owned(), prompt: wanted.clone() });
        let broken = self.broken.filter(|(at, _)| Some(*at) > self.epoch);
        match (self.epoch, broken, self.prompt.change_to(&wanted.sections)) {
            (None, None, _) => anew(EpochReason::Start),
            (_, Some((_, reason)), _) => anew(reason),
            _ if self.family.as_deref() != Some(speaks.family) => anew(EpochReason::Model),
            _ if self.prompt.tools != wanted.tools => anew(EpochReason::Tools),
            (_, _, None) => Told::Nothing,
            (_, _, Some(_)) if !speaks.takes_changes => anew(EpochReason::System),
            (_, _, Some(change)) => {
                let text = change.text(&self.prompt);
                Told::Change(change, text)
            }
        }
    }
}
