//! `everturn models`: which models something is known of.

use everturn::models::catalogue::{Rates, Row};

use crate::{
    args::Place,
    config::Config,
    exit::{Exit, Failure},
    screen::Screen,
};

pub(crate) fn list(place: &Place) -> Result<Exit, Failure> {
    let config = Config::load(place)?;
    let mut screen = Screen::new();
    for row in config.catalogue.rows() {
        screen.text(&line(row));
    }
    screen.delivered()?;
    Ok(Exit::Answered)
}

fn line(row: &Row) -> String {
    let Row { provider, model, window, output_max, price, source, date } = row;
    let known = |tokens: &Option<u64>| tokens.map_or("?".to_owned(), |tokens| tokens.to_string());
    let price = price.map_or("price unknown".to_owned(), dollars);
    let (window, output) = (known(window), known(output_max));
    let said = format!("{provider}/{model}  window {window}, answer {output}, {price}  ({source}, {date})");
    everturn::clean::line(&said)
}

fn dollars(rates: Rates) -> String {
    let Rates { input, output, cached, .. } = rates;
    let cached = cached.map_or(String::new(), |cached| format!(", ${cached} cached"));
    format!("${input} in, ${output} out{cached} a million")
}
