//! One conversation, two tasks: a handle is cheap to clone, inputs are answered one after the other, and what the
//! turns cost adds up. Closing ends them all.

use everturn::{
    Answer, ConversationHandle, ErrorKind, Harness, Input, Models, Result, SessionSpec, kernel::Memory,
    store::Store, usage::Total,
};
use everturn_testkit::scripted::{Reply, Scripted};

#[tokio::main]
async fn main() -> Result<()> {
    let script = [Reply::text("one").usage(10, 1), Reply::text("two").usage(14, 1)];
    let models = Models::new().provider("scripted", Scripted::new(script));
    let harness = Harness::builder(Store::new(Memory::new())).models(models).open().await?;
    let session = harness.create(SessionSpec::model("scripted".parse()?)).await?;
    let chat = session.root();
    assert_eq!(session.usage_of(chat.id()).await?, Total::default());

    // Two tasks, each with its own clone. Whoever comes second waits for the turn before.
    let (first, second) =
        tokio::join!(tokio::spawn(ask(chat.clone(), "Count.")), tokio::spawn(ask(chat.clone(), "Go on.")),);
    let mut answers = [first.expect("a task that ends")?, second.expect("a task that ends")?];
    answers.sort_by_key(|(answer, _)| answer.turn);
    let [(one, after_one), (two, after_two)] = answers;
    assert_eq!((one.text.as_str(), two.text.as_str()), ("one", "two"));
    assert_eq!(session.history().await?.len(), 2, "turns");
    assert!(session.context(chat.id(), None).await?.messages().len() >= 4);

    // The totals only grow, and end at the sum.
    let total = session.usage_of(chat.id()).await?;
    assert!(after_one.usage.input >= Some(10) && after_two == total);
    assert_eq!((total.requests, total.usage.input, total.usage.output), (2, Some(24), Some(2)));
    println!("two tasks, two answers: {} and {}", one.text, two.text);
    println!("tokens: {:?} in, {:?} out", total.usage.input.unwrap_or(0), total.usage.output.unwrap_or(0));

    // Closing through one handle closes all of them; closing again changes nothing.
    let other = chat.clone();
    session.close().await?;
    session.close().await?;
    let refused = other.submit(Input::text("Still there?")).await.expect_err("it is closed");
    assert!(matches!(refused.kind(), ErrorKind::Closed { .. }));

    // The session itself is as it was: whoever opens it next goes on with it.
    let reopened = harness.open_session(session.id()).await?;
    assert_eq!(reopened.usage_of(other.id()).await?, total);
    println!("closed, and free to be opened again");
    Ok(())
}

/// Asks, waits, and looks at what the conversation has cost by then.
async fn ask(chat: ConversationHandle, what: &str) -> Result<(Answer, Total)> {
    let answer = chat.submit(Input::text(what)).await?.answer().await?;
    let total = chat.session().usage_of(chat.id()).await?;
    Ok((answer, total))
}
