//! From transcript to request: whatever stands in a conversation, what a model is sent is legal, and nothing that was
//! stored is ever lost.

use everturn::{
    Result, World,
    context::Context,
    conversation::Ownership,
    entry::{Edit, Entry, Head},
    id::ConversationId,
    json::RawJson,
    kernel::{Memory, Opener, Session},
    message::{Assistant, Call, CallId, CallResult, End, Message, Outcome, Part},
    storage::NewSession,
    store::Store,
};

#[tokio::main]
async fn main() -> Result<()> {
    let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await?;
    let chat = ConversationId::ROOT;

    let mut tx = session.begin().await?;
    let mut say = |message| tx.append(chat, Entry::new("app.said").message(message));
    let question = say(Message::user("wether?"))?;
    let aborted = say(assistant([Part::Text("The wea".into())], End::Aborted))?;
    let calls = say(assistant([call("a"), call("b")], End::Complete))?;
    let result_b = say(result("b", "windy"))?;
    let system = say(Message::system("One word."))?;
    let result_a = say(result("a", "sunny"))?;
    let answer = say(Message::assistant("Sunny."))?;
    let mend = Edit::replace(question, [Message::user("weather?")]);
    let edit = tx.append(chat, Entry::new("app.edit").edit(mend))?;
    let note = tx.append(chat, Entry::new("app.note").data("seen by people only"))?;
    tx.commit().await?;

    // The edited question, no aborted answer, results in call order ahead of the system change, and no note.
    let request = sent(&session, chat).await?;
    let talk = ["weather?", "", "sunny", "windy", "One word.", "Sunny."];
    assert_eq!(request.texts(), talk);
    println!("the request: {talk:?}");

    // A fork cut at the calls has no results: made-up ones say so, and the request stays legal.
    let mut tx = session.begin().await?;
    let fork = tx.fork(chat, calls, Ownership::Ownerless).await?;
    tx.commit().await?;
    let request = sent(&session, fork).await?;
    let messages = request.messages();
    assert_eq!(messages.len(), 4, "a question, its calls, and two results");
    for (message, call) in messages[2..].iter().zip(["a", "b"]) {
        let Message::Result(made_up) = &**message else {
            panic!("a result for {call}, and not {message:?}");
        };
        assert_eq!((&*made_up.call.0, &made_up.outcome), (call, &Outcome::MissingResult));
        assert!(made_up.outcome.is_error());
    }
    println!("a fork at the calls: two results made up, both errors");

    // A summary with a head on itself stands for all that came before it.
    let mut tx = session.begin().await?;
    let summary = Entry::new("app.summary").message(Message::user("We talked of weather."));
    let summary = tx.append(chat, summary.head(Head::Itself))?;
    tx.commit().await?;
    assert_eq!(sent(&session, chat).await?.texts(), ["We talked of weather."]);

    // Paging still shows every stored entry, newest first, whatever the requests leave out.
    let stored = [summary, note, edit, answer, result_a, system, result_b, calls, aborted, question];
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = session.entries(chat, before, 4).await?;
        let Some(oldest) = page.last() else { break };
        before = Some(oldest.id);
        paged.extend(page.iter().map(|entry| entry.id));
    }
    assert_eq!(paged, stored);
    println!("a summary replaced them all; {} entries are still there", paged.len());
    Ok(())
}

/// What a model would be sent, proven to be legal.
async fn sent(session: &Session, chat: ConversationId) -> Result<Context> {
    let mut context = session.context(chat, None).await?;
    context.check()?;
    Ok(context)
}

fn assistant(parts: impl Into<Vec<Part>>, end: End) -> Message {
    Message::Assistant(Assistant { parts: parts.into(), end, ..Assistant::default() })
}

fn call(id: &str) -> Part {
    Part::Call(Call {
        id: CallId(id.into()),
        provider: None,
        name: "look".into(),
        arguments: RawJson::empty(),
    })
}

fn result(call: &str, text: &str) -> Message {
    Message::Result(CallResult::new(CallId(call.into()), Outcome::Ok, text))
}
