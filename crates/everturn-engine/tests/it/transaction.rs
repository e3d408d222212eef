//! Transactions: what they see of themselves, how they wait, how they are given up, and what else they can hold.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use everturn_core::{
    ErrorKind,
    conversation::Ownership,
    document::{Document, Operation, ScopeKey},
    entry::{Entry, Head},
    id::{BlobId, ConversationId},
    limits::Limits,
    memory::Memory,
    message::Message,
    storage::{Layer, Layered, Mail, MailFilter, MailKind, NewSession, Posted, Receipt, Store},
};
use everturn_engine::{NewTask, Opener, Session, SessionReader, World};
use serde::{Deserialize, Serialize};

use crate::support::{session, store};

const ROOT: ConversationId = ConversationId::ROOT;

#[derive(Document, Serialize, Deserialize, Default)]
#[document(kind = "test.notes", crate = "everturn_core")]
struct Notes {
    text: String,
}

fn note(text: &str) -> Entry {
    Entry::new("note").message(Message::user(text))
}

async fn say(session: &Session, text: &str) {
    let mut tx = session.begin().await.unwrap();
    tx.append(ROOT, note(text)).unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_transaction_reads_its_own_writes_in_look_ups_and_scans() {
    let session = session().await;
    for text in ["1", "2", "3"] {
        say(&session, text).await;
    }
    let mut tx = session.begin().await.unwrap();
    let four = tx.append(ROOT, note("4")).unwrap();
    let fork = tx.fork(ROOT, four, Ownership::Ownerless).await.unwrap();
    let five = tx.append(fork, note("5")).unwrap();
    tx.append(ROOT, note("6")).unwrap();
    let texts = |page: Vec<everturn_core::entry::EntryRecord>| {
        page.iter().map(|entry| entry.text()).collect::<Vec<_>>()
    };
    assert_eq!(texts(tx.entries(ROOT, None, 3).await.unwrap()), ["6", "4", "3"]);
    assert_eq!(texts(tx.entries(ROOT, Some(four), 9).await.unwrap()), ["3", "2", "1"]);
    assert_eq!(texts(tx.entries(fork, None, 9).await.unwrap()), ["5", "4", "3", "2", "1"]);
    assert_eq!(tx.entry(fork, five).await.unwrap().text(), "5");
    assert_eq!(*tx.entry(ROOT, five).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(tx.conversation(fork).await.unwrap().parent.unwrap().at, four);
    tx.doc::<Notes>(()).await.unwrap().text = "mine".into();
    assert_eq!(tx.snapshot::<Notes>(()).await.unwrap().unwrap().text, "mine");
    assert!(session.snapshot::<Notes>(()).await.unwrap().is_none(), "others see none of it");
    let staged = tx.entries(fork, None, 9).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(session.entries(fork, None, 9).await.unwrap(), staged);
}

#[tokio::test]
async fn a_context_of_work_does_not_wait_for_itself() {
    let session = session().await;
    let (context, other) = (session.context_of_work(), session.context_of_work());
    let tx = context.begin().await.unwrap();
    let error = context.clone().begin().await.err().unwrap();
    assert_eq!(*error.kind(), ErrorKind::Nested);
    assert!(error.to_string().contains("transaction.rs"), "it names where: {error}");
    other.check_nested("submit").unwrap();
    tx.commit().await.unwrap();
    context.begin().await.unwrap();
}

/// A store in which every call waits once before it goes through.
struct Yielding(Store);

impl Layer for Yielding {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn around<T: Send>(&self, _: &'static str, call: impl Future<Output = T> + Send) -> T {
        tokio::task::yield_now().await;
        call.await
    }
}

/// Polls a future so many times, and drops it then; whether it ended before.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(done);
        }
        // Whatever else runs has its turn.
        tokio::task::yield_now().await;
    }
    None
}

async fn change(session: Session, n: usize) -> everturn_core::Result<()> {
    let mut tx = session.begin().await?;
    let entry = tx.append(ROOT, note(&n.to_string()))?;
    tx.fork(ROOT, entry, Ownership::Ownerless).await?;
    tx.doc::<Notes>(()).await?.text = n.to_string();
    tx.commit().await?;
    Ok(())
}

#[tokio::test]
async fn a_change_that_is_given_up_at_any_wait_is_whole_or_not_there() {
    let opener = Opener::new(Store::new(Layered(Yielding(Store::new(Memory::new())))), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await.unwrap();
    let mut stored = Vec::new();
    for polls in 0.. {
        let done = polled(change(session.clone(), polls), polls).await.is_some();
        // The line is free again, whatever was given up.
        let tx = session.begin().await.unwrap();
        drop(tx);
        let entries = session.entries(ROOT, None, 1).await.unwrap();
        let newest = entries.first().map(|entry| entry.text());
        let notes = session.snapshot::<Notes>(()).await.unwrap().map(|notes| notes.text);
        assert_eq!(newest, notes, "given up after {polls} polls");
        if newest == Some(polls.to_string()) {
            stored.push(polls);
        }
        if done {
            break;
        }
    }
    assert!(!stored.is_empty(), "one went through");
    assert!(stored[0] > 2, "and some were given up before: {stored:?}");
}

#[tokio::test]
async fn a_begin_that_is_given_up_leaves_no_trace() {
    let session = session().await;
    let first = session.begin().await.unwrap();
    assert!(polled(session.begin(), 3).await.is_none());
    drop(first);
    change(session.clone(), 1).await.unwrap();
}

#[tokio::test]
async fn limits_name_the_record_and_the_number() {
    let limits = Limits { entry: 100, document: 200, commit: 300, depth: 4, name: 8 };
    let opener = Opener { limits, ..Opener::new(store(), World::system()).await };
    let session = Session::create(&opener, NewSession::default()).await.unwrap();
    let refused = |error: everturn_core::Error, says: &[&str]| {
        assert_eq!(*error.kind(), ErrorKind::TooLarge, "{error}");
        assert!(says.iter().all(|part| error.to_string().contains(part)), "{error}");
    };
    let mut tx = session.begin().await.unwrap();
    refused(tx.append(ROOT, note(&"x".repeat(101))).unwrap_err(), &["entry note", "100"]);
    refused(tx.append(ROOT, Entry::new("a long name")).unwrap_err(), &["kind", "11", "8"]);
    let deep = Entry::new("deep").data(serde_json::json!([[[[[1]]]]])).unwrap();
    refused(tx.append(ROOT, deep).unwrap_err(), &["entry deep", "5 levels", "4"]);
    let task = NewTask::new(ROOT, "work", 1).input(&"x".repeat(200)).unwrap();
    refused(tx.create_task(task).unwrap_err(), &["task work", "202"]);
    drop(tx);

    let mut tx = session.begin().await.unwrap();
    tx.doc::<Notes>(()).await.unwrap().text = "x".repeat(250);
    refused(tx.commit().await.unwrap_err(), &["document test.notes", "200"]);

    let mut tx = session.begin().await.unwrap();
    for _ in 0..4 {
        tx.append(ROOT, note(&"x".repeat(90))).unwrap();
    }
    refused(tx.commit().await.unwrap_err(), &["a commit", "360", "300"]);

    let mut tx = session.begin().await.unwrap();
    tx.set_labels([("much too long".into(), "v".into())].into());
    refused(tx.commit().await.unwrap_err(), &["label", "13", "8"]);
    assert_eq!(session.head().0, 1, "nothing of all this was stored");
}

#[tokio::test]
async fn a_document_of_an_unknown_kind_is_kept_and_read_as_it_is() {
    #[derive(Document, Serialize, Deserialize, Default)]
    #[document(kind = "their.thing", version = 3, crate = "everturn_core")]
    struct Theirs {
        n: u64,
        text: String,
    }
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    *tx.doc::<Theirs>(()).await.unwrap() = Theirs { n: u64::MAX, text: "ä".into() };
    tx.commit().await.unwrap();
    let reader = SessionReader::open(session.store().clone(), session.id()).await.unwrap();
    for found in [session.documents(ScopeKey::Session).await, reader.documents(ScopeKey::Session).await] {
        let found = found.unwrap();
        assert_eq!((found[0].record().kind.as_str(), found[0].version()), ("their.thing", 3));
        assert_eq!(found[0].value(), &serde_json::json!({ "n": u64::MAX, "text": "ä" }));
    }
}

#[tokio::test]
async fn raw_operations_follow_one_another_and_what_they_edit() {
    let session = session().await;
    let append = |text: &str| Operation::Append { path: ["text"].into_iter().collect(), text: text.into() };
    let mut tx = session.begin().await.unwrap();
    tx.doc::<Notes>(()).await.unwrap().text = "a".into();
    tx.apply::<Notes>((), vec![append("b")]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = session.begin().await.unwrap();
    tx.apply::<Notes>((), vec![append("c")]).await.unwrap();
    tx.apply::<Notes>((), vec![append("d")]).await.unwrap();
    assert_eq!(tx.snapshot::<Notes>(()).await.unwrap().unwrap().text, "abcd");
    tx.doc::<Notes>(()).await.unwrap().text.push('e');
    tx.commit().await.unwrap();
    assert_eq!(session.snapshot::<Notes>(()).await.unwrap().unwrap().text, "abcde");
    let mut tx = session.begin().await.unwrap();
    let misfit = Operation::Append { path: ["nowhere"].into_iter().collect(), text: "x".into() };
    let error = tx.apply::<Notes>((), vec![misfit]).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn title_and_labels_are_part_of_a_commit() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    tx.set_title("pumps");
    tx.set_labels([("team".into(), "north".into())].into());
    tx.commit().await.unwrap();
    let reader = SessionReader::open(session.store().clone(), session.id()).await.unwrap();
    assert_eq!(reader.row().new.title.as_deref(), Some("pumps"));
    assert_eq!(reader.row().new.labels["team"], "north");
}

#[tokio::test]
async fn a_purged_entry_keeps_its_place_and_says_nothing_more() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    let secret = tx.append(ROOT, note("the key is 1234").head(Head::Itself)).unwrap();
    tx.commit().await.unwrap();
    say(&session, "after").await;
    assert_eq!(session.context(ROOT, None).await.unwrap().messages().len(), 2);
    let mut tx = session.begin().await.unwrap();
    tx.purge(ROOT, secret).await.unwrap();
    tx.commit().await.unwrap();
    let left = session.entry(ROOT, secret).await.unwrap();
    assert_eq!((left.kind.as_str(), left.head, left.messages.len()), ("note", Some(Head::Itself), 0));
    assert!(left.data.as_ref().unwrap().get().starts_with(r#"{"purged":"sha256:"#));
    assert_eq!(session.context(ROOT, None).await.unwrap().messages().len(), 1);
}

#[tokio::test]
async fn mail_is_taken_in_the_commit_that_acts_on_it_and_only_once() {
    let session = session().await;
    let reader = SessionReader::open(session.store().clone(), session.id()).await.unwrap();
    let mail = Mail {
        session: session.id(),
        key: "fork 1".into(),
        kind: MailKind::Fork,
        conversation: Some(ROOT),
        request: None,
        actor: "local".into(),
        time: World::system().clock.now(),
        body: everturn_core::json::RawJson::empty(),
    };
    assert_eq!(reader.store().post(mail.clone()).await.unwrap(), Posted::New);
    assert_eq!(reader.store().post(mail.clone()).await.unwrap(), Posted::Waiting);
    let waiting = session.wait_for_mail().await.unwrap();
    assert_eq!(waiting.iter().map(|row| &row.mail).collect::<Vec<_>>(), [&mail]);
    let act = || async {
        let mut tx = session.begin().await.unwrap();
        let id = tx.create_conversation(Ownership::Ownerless);
        tx.take("fork 1", Receipt::Accepted { id: Some(id.0) });
        tx.commit().await.map(|_| id)
    };
    let made = act().await.unwrap();
    let again = act().await.unwrap_err();
    assert_eq!(*again.kind(), ErrorKind::Conflict, "{again}");
    assert!(session.mail().await.unwrap().is_empty());
    let receipt = Receipt::Accepted { id: Some(made.0) };
    assert_eq!(reader.store().post(mail).await.unwrap(), Posted::Ended(receipt.clone()));
    let row = reader.store().mail(session.id(), MailFilter::Key("fork 1".into())).await.unwrap();
    assert_eq!(row[0].receipt, Some(receipt));
    say(&session, "the session goes on").await;
}

#[tokio::test]
async fn mail_has_its_limits() {
    let session = session().await;
    let opener = Opener::new(session.store().clone(), World::system()).await;
    let mail = |key: &str, body: String| Mail {
        session: session.id(),
        key: key.into(),
        kind: MailKind::Signal,
        conversation: None,
        request: None,
        actor: "local".into(),
        time: World::system().clock.now(),
        body: everturn_core::json::RawJson::parse(body).unwrap(),
    };
    let big = format!("\"{}\"", "x".repeat(2 << 20));
    let deep = "[".repeat(200) + &"]".repeat(200);
    for refused in [mail(&"k".repeat(300), "{}".into()), mail("big", big), mail("deep", deep)] {
        let error = opener.post(refused).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::TooLarge, "{error}");
    }
    assert_eq!(*opener.post(mail("", "{}".into())).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(opener.post(mail("fits", "{}".into())).await.unwrap(), Posted::New);
}

#[tokio::test]
async fn a_blob_is_written_ahead_and_read_by_range() {
    let session = session().await;
    let bytes: Vec<u8> = (0..700_000u32).map(|n| (n % 251) as u8).collect();
    let mut writer = session.write_blob();
    for piece in bytes.chunks(33_333) {
        writer.write(piece).await.unwrap();
    }
    let blob = writer.finish().await.unwrap();
    let mut tx = session.begin().await.unwrap();
    tx.refer(blob);
    tx.append(ROOT, Entry::new("output").data(blob.to_string())).unwrap();
    tx.commit().await.unwrap();
    for range in [0..700_000, 262_140..262_150, 699_999..800_000, 700_000..700_001] {
        let part = session.blob(blob, range.clone()).await.unwrap();
        let (from, until) = (range.start as usize, bytes.len().min(range.end as usize));
        assert_eq!((part.size, part.bytes.as_slice()), (700_000, &bytes[from..until]));
    }
    let nothing = BlobId([0; 32]);
    assert_eq!(*session.blob(nothing, 0..1).await.unwrap_err().kind(), ErrorKind::NotFound);
    let mut tx = session.begin().await.unwrap();
    tx.refer(nothing);
    assert_eq!(*tx.commit().await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_value_that_is_no_json_is_refused_before_storage() {
    #[derive(Document, Serialize, Deserialize, Default)]
    #[document(kind = "test.speed", crate = "everturn_core")]
    struct Speed {
        knots: f64,
    }
    let session = session().await;
    let head = session.head();
    let mut tx = session.begin().await.unwrap();
    tx.doc::<Speed>(()).await.unwrap().knots = f64::INFINITY;
    let error = tx.commit().await.unwrap_err();
    assert_eq!((error.kind(), session.head()), (&ErrorKind::Invalid, head));
    assert!(error.to_string().contains("test.speed"), "{error}");
}

#[tokio::test]
async fn a_document_is_retired_and_begun_anew_in_one_transaction() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    tx.doc::<Notes>(()).await.unwrap().text = "first".into();
    tx.commit().await.unwrap();
    let mut tx = session.begin().await.unwrap();
    tx.retire::<Notes>(()).await.unwrap();
    assert!(tx.snapshot::<Notes>(()).await.unwrap().is_none());
    assert_eq!(*tx.retire::<Notes>(()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let fresh = tx.doc::<Notes>(()).await.unwrap();
    assert_eq!(fresh.text, "");
    fresh.text = "second".into();
    tx.commit().await.unwrap();
    let found = session.documents(ScopeKey::Session).await.unwrap();
    assert_eq!((found.len(), found[0].number(), &found[0].value()["text"]), (1, 1, &"second".into()));
    assert_eq!(session.snapshot::<Notes>(()).await.unwrap().unwrap().text, "second");
}

#[tokio::test]
async fn labels_of_everturn_s_own_are_refused() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    tx.set_labels([("et.restoring".into(), String::new())].into());
    assert_eq!(*tx.commit().await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_transaction_sees_what_it_has_purged() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    let entry = tx.append(ROOT, note("secret")).unwrap();
    tx.commit().await.unwrap();
    let mut tx = session.begin().await.unwrap();
    tx.purge(ROOT, entry).await.unwrap();
    let left = tx.entry(ROOT, entry).await.unwrap();
    assert!(left.is_purged());
    tx.purge(ROOT, entry).await.unwrap();
    assert_eq!(
        tx.entries(ROOT, None, 1).await.unwrap(),
        std::slice::from_ref(&left),
        "again changes nothing"
    );
    tx.commit().await.unwrap();
    assert_eq!(session.entry(ROOT, entry).await.unwrap(), left);
}

// The account of a turn was purged, and from then on the session did not agree with itself.
// Guards: what holds nothing that was said is not purged.
#[tokio::test]
async fn the_account_of_a_turn_is_not_purged() {
    let session = session().await;
    let mut tx = session.begin().await.unwrap();
    let account = tx.append(ROOT, Entry::new("et.turn")).unwrap();
    tx.commit().await.unwrap();
    let mut tx = session.begin().await.unwrap();
    assert_eq!(*tx.purge(ROOT, account).await.unwrap_err().kind(), ErrorKind::Invalid);
}
