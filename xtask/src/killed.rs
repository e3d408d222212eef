//! Examples that are killed at random: each lives in a directory of its own, is killed and run again, and comes to the same end.

use std::{
    env, fs,
    hash::{BuildHasher, RandomState},
    io::Read,
    path::Path,
    process::{self, Child, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use crate::{
    command::cargo,
    examples::{LIMIT, programs},
    gates::Passed,
};

/// The examples that go on in a directory, whoever killed them there.
const EXAMPLES: [&str; 3] = ["a13_task", "a14_resume", "d04_child_tasks"];

/// How often each is tried in CI.
pub(crate) const RUNS: u32 = 12;

/// How many lives of a run are cut short at most: fewer than make a task a crash loop, even if all meet the same step.
const KILLS_MAX: u64 = 5;

/// Builds the examples and kills each of them in so many runs, at moments that come from a seed.
pub(crate) fn run(runs: u32, seed: Option<u64>) -> Passed {
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(process::id()));
    println!("the kill moments come from seed {seed}");
    let built =
        cargo("build --package everturn --examples --profile ci --message-format json-render-diagnostics");
    let programs = programs(&built.output()?);
    for name in EXAMPLES {
        let program = programs.iter().find(|program| program.file_stem().is_some_and(|stem| stem == name));
        let program = program.ok_or_else(|| format!("there is no example {name}"))?;
        let ends = Killed { name, program, moments: Moments(seed), span: Duration::from_millis(200) };
        ends.all(runs).map_err(|why| format!("example {name}, seed {seed}: {why}"))?;
    }
    Ok(())
}

/// An example that is killed.
struct Killed<'a> {
    name: &'a str,
    program: &'a Path,
    moments: Moments,
    /// About how long it lives: kills fall into this time.
    span: Duration,
}

impl Killed<'_> {
    /// Kills it in so many runs. All must come to what it says undisturbed.
    fn all(mut self, runs: u32) -> Passed {
        let expected = self.end(0)?.0;
        let mut kills = 0;
        for run in 1..=runs {
            let most = 1 + self.moments.below(KILLS_MAX);
            let (end, killed) = self.end(most).map_err(|why| format!("run {run}: {why}"))?;
            if end != expected {
                return Err(format!(
                    "run {run}, killed {killed} times, came to {end:?}, not to {expected:?}"
                ));
            }
            kills += killed;
        }
        println!("example {}: {runs} runs, killed {kills} times, one end: {expected}", self.name);
        Ok(())
    }

    /// Lives in a new directory until it ends by itself, killed up to so many times; gives what it says last, and how
    /// often it was killed.
    fn end(&mut self, kills_max: u64) -> Result<(String, u64), String> {
        let directory = env::temp_dir().join(format!("everturn-killed-{}-{}", self.name, process::id()));
        fs::create_dir_all(&directory).map_err(|fault| format!("make {}: {fault}", directory.display()))?;
        let ended = self.lives(&directory, kills_max);
        // What is left of a run that went wrong is worth a look.
        if ended.is_ok() {
            fs::remove_dir_all(&directory)
                .map_err(|fault| format!("remove {}: {fault}", directory.display()))?;
        }
        ended.map_err(|why| format!("{why}; what is left is in {}", directory.display()))
    }

    fn lives(&mut self, directory: &Path, kills_max: u64) -> Result<(String, u64), String> {
        let mut kills = 0;
        // One more life is cut short by the example itself, where that is what it shows.
        for _ in 0..kills_max + 2 {
            let kill_after = (kills < kills_max).then(|| self.moments.within(self.span));
            match Life::start(self.program, directory)?.end(kill_after)? {
                End::Said(text) => {
                    // It was faster than that: the next moments come sooner.
                    self.span = if kill_after.is_some() { self.span * 8 / 10 } else { self.span };
                    return Ok((text, kills));
                }
                End::Killed => {
                    kills += 1;
                    // So that about four of five are killed, and the moments cover the whole life.
                    self.span = self.span * 105 / 100;
                }
                End::ByItself => {}
            }
        }
        Err(format!("it was killed {kills} times and does not come to an end"))
    }
}

/// How a life ended.
enum End {
    /// Well, and this is what it said last.
    Said(String),
    Killed,
    /// It killed itself.
    ByItself,
}

/// A process of an example.
struct Life {
    child: Child,
    said: Receiver<String>,
}

impl Life {
    fn start(program: &Path, directory: &Path) -> Result<Self, String> {
        let mut child = Command::new(program)
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|fault| format!("start it: {fault}"))?;
        let said = child.stdout.take().map(listen).ok_or("its output is not there")?;
        Ok(Self { child, said })
    }

    /// Waits for its end, or makes it.
    fn end(mut self, kill_after: Option<Duration>) -> Result<End, String> {
        let said = self.said.recv_timeout(kill_after.unwrap_or(LIMIT));
        let is_late = said == Err(RecvTimeoutError::Timeout);
        if is_late {
            // It may have ended by itself just now, and then there is nothing to kill.
            let _ = self.child.kill();
        }
        let output = self.child.wait_with_output().map_err(|fault| format!("wait for it: {fault}"))?;
        let text = said.or_else(|_| self.said.recv()).unwrap_or_default();
        match output.status.code() {
            Some(0) => Ok(End::Said(text.lines().last().unwrap_or_default().to_owned())),
            Some(code) => {
                Err(format!("it ended with exit code {code}: {}", String::from_utf8_lossy(&output.stderr)))
            }
            None if is_late && kill_after.is_none() => {
                Err(format!("it did not end within {} s", LIMIT.as_secs()))
            }
            None if is_late => Ok(End::Killed),
            None => Ok(End::ByItself),
        }
    }
}

/// Gives all that is written to an output, when that is closed.
fn listen(mut output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut text = String::new();
        // What was read before a fault still counts, and the child's end says whether it matters.
        let _ = output.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    receiver
}

/// Moments from a seed: the same ones each time (SplitMix64, Steele and others, "Fast splittable pseudorandom number
/// generators", 2014).
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn within(&mut self, span: Duration) -> Duration {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.below(span))
    }
}
