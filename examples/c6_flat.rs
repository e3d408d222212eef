//! The 10,000th turn of a conversation costs what the 10th did: as many allocations, as many bytes. What it costs in
//! instructions and in CPU time is figure 9 of the benches.

use allocation_counter::AllocationInfo;
use everturn::{Harness, Input, LiveSession, Models, Result, SessionSpec, kernel::Memory, store::Store};
use everturn_testkit::scripted::{Reply, Scripted};
use tokio::runtime::{Builder, Runtime};

/// The turns behind which is counted, and how many turns are counted there.
const PLACES: [usize; 4] = [10, 100, 1_000, 10_000];
const WINDOW: usize = 50;

fn main() -> Result<()> {
    // All work is on this thread, and what this thread allocates is counted.
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let session = runtime.block_on(begin())?;

    let mut costs = Vec::new();
    let mut held = 0;
    for place in PLACES {
        runtime.block_on(hold(&session, place - held))?;
        let cost = counted(&runtime, &session)?;
        held = place + WINDOW;
        let [count, bytes] = [cost.count_total, cost.bytes_total].map(|total| total / WINDOW as u64);
        println!("turn {place:>6}: {count} allocations, {bytes} bytes");
        costs.push([cost.count_total, cost.bytes_total]);
    }
    let (early, late) = (costs[0], costs[costs.len() - 1]);
    for (what, early, late) in [("allocations", early[0], late[0]), ("bytes", early[1], late[1])] {
        let ratio = late as f64 / early as f64;
        assert!(ratio <= 1.1, "{what} of a late turn, by those of an early one: {ratio:.2}");
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

/// What the next turns allocate.
fn counted(runtime: &Runtime, session: &LiveSession) -> Result<AllocationInfo> {
    let mut held = Ok(());
    let cost = allocation_counter::measure(|| held = runtime.block_on(hold(session, WINDOW)));
    held.map(|()| cost)
}
