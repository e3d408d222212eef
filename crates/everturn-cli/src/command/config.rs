//! `everturn config show`: what the command goes by.

use everturn::policy::{Effect, Layer};

use crate::{
    args::Place,
    config::{Config, Configured},
    exit::{Exit, Failure},
    screen::Screen,
};

pub(crate) fn show(place: &Place, origin: bool) -> Result<Exit, Failure> {
    let config = Config::load(place)?;
    let Config { root, store, model, thinking, chat, rules, origins, .. } = &config;
    let model = model.as_ref().map_or("demo".into(), ToString::to_string);
    let thinking = serde_json::to_value(thinking)
        .map_or(String::new(), |level| level.as_str().unwrap_or_default().into());
    let mut screen = Screen::new();
    for (key, value, from) in [
        ("root", &root.display().to_string(), &origins.root),
        ("store", store, &origins.store),
        ("model", &model, &origins.model),
        ("thinking", &thinking, &origins.thinking),
        ("chat.base_url", &chat.base_url, &origins.base_url),
    ] {
        screen.text(&line(&format!("{key} = {value}"), from, origin));
    }
    for rule in rules {
        screen.text(&line(&shown(rule), &rule.origin, origin));
    }
    screen.delivered()?;
    Ok(Exit::Answered)
}

/// A rule, and whether it counts.
fn shown(configured: &Configured) -> String {
    let Configured { layer, rule, .. } = configured;
    let loosens = *layer == Layer::Project && rule.effect == Effect::Allow;
    let note = if loosens { " (does not count: a project's file cannot allow)" } else { "" };
    format!("policy.rules, {layer} layer: {rule}{note}")
}

fn line(said: &str, from: &str, with_origin: bool) -> String {
    let said = everturn::clean::line(said);
    if with_origin { format!("{said}  # {}", everturn::clean::line(from)) } else { said }
}
