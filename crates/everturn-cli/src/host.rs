//! The composition root: a store, models and tools become a harness.

use std::{path::Path, sync::Arc, time::Duration};

use everturn::{
    Agent, AgentChange, Current, Error, ErrorKind, Extension, Harness, LiveSession, Models, SessionReader,
    SessionSpec, SystemClock, World, clean,
    env::{Env, Nowhere},
    id::{ConversationId, SessionId},
    model::ModelRef,
    models::{Anthropic, Chat, ClientConfig, Demo, Gemini, OpenAi, anthropic, chat, gemini, openai},
    policy::Layer,
    session_tools,
    storage::{SessionQuery, SessionRow},
    store::{self, Options},
    tools::{Directory, coding},
};

use secrecy::SecretString;

use crate::{
    args::{Place, Rules, Which},
    config::Config,
    exit::Failure,
};

/// How fast the demo model speaks: a wait between words.
const PACE: Duration = Duration::from_millis(12);
/// How many sessions are asked for at a time.
pub(crate) const PAGE: usize = 500;

/// A harness over what is configured.
pub(crate) struct Host {
    pub(crate) config: Config,
    pub(crate) harness: Harness,
    pub(crate) models: Models,
}

/// Whether a store that is not there is created.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

impl Host {
    pub(crate) async fn open(place: &Place, missing: Missing) -> Result<Self, Failure> {
        let config = Config::load(place)?;
        Self::of(config, missing).await
    }

    /// A host over a store, with all models and tools that are built in.
    pub(crate) async fn of(config: Config, missing: Missing) -> Result<Self, Failure> {
        let models = models(&config)?;
        let harness = harness(&config, missing, models.clone()).await?;
        #[cfg(feature = "otel")]
        crate::telemetry::count(&harness);
        Ok(Self { config, harness, models })
    }

    /// Calls are judged by these rules too; where nobody can be asked, what would be asked is denied.
    pub(crate) fn judge_by(&self, rules: Rules, can_ask: bool) {
        let rules = rules.allow.into_iter().chain(rules.deny);
        let policy = rules.fold(self.config.policy(), |policy, rule| policy.rule(Layer::User, rule));
        self.harness.set_policy(None, if can_ask { policy } else { policy.unattended() });
    }

    /// The session that was asked for, or a new one that is called by its first question.
    pub(crate) async fn session(&self, which: &Which, question: &str) -> Result<LiveSession, Failure> {
        let id = match (which.session, which.r#continue) {
            (Some(id), _) => Some(id),
            (None, true) => Some(self.last_used().await?),
            (None, false) => None,
        };
        match id {
            Some(id) => self.reopen(id).await,
            None => self.create(question).await,
        }
    }

    /// Opens a session; a model that was named on the way takes the place of its own.
    pub(crate) async fn reopen(&self, id: SessionId) -> Result<LiveSession, Failure> {
        let session = self.harness.open_session(id).await.map_err(explain)?;
        if let Some(model) = &self.config.model {
            let current = session.current().await?;
            if current.agent().await?.model.as_ref() != Some(model) {
                current
                    .configure(AgentChange {
                        model: Some(model.clone()),
                        thinking: None,
                        ..AgentChange::default()
                    })
                    .await?;
            }
        }
        Ok(session)
    }

    async fn create(&self, question: &str) -> Result<LiveSession, Failure> {
        let agent = Agent {
            model: Some(self.config.model.clone().unwrap_or_else(demo)),
            thinking: self.config.thinking,
            directory: Some(self.config.root.to_string_lossy().into_owned()),
            ..Agent::default()
        };
        let spec = SessionSpec { title: title(question), agent, ..SessionSpec::default() };
        self.harness.create(spec).await.map_err(|error| match error.kind() {
            // What is not there is what the arguments or the configuration named.
            ErrorKind::NotFound => Failure::usage(error.to_string()),
            _ => error.into(),
        })
    }

    /// The session that was used last.
    pub(crate) async fn last_used(&self) -> Result<SessionId, Failure> {
        let (mut last, mut query) =
            (None::<SessionRow>, SessionQuery { limit: PAGE, ..SessionQuery::default() });
        loop {
            let page = self.next_page(&mut query).await?;
            if page.is_empty() {
                break;
            }
            last = last.into_iter().chain(page).max_by_key(|row| row.used);
        }
        last.map(|row| row.id).ok_or_else(|| {
            Error::not_found(
                "look for the session that was used last: the store has none yet; `everturn run` makes one",
            )
            .into()
        })
    }

    /// The next page of sessions, newest first; empty at the end.
    pub(crate) async fn next_page(&self, query: &mut SessionQuery) -> Result<Vec<SessionRow>, Failure> {
        let page = self.harness.sessions(query.clone()).await?;
        query.after = page.last().map(|oldest| oldest.id).or(query.after);
        Ok(page)
    }

    /// What to tell a person before a new session, where nobody named a model, so that the built-in one answers.
    pub(crate) fn notice(&self, which: &Which) -> Option<&'static str> {
        let is_demo = which.is_new() && self.config.model.is_none();
        is_demo
            .then_some("no model is configured, so the built-in demo model answers (it is no language model)")
    }
}

/// All models that are built in.
fn models(config: &Config) -> Result<Models, Failure> {
    let wrong = |error: Error| Failure::usage(error.to_string());
    let (clock, keys) = (Arc::new(SystemClock), &config.keys);
    let at = |base_url: &str, key: &Option<SecretString>| ClientConfig {
        key: key.clone(),
        endpoint_key: config.chat.endpoint_key.clone(),
        catalogue: config.catalogue.clone(),
        ..ClientConfig::new(base_url)
    };
    let chat = Chat::new(at(&config.chat.base_url, &config.chat.key), clock.clone());
    let anthropic = Anthropic::new(at(anthropic::BASE_URL, &keys.anthropic), clock.clone());
    let gemini = Gemini::new(at(gemini::BASE_URL, &keys.gemini), clock.clone());
    let openai = OpenAi::new(at(openai::BASE_URL, &keys.openai), clock.clone());
    Ok(Models::new()
        .provider(anthropic::PROVIDER, anthropic.map_err(wrong)?)
        .provider(chat::PROVIDER, chat.map_err(wrong)?)
        .provider("demo", Demo::new(clock, PACE))
        .provider(gemini::PROVIDER, gemini.map_err(wrong)?)
        .provider(openai::PROVIDER, openai.map_err(wrong)?))
}

async fn harness(config: &Config, missing: Missing, models: Models) -> Result<Harness, Failure> {
    let world = World::system();
    if let (Missing::Create, Some(path)) = (missing, config.store.strip_prefix("sqlite:")) {
        create_directory(Path::new(path))?;
    }
    let options = Options { must_exist: missing == Missing::Refuse, ..Options::new(world.owner()) };
    let store = store::open(&config.store, options).await.map_err(|error| Failure::store(&error))?;
    let harness =
        Harness::builder(store).world(world).models(models).env(environment).policy(config.policy());
    let harness = harness.install(Extension::new("coding").tools(coding()))?.install(session_tools())?;
    Ok(harness.open().await?)
}

/// The store's own directory in the root is created on the way; any other has to be there.
fn create_directory(store: &Path) -> Result<(), Failure> {
    let Some(directory) = store.parent().filter(|directory| directory.ends_with(".everturn")) else {
        return Ok(());
    };
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(directory) {
        Err(fault) if fault.kind() != std::io::ErrorKind::AlreadyExists => Err(Failure::usage(format!(
            "create {}: {fault}; name another store with --store",
            directory.display()
        ))),
        _ => Ok(()),
    }
}

fn environment(agent: &Agent) -> everturn::Result<Env> {
    match &agent.directory {
        Some(directory) => Ok(Env::new(Directory::open(Path::new(directory))?)),
        None => Ok(Env::new(Nowhere)),
    }
}

pub(crate) fn demo() -> ModelRef {
    ModelRef { provider: "demo".into(), model: "demo".into(), endpoint: None }
}

/// What a list shows of a session: the first line of its first question.
fn title(question: &str) -> Option<String> {
    let line = clean::line(question.lines().find(|line| !line.trim().is_empty())?.trim());
    Some(match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    })
}

/// The conversation that chats use, of a session that nobody here has open.
pub(crate) async fn current(reader: &SessionReader) -> Result<ConversationId, Failure> {
    Ok(reader.snapshot::<Current>(()).await?.unwrap_or_default().conversation)
}

/// Adds what to do to errors that a person meets when opening a session.
pub(crate) fn explain(error: Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => "; `everturn sessions` lists those that are there",
        ErrorKind::Owned { .. } => "; end that process, or wait for it",
        _ => "",
    };
    let mut failure = Failure::from(error);
    failure.message.push_str(hint);
    failure
}
