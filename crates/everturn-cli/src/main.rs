//! The command `everturn`: arguments in, events out. The only place where everything meets, and the only one that reads
//! the environment.

mod args;
mod asking;
mod budget;
mod command;
mod config;
mod desk;
mod exit;
mod follow;
mod host;
mod lines;
mod question;
mod screen;
mod signal;
#[cfg(feature = "otel")]
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    if let Err(failure) = log() {
        return told(&failure);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => {
            eprintln!("everturn: start the runtime: {fault}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(command::run(args));
    // A line that a person was asked for blocks a thread that nobody waits for any more.
    runtime.shutdown_background();
    #[cfg(feature = "otel")]
    telemetry::end();
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => told(&failure),
    }
}

fn told(failure: &exit::Failure) -> ExitCode {
    eprintln!("everturn: {}", everturn::clean::line(&failure.message));
    failure.exit.into()
}

/// What the parts have to say goes to standard error where EVERTURN_LOG asks for it, and to a collector where one is named.
fn log() -> Result<(), exit::Failure> {
    use tracing_subscriber::{EnvFilter, prelude::*};
    let asked = config::variable("EVERTURN_LOG").and_then(|asked| EnvFilter::try_new(asked).ok());
    let filter = asked.unwrap_or_else(|| EnvFilter::new("warn"));
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false).without_time();
    let subscriber = tracing_subscriber::registry();
    #[cfg(feature = "otel")]
    let subscriber = subscriber.with(telemetry::start()?);
    subscriber.with(lines.with_filter(filter)).init();
    Ok(())
}
