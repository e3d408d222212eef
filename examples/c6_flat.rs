//! A turn costs what its own bytes cost, however long the conversation is: the 2,000th takes as many allocations as the
//! 10th, of as many bytes. `-- 10000` counts at that turn, and figure 9 of the benches counts instructions and CPU time there.

use everturn::{Harness, Input, LiveSession, Models, Result, SessionSpec, kernel::Memory, store::Store};
use everturn_testkit::scripted::{Reply, Scripted};
use tokio::runtime::{Builder, Runtime};

/// How many turns are counted at each place.
const WINDOW: usize = 50;

fn main() -> Result<()> {
    let last = std::env::args().nth(1).and_then(|turn| turn.parse().ok()).unwrap_or(2_000).max(1_000);

    // All work is on this thread, and what this thread allocates is counted.
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let session = runtime.block_on(begin())?;

    let mut costs = Vec::new();
    let mut held = 0;
    for place in [10, 100, 500, last] {
        runtime.block_on(hold(&session, place - held))?;
        let [count, bytes] = typical(&runtime, &session)?;
        held = place + WINDOW;
        println!("turn {place:>6}: {count} allocations, {bytes} bytes");
        costs.push([count, bytes]);
    }
    for (early, late) in costs[0].into_iter().zip(costs[costs.len() - 1]) {
        assert!(late as f64 <= 1.1 * early as f64, "a late turn costs {late}, an early one {early}");
    }
    Ok(())
}

/// A session whose model always gives the same answer.
async fn begin() -> Result<LiveSession> {
    let models = Models::new().provider("scripted", Scripted::always(Reply::text("It is still raining.")));
    let harness = Harness::builder(Store::new(Memory::new())).models(models).open().await?;
    harness.create(SessionSpec::model("scripted".parse()?)).await
}

/// Holds turns of the same question, one after the other.
async fn hold(session: &LiveSession, turns: usize) -> Result<()> {
    for _ in 0..turns {
        let answer = session.root().submit(Input::text("How is the weather?")).await?.answer().await?;
        assert!(answer.is_answered(), "{:?}", answer.end);
    }
    Ok(())
}

/// What the next turns allocate, each: the middle one of their counts, and of their bytes. Now and then a table doubles.
fn typical(runtime: &Runtime, session: &LiveSession) -> Result<[u64; 2]> {
    let mut costs = [vec![], vec![]];
    for _ in 0..WINDOW {
        let mut held = Ok(());
        let cost = allocation_counter::measure(|| held = runtime.block_on(hold(session, 1)));
        held?;
        costs[0].push(cost.count_total);
        costs[1].push(cost.bytes_total);
    }
    costs.iter_mut().for_each(|costs| costs.sort_unstable());
    Ok(costs.map(|costs| costs[WINDOW / 2]))
}
