//! `everturn run PROMPT`: one turn, its answer on standard output.

use std::io::{self, IsTerminal, Read};

use everturn::Input;

use crate::{
    args::{Place, Which},
    exit::{Exit, Failure},
    follow::{Form, follow},
    host::{Host, Missing},
    signal::Signals,
};

/// How much of standard input is put behind the prompt, in bytes.
const STDIN_MAX: u64 = 512 << 10;

pub(crate) async fn run(place: &Place, which: &Which, prompt: String, json: bool) -> Result<Exit, Failure> {
    let prompt = with_stdin(prompt)?;
    if prompt.trim().is_empty() {
        return Err(Failure::usage("run: the prompt is empty; say what you want to know"));
    }
    let missing = if which.is_new() { Missing::Create } else { Missing::Refuse };
    let host = Host::open(place, missing).await?;
    let session = host.session(which, &prompt).await?;
    if let Some(notice) = host.notice(which) {
        eprintln!("everturn: {notice}");
    }
    let asked = session.current().await?.submit(Input::text(prompt)).await?;
    let ended = follow(&session, &asked, &mut Signals::listen()?, &mut Form::of(json)).await;
    // How the question ended is what counts. A lease that could not be given back ends with this process.
    let _ = session.close().await;
    ended
}

fn with_stdin(prompt: String) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Ok(prompt);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(STDIN_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > STDIN_MAX {
        let message =
            format!("run: standard input has more than {STDIN_MAX} bytes; put it in a file and name it");
        return Err(Failure::usage(message));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(if text.trim().is_empty() { prompt } else { format!("{prompt}\n\n{text}") })
}
