//! Figure 7: what it costs to have a request's messages ready.

use everturn::{id::ConversationId, message::Message};

use crate::{
    measure::{Stopwatch, cpu_us_of, median, ratios},
    scene::{Scene, answer, live, memory, on, open, runtime, text, turns},
    table::{Row, Table},
};

/// The conversation: as many messages, each of so many bytes of text.
const MESSAGES: usize = 200;
const BYTES: usize = 4_300;
/// How often each is measured, by turns, and how many turns a window has.
const WINDOWS: usize = 20;
const WINDOW: usize = 10;

pub(crate) fn figure(table: &mut Table) {
    let scene = Scene::new();
    let runtime = runtime();
    let file = scene.file();
    let [warm, stored] = on(&runtime, async move {
        let mut live = [live(&memory(), answer()).await, live(&open(&file).await, answer()).await];
        for live in &mut live {
            let mut tx = live.begin().await.expect("the session is ours");
            for number in 0..MESSAGES {
                let message = Message::user(text(number * 97, BYTES));
                let entry = everturn::entry::Entry::new("bench.note").message(message);
                tx.append(ConversationId::ROOT, entry).expect("a small entry");
            }
            tx.commit().await.expect("a commit");
        }
        // From here on the context is in memory.
        turns(&live[0], 1).await;
        live
    });
    let context = on(&runtime, {
        let stored = stored.clone();
        async move { stored.context(ConversationId::ROOT, None).await.expect("a context") }
    });
    let bodies: Vec<String> =
        context.messages().iter().map(|message| serde_json::to_string(&**message).expect("JSON")).collect();
    let (mut turn_us, mut read_us, mut coded_us) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..WINDOWS {
        let live = warm.clone();
        turn_us.push(cpu_us_of(|| on(&runtime, async move { turns(&live, WINDOW).await })).0 / WINDOW as f64);
        let stored = stored.clone();
        read_us.push(on(&runtime, async move {
            let watch = Stopwatch::start();
            let context = stored.context(ConversationId::ROOT, None).await.expect("a context");
            assert_eq!(context.messages().len(), MESSAGES);
            watch.us()
        }));
        coded_us.push(cpu_us_of(|| code(&bodies)).0);
    }
    let ratio = median(&ratios(&turn_us, &coded_us));
    let bytes: usize = bodies.iter().map(String::len).sum();
    table.row(Row {
        figure: "7",
        what: format!(
            "a whole turn behind {MESSAGES} messages, its request assembled, ÷ decode + encode of them: CPU"
        ),
        measured: format!("{ratio:.3} ({:.0} us)", median(&turn_us)),
        target: "≤ 0.1",
        raw: format!("{:.0} us: serde_json, {} KB of messages", median(&coded_us), bytes >> 10),
        is_reached: ratio <= 0.1,
    });
    table.note(format!(
        "7: assembly alone cannot be reached from outside, so all of a turn on the memory store stands for it: two \
         commits, the request, the answer. The first request behind an opening reads from SQLite and decodes: {:.0} us \
         of wall time, {:.2} of decode + encode. Medians of {WINDOWS} windows of {WINDOW} turns.",
        median(&read_us),
        median(&ratios(&read_us, &coded_us))
    ));
}

/// Decodes and encodes messages as a harness does that keeps them as text.
fn code(bodies: &[String]) {
    for body in bodies {
        let message: Message = serde_json::from_str(body).expect("a message");
        let again = serde_json::to_string(&message).expect("JSON");
        assert_eq!(again.len(), body.len());
    }
}
