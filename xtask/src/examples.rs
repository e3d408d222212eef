//! The façade's examples: each is run to its end, and what it asserts must hold.

use std::{
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use crate::{
    command::{cargo, root},
    gates::Passed,
};

/// How long one example may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Builds all examples and runs those of the façade, one after the other.
pub(crate) fn run() -> Passed {
    let artifacts = cargo(
        "build --workspace --features everturn-cli/otel --examples --profile ci \
         --message-format json-render-diagnostics",
    )
    .output()?;
    let examples = programs(&artifacts);
    examples.iter().try_for_each(|example| run_one(example))?;
    println!("{} examples ended well", examples.len());
    Ok(())
}

/// The programs of the façade's examples that cargo's output tells of, in the order of their names.
pub(crate) fn programs(artifacts: &str) -> Vec<PathBuf> {
    let mut examples: Vec<PathBuf> = artifacts.lines().filter_map(example).collect();
    examples.sort();
    examples
}

/// The program of an example of the façade, where a line of cargo's output tells of one.
fn example(line: &str) -> Option<PathBuf> {
    let is_its = line.contains("/crates/everturn#") && line.contains(r#""kind":["example"]"#);
    let (_, program) = line.split_once(r#""executable":""#).filter(|_| is_its)?;
    let (program, _) = program.split_once('"')?;
    Some(PathBuf::from(program.replace(r"\\", r"\")))
}

fn run_one(program: &Path) -> Passed {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let mut child = Command::new(program)
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|fault| format!("start example {name}: {fault}"))?;
    let said = listen(&mut child);

    let texts: Vec<String> = (0..2).map_while(|_| said.recv_timeout(LIMIT).ok()).collect();
    let in_time = texts.len() == 2;
    if !in_time {
        // It may have ended by itself just now, and then there is nothing to kill.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|fault| format!("wait for example {name}: {fault}"))?;
    if in_time && status.success() {
        println!("example {name}: ok");
        return Ok(());
    }
    texts.iter().for_each(|text| eprint!("{text}"));
    let limit = LIMIT.as_secs();
    let why = if in_time { format!("ended with {status}") } else { format!("did not end within {limit} s") };
    Err(format!("example {name} {why}"))
}

/// Gives all that the child writes to its two outputs, each when it is closed.
fn listen(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|output| Box::new(output) as _),
        child.stderr.take().map(|output| Box::new(output) as _),
    ];
    for mut output in outputs.into_iter().flatten() {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before a fault is still worth showing, and the child's end says whether it matters.
            let _ = output.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    receiver
}
