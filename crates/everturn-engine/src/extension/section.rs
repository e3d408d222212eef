//! Sections of the system prompt: rendered before each request, told where they differ from what was told.

use std::{fmt, sync::Arc};

use everturn_core::{BoxFuture, Result, document::Document, id::ConversationId, tool::AnyTool};

use crate::{Agent, Transaction, registry::Selected};

/// A section of the system prompt.
///
/// Promise: rendered before each request, with what the commit that prepares it holds; the model is told only what
/// differs from what it knows. It holds the session's line: it reads documents and answers at once.
///
/// ```
/// use everturn_engine::extension::{PromptSection, SectionContext};
///
/// struct Tools;
/// impl PromptSection for Tools {
///     fn key(&self) -> &str { "tools" }
///     async fn render(&self, cx: &SectionContext<'_>) -> Option<String> {
///         let names: Vec<_> = cx.tools().iter().map(|tool| tool.spec().name.clone()).collect();
///         (!cx.is_sub_agent()).then(|| format!("You have: {}.", names.join(", ")))
///     }
/// }
/// ```
pub trait PromptSection: Send + Sync + 'static {
    /// Its name among all sections.
    fn key(&self) -> &str;

    /// Whether its text stands in tags of its name.
    fn is_tagged(&self) -> bool {
        true
    }

    /// What it says; none where it has nothing to say.
    fn render(&self, cx: &SectionContext<'_>) -> impl Future<Output = Option<String>> + Send;
}

/// Something around a section of the system prompt.
///
/// ```
/// use everturn_engine::extension::{SectionContext, SectionWrap};
///
/// struct Loud;
/// impl SectionWrap for Loud {
///     fn key(&self) -> &str { "rules" }
///     async fn wrap(&self, _: &SectionContext<'_>, text: Option<String>) -> Option<String> {
///         text.map(|text| text.to_uppercase())
///     }
/// }
/// ```
pub trait SectionWrap: Send + Sync + 'static {
    /// The section that it stands around.
    fn key(&self) -> &str;

    /// What the section says, given what it said.
    fn wrap(
        &self,
        cx: &SectionContext<'_>,
        text: Option<String>,
    ) -> impl Future<Output = Option<String>> + Send;
}

/// What a section may look at.
///
/// ```
/// use everturn_engine::extension::SectionContext;
/// fn is_for_people(cx: &SectionContext<'_>) -> bool {
///     !cx.is_sub_agent()
/// }
/// ```
pub struct SectionContext<'a> {
    pub(crate) tx: &'a Transaction,
    pub(crate) conversation: ConversationId,
    pub(crate) agent: &'a Agent,
    pub(crate) selected: &'a Selected,
    pub(crate) is_sub_agent: bool,
}

impl SectionContext<'_> {
    /// The conversation.
    pub fn conversation(&self) -> ConversationId {
        self.conversation
    }

    /// What the conversation runs with.
    pub fn agent(&self) -> &Agent {
        self.agent
    }

    /// The tools on offer.
    pub fn tools(&self) -> &[AnyTool] {
        self.selected.tools()
    }

    /// Whether the conversation is a task's.
    pub fn is_sub_agent(&self) -> bool {
        self.is_sub_agent
    }

    /// A document's value, as it stands in the commit that prepares the request.
    pub async fn snapshot<T: Document>(&self, scope: T::Scope) -> Result<Option<T>> {
        self.tx.snapshot(scope).await
    }
}

/// A section that always says the same.
pub(super) struct Text {
    pub(super) key: String,
    pub(super) text: String,
}

impl PromptSection for Text {
    fn key(&self) -> &str {
        &self.key
    }

    async fn render(&self, _: &SectionContext<'_>) -> Option<String> {
        Some(self.text.clone())
    }
}

type Rendered<'a> = BoxFuture<'a, Option<String>>;

/// A section with its type erased.
#[derive(Clone)]
pub(crate) struct AnySection(Arc<dyn ErasedSection>);

trait ErasedSection: Send + Sync {
    fn key(&self) -> &str;
    fn is_tagged(&self) -> bool;
    fn render<'a>(&'a self, cx: &'a SectionContext<'_>) -> Rendered<'a>;
}

impl<T: PromptSection> ErasedSection for T {
    fn key(&self) -> &str {
        PromptSection::key(self)
    }

    fn is_tagged(&self) -> bool {
        PromptSection::is_tagged(self)
    }

    fn render<'a>(&'a self, cx: &'a SectionContext<'_>) -> Rendered<'a> {
        Box::pin(PromptSection::render(self, cx))
    }
}

impl AnySection {
    pub(crate) fn new(section: impl PromptSection) -> Self {
        Self(Arc::new(section))
    }

    pub(crate) fn key(&self) -> &str {
        self.0.key()
    }

    pub(crate) fn is_tagged(&self) -> bool {
        self.0.is_tagged()
    }

    pub(crate) fn render<'a>(&'a self, cx: &'a SectionContext<'_>) -> Rendered<'a> {
        self.0.render(cx)
    }
}

impl fmt::Debug for AnySection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnySection({})", self.key())
    }
}

/// Something around a section, with its type erased.
#[derive(Clone)]
pub(crate) struct AnyWrap(Arc<dyn ErasedWrap>);

trait ErasedWrap: Send + Sync {
    fn key(&self) -> &str;
    fn wrap<'a>(&'a self, cx: &'a SectionContext<'_>, text: Option<String>) -> Rendered<'a>;
}

impl<T: SectionWrap> ErasedWrap for T {
    fn key(&self) -> &str {
        SectionWrap::key(self)
    }

    fn wrap<'a>(&'a self, cx: &'a SectionContext<'_>, text: Option<String>) -> Rendered<'a> {
        Box::pin(SectionWrap::wrap(self, cx, text))
    }
}

impl AnyWrap {
    pub(crate) fn new(wrap: impl SectionWrap) -> Self {
        Self(Arc::new(wrap))
    }

    pub(crate) fn key(&self) -> &str {
        self.0.key()
    }

    pub(crate) fn wrap<'a>(&'a self, cx: &'a SectionContext<'_>, text: Option<String>) -> Rendered<'a> {
        self.0.wrap(cx, text)
    }
}

impl fmt::Debug for AnyWrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyWrap({})", self.key())
    }
}
