//! The commands, one file each.

mod chat;
mod demo;
mod doctor;
mod resume;
mod run;
mod sessions;
mod show;

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
        Command::Sessions { limit, json } => sessions::run(&place, limit, json).await,
        Command::Show { id } => show::run(&place, id).await,
        Command::Resume { id, json } => resume::run(&place, id, json).await,
        Command::Doctor { verify } => doctor::run(&place, verify).await,
        Command::Demo { child: None } => demo::run().await,
        Command::Demo { child: Some(directory) } => demo::child(&directory).await,
    }
}
