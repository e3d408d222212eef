//! State to subscribe to: a document's value, then each change of it, numbered without a gap, until it is retired.
//! Subscribing never creates it.

use everturn::{
    Document, World,
    kernel::{Memory, Opener, Session},
    storage::NewSession,
    store::Store,
    watch::{Ended, Start},
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "example.progress")]
struct Progress {
    percent: u8,
    log: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await?;

    let mut progress = session.watch_doc::<Progress>((), Start::Now);
    assert_eq!(progress.next().await?.value, None, "there is none yet");
    assert_eq!(session.snapshot::<Progress>(()).await?, None, "and subscribing made none");

    for percent in [10, 50, 100] {
        let mut tx = session.begin().await?;
        let document = tx.doc::<Progress>(()).await?;
        document.percent = percent;
        document.log += &format!("{percent} %\n");
        tx.commit().await?;
    }
    for (number, percent) in [(1, 10), (2, 50), (3, 100)] {
        let frame = progress.next().await?;
        assert_eq!(frame.number, number, "each change, in order");
        assert_eq!(frame.value.as_ref().map(|progress| progress.percent), Some(percent));
        println!("revision {number}: {percent} %");
    }

    // Whoever comes later begins with the value, and goes on from its number.
    let mut late = session.watch_doc::<Progress>((), Start::Now);
    let frame = late.next().await?;
    assert_eq!((frame.number, frame.value.map(|progress| progress.percent)), (3, Some(100)));

    let mut tx = session.begin().await?;
    tx.retire::<Progress>(()).await?;
    tx.commit().await?;
    for watch in [&mut progress, &mut late] {
        let ended = watch.next().await.expect_err("the document was retired");
        assert!(matches!(ended, Ended::Retired));
        println!("{ended}");
    }
    Ok(())
}
