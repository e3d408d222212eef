//! Configuration: the project's file, the user's file, the environment and the arguments, in rising order.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use etcetera::BaseStrategy;
use everturn::{
    model::{ModelRef, Thinking},
    models::{Catalogue, openai},
    policy::{Effect, Layer, Policy, Rule},
};
use secrecy::SecretString;
use toml_edit::{DocumentMut, Item};

use crate::{args::Place, exit::Failure};

/// The name of both files.
const FILE: &str = "everturn.toml";
/// The user's own catalogue of models.
const MODELS: &str = "models.json";
/// Where `chat` goes when nothing else is said.
const OPENAI: &str = openai::BASE_URL;

/// What the command goes by.
#[derive(Debug)]
pub(crate) struct Config {
    /// The directory to work in; it exists, and its links are resolved.
    pub(crate) root: PathBuf,
    /// The store's URL.
    pub(crate) store: String,
    /// The model; none where nobody named one.
    pub(crate) model: Option<ModelRef>,
    pub(crate) thinking: Thinking,
    pub(crate) chat: Chat,
    pub(crate) keys: Keys,
    /// What is known of models: the user's own rows, and what is built in.
    pub(crate) catalogue: Catalogue,
    /// The rules of the files.
    pub(crate) rules: Vec<Configured>,
    /// Where what is said above came from.
    pub(crate) origins: Origins,
}

/// A rule of a file.
#[derive(Clone, Debug)]
pub(crate) struct Configured {
    pub(crate) layer: Layer,
    pub(crate) rule: Rule,
    /// The file.
    pub(crate) origin: String,
}

/// Where values came from, in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    pub(crate) root: String,
    pub(crate) store: String,
    pub(crate) model: String,
    pub(crate) thinking: String,
    pub(crate) base_url: String,
}

/// What the provider `chat` goes by.
#[derive(Debug)]
pub(crate) struct Chat {
    pub(crate) base_url: String,
    /// The key of the base URL.
    pub(crate) key: Option<SecretString>,
    /// The key of endpoints that a model reference names.
    pub(crate) endpoint_key: Option<SecretString>,
}

/// The keys of providers, each for its own endpoint.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) anthropic: Option<SecretString>,
    pub(crate) gemini: Option<SecretString>,
    pub(crate) openai: Option<SecretString>,
}

impl Keys {
    fn read() -> Self {
        let key = |name| variable(name).map(SecretString::from);
        Self {
            anthropic: key("ANTHROPIC_API_KEY"),
            gemini: key("GEMINI_API_KEY").or_else(|| key("GOOGLE_API_KEY")),
            openai: key("OPENAI_API_KEY"),
        }
    }
}

/// What one file may say.
#[derive(Default)]
struct File {
    model: Option<ModelRef>,
    thinking: Option<Thinking>,
    store: Option<String>,
    base_url: Option<String>,
    rules: Vec<Rule>,
}

/// Whose file it is.
#[derive(Clone, Copy, PartialEq)]
enum Owner {
    User,
    Project,
}

impl Config {
    /// Reads what is configured. Variables are read in this file and nowhere else.
    pub(crate) fn load(place: &Place) -> Result<Self, Failure> {
        let root = root(place.root.as_deref())?;
        let (user_file, project_file) = (user_file(), root.join(FILE));
        let user = match &user_file {
            Some(path) => File::read(path, Owner::User)?,
            None => File::default(),
        };
        let project = File::read(&project_file, Owner::Project)?;
        let users = user_file.map_or(String::new(), |path| path.display().to_string());
        let projects = project_file.display().to_string();
        let rules = configured(Layer::User, user.rules, &users)
            .chain(configured(Layer::Project, project.rules, &projects))
            .collect();
        let named = variable("EVERTURN_MODEL").map(|name| name.parse()).transpose();
        let named = named.map_err(|error| Failure::usage(format!("EVERTURN_MODEL: {error}")))?;
        let (users, projects) = (users.as_str(), projects.as_str());
        let (model, model_from) = first([
            (place.model.clone(), "argument --model"),
            (named, "variable EVERTURN_MODEL"),
            (user.model, users),
            (project.model, projects),
        ]);
        let (store, store_from) = first([
            (place.store.clone(), "argument --store"),
            (variable("EVERTURN_STORE"), "variable EVERTURN_STORE"),
            (user.store, users),
        ]);
        let (base_url, base_url_from) = first([
            (variable("EVERTURN_CHAT_BASE_URL"), "variable EVERTURN_CHAT_BASE_URL"),
            (user.base_url, users),
        ]);
        let (thinking, thinking_from) = first([(user.thinking, users), (project.thinking, projects)]);
        let origins = Origins {
            root: if place.root.is_some() { "argument --root" } else { "the current directory" }.into(),
            store: store_from,
            model: model_from,
            thinking: thinking_from,
            base_url: base_url_from,
        };
        let base_url = base_url.unwrap_or_else(|| OPENAI.into());
        let endpoint_key = variable("EVERTURN_CHAT_API_KEY").map(SecretString::from);
        let keys = Keys::read();
        // A provider's key goes to that provider only.
        let key = match base_url.as_str() {
            OPENAI => keys.openai.clone(),
            _ => endpoint_key.clone(),
        };
        Ok(Self {
            store: store.unwrap_or_else(|| format!("sqlite:{}", root.join(".everturn/store.db").display())),
            root,
            model,
            thinking: thinking.unwrap_or_default(),
            chat: Chat { base_url, key, endpoint_key },
            keys,
            catalogue: catalogue()?,
            rules,
            origins,
        })
    }

    /// What calls are judged by: what the files say, and where they say nothing a person is asked.
    pub(crate) fn policy(&self) -> Policy {
        let rules = self.rules.iter();
        let policy = rules.fold(Policy::default(), |policy, one| policy.rule(one.layer, one.rule.clone()));
        policy.otherwise(Effect::Ask)
    }
}

/// The first value that somebody gave, and who did.
fn first<T, const N: usize>(given: [(Option<T>, &str); N]) -> (Option<T>, String) {
    let found = given.into_iter().find_map(|(value, origin)| Some((value?, origin.to_owned())));
    found.map_or((None, "default".into()), |(value, origin)| (Some(value), origin))
}

fn configured(layer: Layer, rules: Vec<Rule>, origin: &str) -> impl Iterator<Item = Configured> + use<> {
    let origin = origin.to_owned();
    rules.into_iter().map(move |rule| Configured { layer, rule, origin: origin.clone() })
}

/// The directory to work in.
fn root(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let root = match given {
        Some(root) => root.to_owned(),
        None => {
            current_dir().map_err(|fault| Failure::usage(format!("find the current directory: {fault}")))?
        }
    };
    let shown = root.display();
    let found = root.canonicalize().map_err(|fault| match fault.kind() {
        io::ErrorKind::NotFound => Failure::usage(format!("work in {shown}: there is no such directory")),
        _ => Failure::usage(format!("work in {shown}: {fault}")),
    })?;
    if !found.is_dir() {
        return Err(Failure::usage(format!("work in {shown}: it is a file; --root takes a directory")));
    }
    Ok(found)
}

#[expect(clippy::disallowed_methods, reason = "the command line is what reads the environment")]
fn current_dir() -> io::Result<PathBuf> {
    env::current_dir()
}

/// A variable that says something.
#[expect(clippy::disallowed_methods, reason = "the command line is what reads the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn user_file() -> Option<PathBuf> {
    users(FILE)
}

/// A file of the user's own directory of configuration.
fn users(file: &str) -> Option<PathBuf> {
    let directories = etcetera::choose_base_strategy().ok()?;
    Some(directories.config_dir().join("everturn").join(file))
}

/// What is known of models: the user's own rows in front of what is built in.
fn catalogue() -> Result<Catalogue, Failure> {
    let built_in = Catalogue::built_in();
    let Some(path) = users(MODELS).filter(|path| path.is_file()) else { return Ok(built_in) };
    let wrong = |what: String| Failure::usage(format!("read {}: {what}", path.display()));
    let text = fs::read_to_string(&path).map_err(|fault| wrong(fault.to_string()))?;
    let own = Catalogue::read(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(own.over(&built_in))
}

impl File {
    fn read(path: &Path, owner: Owner) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::usage(format!("read {}: {what}", path.display()));
        // Who opens a pipe waits for its other end, maybe for ever.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(wrong("it is not a regular file".into()));
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(fault) if matches!(fault.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(fault) => return Err(wrong(fault.to_string())),
        };
        let document: DocumentMut = text
            .parse()
            .map_err(|fault: toml_edit::TomlError| wrong(fault.to_string().trim_end().replace('\n', "; ")))?;
        let mut file = Self::default();
        for (key, item) in document.iter() {
            file.set(key, item, owner).map_err(wrong)?;
        }
        Ok(file)
    }

    fn set(&mut self, key: &str, item: &Item, owner: Owner) -> Result<(), String> {
        match key {
            "model" => self.model = Some(model(text(key, item)?, owner)?),
            "thinking" => self.thinking = Some(thinking(&text(key, item)?)?),
            "store" => self.store = Some(users_own(key, text(key, item)?, owner)?),
            "chat" => {
                let table = item.as_table_like().ok_or("chat is a table: write [chat] above its keys")?;
                for (key, item) in table.iter() {
                    match key {
                        "base_url" => {
                            self.base_url = Some(users_own("chat.base_url", text(key, item)?, owner)?);
                        }
                        _ => return Err(unknown(&format!("chat.{key}"), &["chat.base_url"])),
                    }
                }
            }
            "policy" => {
                let table = item.as_table_like().ok_or("policy is a table: write [policy] above its keys")?;
                for (key, item) in table.iter() {
                    match key {
                        "rules" => self.rules = rules(item)?,
                        _ => return Err(unknown(&format!("policy.{key}"), &["policy.rules"])),
                    }
                }
            }
            _ => return Err(unknown(key, &["model", "thinking", "store", "chat", "policy"])),
        }
        Ok(())
    }
}

fn text(key: &str, item: &Item) -> Result<String, String> {
    item.as_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{key} is a text in quotes, not a {}", item.type_name()))
}

fn rules(item: &Item) -> Result<Vec<Rule>, String> {
    let wrong = || "policy.rules is a list of texts, as in [\"allow write(src/**)\"]".to_owned();
    let list = item.as_array().ok_or_else(wrong)?.iter();
    let rules = list.map(|rule| {
        let rule = rule.as_str().ok_or_else(wrong)?;
        rule.parse().map_err(|error: everturn::Error| format!("policy.rules: {error}"))
    });
    rules.collect()
}

/// A project's file comes with the project, from whoever wrote it: it cannot say where things are sent.
fn users_own(key: &str, value: String, owner: Owner) -> Result<String, String> {
    match owner {
        Owner::User => Ok(value),
        Owner::Project => Err(format!(
            "{key} belongs in your own file, the environment or the arguments, not in a project's"
        )),
    }
}

fn model(name: String, owner: Owner) -> Result<ModelRef, String> {
    let model: ModelRef = name.parse().map_err(|error: everturn::Error| format!("model: {error}"))?;
    if model.endpoint.is_some() {
        users_own("a model with an endpoint", name, owner)?;
    }
    Ok(model)
}

fn thinking(level: &str) -> Result<Thinking, String> {
    serde_json::from_value(level.into())
        .map_err(|_| format!("thinking is default, off, low, medium or high, not {level:?}"))
}

fn unknown(key: &str, known: &[&str]) -> String {
    let near = known.iter().max_by(|a, b| {
        let near = |name: &str| strsim::jaro_winkler(key, name);
        near(a).total_cmp(&near(b))
    });
    format!("unknown key {key}; did you mean {}?", near.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests;
