//! The commands, one file each.

mod archive;
mod chat;
mod demo;
mod doctor;
mod end;
mod label;
mod resume;
mod run;
mod search;
mod sessions;
mod show;
mod signal;
mod tasks;
mod tree;
mod upkeep;
mod usage;
mod watch;

use everturn::{json::RawJson, storage::SearchQuery, task::Signal};

use self::signal::Told;
use crate::{
    args::{Args, Command, Which},
    exit::{Exit, Failure},
};

/// Runs what was asked for.
pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let Args { place, command } = args;
    match command.unwrap_or_else(|| Command::Chat(Which::default())) {
        Command::Chat(which) => chat::run(&place, &which).await,
        Command::Run { prompt, json, which } => run::run(&place, &which, prompt, json).await,
        Command::Sessions { limit, labels, json } => sessions::run(&place, limit, labels, json).await,
        Command::Search { words, session, limit, json } => {
            let query = SearchQuery { words: words.join(" "), session, limit };
            search::run(&place, query, json).await
        }
        Command::Label { id, title, labels } => label::run(&place, id, title, labels).await,
        Command::Archive { id, file, delete } => archive::write(&place, id, &file, delete).await,
        Command::Restore { file } => archive::restore(&place, &file).await,
        Command::Delete { id, yes: _ } => end::delete(&place, id).await,
        Command::Purge { id, entry, yes: _ } => end::purge(&place, id, entry).await,
        Command::Backup { file } => upkeep::backup(&place, file).await,
        Command::Vacuum => upkeep::vacuum(&place).await,
        Command::Show { id, epochs: true, .. } => show::epochs(&place, id).await,
        Command::Show { id, ids, epochs: false } => show::run(&place, id, ids).await,
        Command::Watch { id, from, json } => watch::run(&place, id, from, json).await,
        Command::Tree { id } => tree::run(&place, id).await,
        Command::Usage { id, json } => usage::run(&place, id, json).await,
        Command::Tasks { id, all, json } => tasks::run(&place, id, all, json).await,
        Command::Signal { id, task, name, payload, key } => {
            let payload = payload.map_or_else(|| RawJson::of(&()), Ok)?;
            let told = Told { session: id, task, signal: Signal { name, payload }, key };
            signal::run(&place, told).await
        }
        Command::Resume { id, json } => resume::run(&place, id, json).await,
        Command::Doctor { verify } => doctor::run(&place, verify).await,
        Command::Demo { child: None } => demo::run().await,
        Command::Demo { child: Some(directory) } => demo::child(&directory).await,
    }
}
