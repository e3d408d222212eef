//! Examples that are killed at random: each lives in a directory of its own, is killed and run again, and comes to the same end.

mod life;
mod moments;

use std::{
    env, fs,
    hash::{BuildHasher, RandomState},
    path::Path,
    process,
};

use self::{
    life::{End, Life},
    moments::Moments,
};
use crate::{command::cargo, examples::programs, gates::Passed};

/// The examples that go on in a directory, whoever killed them there.
const EXAMPLES: [&str; 4] = ["a13_task", "a14_resume", "b_session_live", "d04_child_tasks"];

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
        let ends = Killed { name, program, moments: Moments::of(seed) };
        ends.all(runs).map_err(|why| format!("example {name}, seed {seed}: {why}"))?;
    }
    Ok(())
}

/// An example that is killed.
struct Killed<'a> {
    name: &'a str,
    program: &'a Path,
    moments: Moments,
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
            let kill = (kills < kills_max).then(|| self.moments.kill());
            let ended = Life::start(self.program, directory)?.end(kill)?;
            if let Some(kill) = kill {
                self.moments.learn(kill, matches!(ended, End::Killed));
            }
            match ended {
                End::Said(text) => return Ok((text, kills)),
                End::Killed => kills += 1,
                End::ByItself => {}
            }
        }
        Err(format!("it was killed {kills} times and does not come to an end"))
    }
}
