//! A process that owns a session of a SQLite file, for those who try what another process sees of it:
//!
//! * `owner commits FILE NAME [count=N] [term=MS] [before=N|after=N]`: commits notes, `count` of them or for ever; stops
//!   itself before or after its n-th commit, until it is continued;
//! * `owner takes FILE NAME [hold=1]`: takes mail, and with `hold` dies with the first in its hands.
//!
//! It says what it does, line by line, and ends with its standard input.

use std::{collections::HashMap, env, io, process, thread, time::Duration};

use everturn::{
    Result, World,
    entry::Entry,
    id::{ConversationId, Epoch, Seq},
    kernel::{Opener, Session},
    message::Message,
    storage::{Claim, Layer, Layered, Lease, NewSession, Part, Receipt},
    store::{self, Options, Store},
    watch::Start,
};
use everturn_testkit::watched::{Moment, Watched};
use rustix::process::{Signal, getpid, kill_process};

const ROOT: ConversationId = ConversationId::ROOT;

/// What was asked for, as `name=number`.
type Wishes = HashMap<String, u64>;

// On the main thread, for that is where a signal to the process arrives: before the call that sends it returns.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    thread::spawn(|| {
        // Whoever started this process holds the other end: when it goes, so does this.
        let _gone = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [role, file, name, wishes @ ..] = arguments.as_slice() else {
        panic!("usage: owner commits|takes FILE NAME [WISH=NUMBER]");
    };
    let wishes = wishes.iter().map(|wish| {
        let (name, number) = wish.split_once('=').expect("a wish is NAME=NUMBER");
        (name.to_owned(), number.parse().expect("a number"))
    });
    if let Err(error) = own(role, file, name, wishes.collect()).await {
        println!("failed {error}");
    }
}

async fn own(role: &str, file: &str, name: &str, wishes: Wishes) -> Result<()> {
    let store = store::open(&format!("sqlite:{file}"), Options::new(World::system().owner())).await?;
    let term = Duration::from_millis(wishes.get("term").copied().unwrap_or(30_000));
    let opener = Opener { term, ..Opener::new(stopping(store, &wishes), World::system()).await };
    let new = NewSession { request: Some(name.into()), ..NewSession::default() };
    let session = Session::create(&opener, new).await?;
    println!("opened {}", session.id());
    match role {
        "takes" => takes(&session, &wishes).await,
        _ => commits(&session, &wishes).await,
    }
}

/// A store at which the process stops itself, where it is to.
fn stopping(store: Store, wishes: &Wishes) -> Store {
    if !["before", "after"].iter().any(|wish| wishes.contains_key(*wish)) {
        return store;
    }
    let wishes = wishes.clone();
    Store::new(Layered(Watched::new(Store::new(Layered(Unrenewed(store))), move |moment, number| {
        let wish = if moment == Moment::Before { "before" } else { "after" };
        if wishes.get(wish) == Some(&number) {
            println!("stopping");
            kill_process(getpid(), Signal::STOP).expect("a process may stop itself");
        }
        Box::pin(async {})
    })))
}

/// A store whose leases are not renewed: a process that stops in the middle of a renewal keeps the file from everyone.
struct Unrenewed(Store);

impl Layer for Unrenewed {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn renew(&self, _: Claim, _: Epoch) -> Result<Lease> {
        std::future::pending().await
    }
}

async fn note(session: &Session, text: &str) -> Result<Seq> {
    let mut tx = session.begin().await?;
    tx.append(ROOT, Entry::new("note").message(Message::user(text)))?;
    tx.commit().await
}

async fn commits(session: &Session, wishes: &Wishes) -> Result<()> {
    let mut watch = session.watch(Part::Everything, Start::Now);
    let until = wishes.get("count").copied().unwrap_or(u64::MAX);
    for _ in 0..until {
        match note(session, &format!("seq {}", session.head().next())).await {
            Ok(seq) => println!("committed {seq}"),
            Err(error) => {
                println!("refused {:?}", error.kind());
                break;
            }
        }
    }
    if session.begin().await.is_err() {
        loop {
            if let Err(ended) = watch.next().await {
                println!("watch ended {ended:?}");
                return Ok(());
            }
        }
    }
    session.close().await
}

async fn takes(session: &Session, wishes: &Wishes) -> Result<()> {
    loop {
        for row in session.wait_for_mail().await? {
            let key = row.mail.key;
            println!("mail {key}");
            if wishes.contains_key("hold") {
                std::future::pending::<()>().await;
            }
            let mut tx = session.begin().await?;
            let got = tx.append(ROOT, Entry::new("note").message(Message::user(format!("got {key}"))))?;
            tx.take(&key, Receipt::Accepted { id: Some(got.0) });
            tx.commit().await?;
            println!("took {key}");
        }
    }
}
