//! The commands, one file each.

mod abort;
mod approvals;
mod archive;
mod chat;
mod config;
mod decide;
mod demo;
mod doctor;
mod end;
mod fork;
mod label;
mod models;
mod reset;
mod resume;
mod rework;
mod run;
mod search;
mod sessions;
mod show;
mod signal;
mod steer;
mod tasks;
mod tree;
mod upkeep;
mod usage;
mod watch;

use everturn::{json::RawJson, storage::SearchQuery, task::Signal};

use self::signal::Told;
use crate::{
    args::{Args, Command, ConfigCommand, Rules, Which},
    exit::{Exit, Failure},
};

/// Runs what was asked for.
pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let Args { place, command } = args;
    let chat = || Command::Chat { which: Which::default(), rules: Rules::default() };
    match command.unwrap_or_else(chat) {
        Command::Chat { which, rules } => chat::run(&place, &which, rules).await,
        Command::Run { prompt, json, ask, output_schema, budget, which, rules } => {
            let asked = run::Asked { prompt, json, ask, schema: output_schema, budget, rules };
            run::run(&place, &which, asked).await
        }
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
        Command::Steer { id, text, late, declining, key, place: at } => {
            steer::run(&place, (id, at), steer::Said { text, late, declining, key }).await
        }
        Command::Approvals { id, json } => approvals::run(&place, id, json).await,
        Command::Approve { which, how } => decide::run(&place, which, decide::allowed(how)).await,
        Command::Deny { which, reason, stop: _ } => decide::run(&place, which, decide::denied(reason)).await,
        Command::Abort { id, background, place: at } => abort::run(&place, (id, at), background).await,
        Command::Fork { id, at: entry, place: at } => fork::run(&place, (id, at), entry).await,
        Command::Undo { id, turn } => rework::undo(&place, id, turn).await,
        Command::Compact { id, focus, place: at } => rework::compact(&place, (id, at), focus).await,
        Command::Reset { id, text, place: at } => reset::run(&place, (id, at), text).await,
        Command::Config { command: ConfigCommand::Show { origin } } => config::show(&place, origin),
        Command::Resume { id, json, rules } => resume::run(&place, id, resume::Resume { json, rules }).await,
        Command::Models => models::list(&place),
        Command::Doctor { verify } => doctor::run(&place, verify).await,
        Command::Demo { child: None } => demo::run().await,
        Command::Demo { child: Some(directory) } => demo::child(&directory).await,
    }
}
