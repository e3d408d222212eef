//! What is known of models: how much they read and write, and what that costs.

use std::sync::{Arc, LazyLock};

use everturn_core::{Error, Result, model::Abilities, usage::Price};
use serde::Deserialize;

/// What comes with this crate.
static BUILT_IN: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::read(include_str!("catalogue.json")).expect("what is built in is read by its tests")
});

/// What is known of models. Cloning is cheap.
///
/// Shape: JSON, a list of [rows](Row). A model that is not listed works all the same: nothing is known of its window and
/// its price, and where a provider wants to be told how long an answer may be, 8,192 tokens are said.
///
/// ```
/// use everturn_models::Catalogue;
///
/// let known = Catalogue::built_in();
/// assert_eq!(known.find("anthropic", "claude-haiku-4-5-20251001").unwrap().window, Some(200_000));
/// assert!(known.find("anthropic", "claude-haiku-4-5-air").is_none());
///
/// let ours = r#"[{"provider":"chat","model":"qwen","window":32768,"source":"its card","date":"2026-11-30"}]"#;
/// let known = Catalogue::read(ours).unwrap().over(&known);
/// assert_eq!(known.find("chat", "qwen").unwrap().window, Some(32_768));
/// ```
#[derive(Clone, Debug)]
pub struct Catalogue(Arc<[Row]>);

/// What is known of one model, and from where.
///
/// ```
/// let rows = everturn_models::Catalogue::built_in();
/// assert!(rows.rows().iter().all(|row| !row.source.is_empty() && row.date.len() == "2026-11-30".len()));
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The provider, as in a model reference.
    pub provider: String,
    /// The model, as the provider names it; its dated names are meant too.
    pub model: String,
    /// How many tokens a request and its answer may have together.
    #[serde(default)]
    pub window: Option<u64>,
    /// How many tokens an answer may have.
    #[serde(default)]
    pub output_max: Option<u64>,
    /// What its tokens cost.
    #[serde(default)]
    pub price: Option<Rates>,
    /// Where this comes from.
    pub source: String,
    /// When it was read there.
    pub date: String,
}

/// Prices of a million tokens, in dollars; the fields of [`Price`].
///
/// ```
/// use everturn_models::catalogue::Rates;
/// let rates: Rates = serde_json::from_str(r#"{"input":3,"output":15}"#).unwrap();
/// assert_eq!(rates.cached, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Of input that is neither read from the cache nor written to it.
    pub input: f64,
    /// Of output.
    pub output: f64,
    /// Of input that is read from the cache.
    #[serde(default)]
    pub cached: Option<f64>,
    /// Of input that is written to the cache.
    #[serde(default)]
    pub cache_written: Option<f64>,
}

impl Catalogue {
    /// What comes with this crate.
    pub fn built_in() -> Self {
        BUILT_IN.clone()
    }

    /// Reads a catalogue.
    ///
    /// Errors: `Invalid`, naming the place, for what is none, and for a price that is no amount.
    pub fn read(json: &str) -> Result<Self> {
        let wrong = |what: String| Error::invalid(format!("read a catalogue of models: {what}"));
        let rows: Vec<Row> = serde_json::from_str(json).map_err(|fault| wrong(fault.to_string()))?;
        for row in &rows {
            let rates = row.price.iter();
            let mut all =
                rates.flat_map(|r| [Some(r.input), Some(r.output), r.cached, r.cache_written]).flatten();
            if let Some(rate) = all.find(|rate| !(0.0..1e9).contains(rate)) {
                return Err(wrong(format!("the price {rate} of {} is no amount in dollars", row.model)));
            }
        }
        Ok(Self::of(rows))
    }

    /// These rows, and another's for models that are not among them.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(other.0.iter()).cloned())
    }

    /// The rows, each model once: the first one counts.
    fn of(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut kept: Vec<Row> = Vec::new();
        for row in rows {
            if kept.iter().all(|one| (&one.provider, &one.model) != (&row.provider, &row.model)) {
                kept.push(row);
            }
        }
        Self(kept.into())
    }

    /// What is known of a model: by its name, or by the name that it has with a date behind it.
    pub fn find(&self, provider: &str, model: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.provider == provider && is_named(&row.model, model))
    }

    /// All rows, one for each model.
    pub fn rows(&self) -> &[Row] {
        &self.0
    }
}

fn is_named(name: &str, model: &str) -> bool {
    match model.strip_prefix(name).map(|rest| rest.strip_prefix('-').unwrap_or(rest)) {
        Some("" | "latest") => true,
        Some(date) => date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()),
        None => false,
    }
}

impl Row {
    /// What the model can do, where a row says it; the rest as it was.
    pub(crate) fn add_to(&self, abilities: Abilities) -> Abilities {
        Abilities {
            window: self.window.or(abilities.window),
            output_max: self.output_max.or(abilities.output_max),
            price: self.price().or(abilities.price),
            ..abilities
        }
    }

    /// How long an answer is asked to be at most: what leaves the request its part of the window.
    pub(crate) fn answer_max(&self) -> Option<u64> {
        let most = self.output_max?;
        Some(self.window.map_or(most, |window| most.min(window / 4)))
    }

    /// What its tokens cost.
    pub fn price(&self) -> Option<Price> {
        let rates = self.price?;
        // Millionths of a dollar for a million tokens; what is read is an amount below a thousand millions.
        let amount = |dollars: f64| (dollars * 1e6).round() as u64;
        Some(Price {
            input: amount(rates.input),
            output: amount(rates.output),
            cached: rates.cached.map(amount),
            cache_written: rates.cache_written.map(amount),
            source: self.source.clone(),
            date: self.date.clone(),
        })
    }
}
