//! An environment for each conversation: `Builder::env` makes one from the agent, so that two conversations of a session work in
//! two directories with the same tools. Neither reaches the other's: by no relative path, no absolute one, and no link.

use everturn::{
    Agent, ConversationHandle, Error, Extension, Harness, Input, Models, Result, SessionSpec,
    conversation::Ownership,
    env::Env,
    json::RawJson,
    kernel::Memory,
    message::{Message, Outcome},
    model::Request,
    policy::{Layer, Policy},
    store::Store,
    tools,
};
use everturn_testkit::scripted::{Reply, Scripted};
use std::{fs, path::Path};

#[tokio::main]
async fn main() -> Result<()> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let directories = ["ada", "ben"].map(|name| place.path().join(name));
    for (directory, secret) in directories.iter().zip(["Ada's pears", "Ben's plums"]) {
        fs::create_dir(directory).expect("a directory");
        fs::write(directory.join("secret.txt"), secret).expect("a file");
    }
    std::os::unix::fs::symlink("../ben/secret.txt", directories[0].join("link.txt")).expect("a link");
    let agents = directories.each_ref().map(|directory| agent(directory));

    let harness = open().await?;
    let [ada, ben] = agents;
    let session = harness.create(SessionSpec { agent: ada, ..SessionSpec::default() }).await?;
    let mut tx = session.begin().await?;
    let other = tx.create_conversation(Ownership::Ownerless);
    *tx.doc::<Agent>(other).await? = ben;
    tx.commit().await?;
    let (ada, ben) = (session.root(), session.conversation_handle(other));

    // The same path is another file.
    assert!(read(&ada, "secret.txt").await?.1.contains("Ada's pears"));
    assert!(read(&ben, "secret.txt").await?.1.contains("Ben's plums"));
    // What one writes is not there for the other.
    let (outcome, said) = call(&ada, r#"write {"path":"new.txt","content":"mine"}"#).await?;
    assert_eq!(outcome, Outcome::Ok, "{said}");
    assert_ne!(read(&ben, "new.txt").await?.0, Outcome::Ok);
    assert!(directories[0].join("new.txt").exists() && !directories[1].join("new.txt").exists());

    // No way leads over, though policy allows to read everything.
    let absolute = directories[1].join("secret.txt").display().to_string();
    for path in ["../ben/secret.txt", &absolute, "link.txt", "./x/../../ben/secret.txt"] {
        let (outcome, said) = read(&ada, path).await?;
        assert!(outcome != Outcome::Ok && !said.contains("plums"), "{path}: {said}");
        println!("{:<12} {}", outcome.word(), said.replace(&place.path().display().to_string(), "..."));
    }
    Ok(())
}

fn agent(directory: &Path) -> Agent {
    let directory = Some(directory.display().to_string());
    Agent { model: Some("scripted".parse().expect("a model")), directory, ..Agent::default() }
}

async fn open() -> Result<Harness> {
    let rule = |text: &str| text.parse();
    let policy = Policy::new().rule(Layer::User, rule("allow read(**)")?);
    let policy =
        policy.rule(Layer::User, rule("allow read(/**)")?).rule(Layer::User, rule("allow write(**)")?);
    Harness::builder(Store::new(Memory::new()))
        .models(Models::new().provider("scripted", Scripted::answering(reply)))
        .policy(policy)
        .install(Extension::new("coding").tools(tools::coding()))?
        .env(|agent| {
            let directory = agent.directory.as_deref();
            let directory = directory.ok_or_else(|| Error::invalid("work without a directory"))?;
            Ok(Env::new(tools::Directory::open(Path::new(directory))?))
        })
        .open()
        .await
}

async fn read(whom: &ConversationHandle, path: &str) -> Result<(Outcome, String)> {
    call(whom, &format!("read {}", RawJson::of(&serde_json::json!({ "path": path }))?.get())).await
}

/// Has a tool called; gives how that ended, and what the model was told.
async fn call(whom: &ConversationHandle, what: &str) -> Result<(Outcome, String)> {
    whom.submit(Input::text(what)).await?.answer().await?;
    let entries = whom.session().entries(whom.id(), None, usize::MAX).await?;
    let result = entries.iter().flat_map(|entry| &entry.messages).find_map(|message| match &**message {
        Message::Result(result) => Some((result.outcome.clone(), result.text.clone())),
        _ => None,
    });
    result.ok_or_else(|| Error::invalid(format!("call {what}: there is no result")))
}

/// The model calls the tool that it is told to.
fn reply(request: &Request) -> Reply {
    match request.messages.last().map(|message| (&**message, message.text())) {
        Some((Message::User(_), text)) => match text.split_once(' ') {
            Some(call) => Reply::calls([call]),
            None => Reply::text("What?"),
        },
        _ => Reply::text("Done."),
    }
}
