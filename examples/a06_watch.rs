//! Watching a session: a baseline, then a frame for each commit, in order and without a gap. Who is too slow gets the
//! newest state in one frame; who comes back with a cursor, in another process too, goes on where it was.

use std::{process::Command, sync::Arc};

use everturn::{
    Cursor, SystemClock, World,
    entry::Entry,
    id::ConversationId,
    kernel::{Opener, Session, SessionReader},
    storage::{NewSession, Part},
    store,
    watch::{Changed, Frame, FrameKind, Start},
};

const ROOT: ConversationId = ConversationId::ROOT;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [file, cursor] = arguments.as_slice() {
        return resume(file, cursor.parse()?).await;
    }
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("work.db").display().to_string();
    let store = store::open(&file, store::Options::new(World::system().owner())).await?;
    let session = Session::create(&Opener::new(store, World::system()).await, NewSession::default()).await?;

    // A baseline first, then what each commit changed.
    let mut watch = session.watch(Part::Conversation(ROOT), Start::Now);
    let baseline = watch.next().await?;
    assert!(matches!(baseline.kind, FrameKind::Baseline(_)));
    let mut seen = baseline.cursor;
    for n in 1..=5 {
        say(&session, n).await?;
        let frame = watch.next().await?;
        assert_eq!(
            (said(&frame), frame.cursor.seq),
            (vec![n], seen.seq.next()),
            "no frame twice, none skipped"
        );
        seen = frame.cursor;
    }

    // A second one keeps up, while the first is not read any more. A hundred frames are kept for that; one more, and all
    // become the newest state.
    let mut quick = session.watch(Part::Conversation(ROOT), Start::Now);
    assert!(matches!(quick.next().await?.kind, FrameKind::Baseline(_)));
    for n in 6..=106 {
        say(&session, n).await?;
        assert_eq!(said(&quick.next().await?), [n], "one that is slow delays no other");
    }
    let frame = loop {
        let frame = watch.next().await?;
        if matches!(frame.kind, FrameKind::Reset(_)) {
            break frame;
        }
    };
    assert_eq!(frame.cursor.seq, session.head());
    assert_eq!(frame.kind.baseline().map(|newest| newest.entries.len()), Some(106));
    println!("a slow watcher was reset to seq {}", frame.cursor.seq);

    // Another process goes on behind the fifth entry, from the cursor's text alone.
    let resumed = Command::new(std::env::current_exe()?).args([&file, &seen.to_string()]).output()?;
    print!("{}", String::from_utf8_lossy(&resumed.stdout));
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    Ok(())
}

/// What the other process does: it reads along, whoever owns the session.
async fn resume(file: &str, cursor: Cursor) -> Result<(), Box<dyn std::error::Error>> {
    let store = store::open(file, store::Options::new(World::system().owner())).await?;
    let reader = SessionReader::open(store, cursor.session).await?;
    let mut watch = reader.watch(Arc::new(SystemClock), Part::Conversation(ROOT), Start::Cursor(cursor));
    for n in 6..=106 {
        assert_eq!(said(&watch.next().await?), [n]);
    }
    println!("another process went on from {cursor} and saw 101 frames");
    Ok(())
}

async fn say(session: &Session, n: u32) -> everturn::Result<()> {
    let mut tx = session.begin().await?;
    tx.append(ROOT, Entry::new("app.said").data(n))?;
    tx.commit().await?;
    Ok(())
}

/// What a frame's entries say.
fn said(frame: &Frame) -> Vec<u32> {
    let FrameKind::Changed(Changed { entries, .. }) = &frame.kind else { return Vec::new() };
    entries.iter().filter_map(|entry| entry.data.as_ref()?.read().ok()).collect()
}
