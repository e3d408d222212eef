//! Stored bytes that changed behind the store's back.

use std::fs;

use everturn_core::{
    document::{ForkPolicy, History, ScopeKey},
    error::{Error, ErrorKind},
    id::{ConversationId, DocumentId, TaskId},
    storage::{
        ApprovalQuery, DocumentQuery, DocumentRecord, DocumentWrite, Revision, SubmissionFilter,
        SubmissionQuery, TaskQuery, Write,
    },
    usage::UsageRow,
};
use everturn_testkit::{
    block_on,
    store::scene::{IntoWrite, Scene, json},
};

use crate::files::Temporary;

fn assert_corrupt(error: &Error, table: &str) {
    let ErrorKind::Corrupt { where_, .. } = error.kind() else { panic!("{table}: {error}") };
    assert!(where_.starts_with(&format!("table {table}, ")), "{where_}");
}

#[test]
fn a_flipped_bit_in_an_entry_is_found() {
    let file = Temporary::new();
    let query = block_on(async {
        let mut scene = Scene::new(&file.open().await).await;
        let entry = scene.entry("the pump is repaired").into_write();
        scene.commit(vec![entry]).await.unwrap();
        scene.all()
    });
    // The log has been copied into the file, and would only mend it.
    fs::remove_file(file.path().with_extension("db-wal")).unwrap();
    let mut bytes = fs::read(file.path()).unwrap();
    let at = bytes.windows(8).position(|bytes| bytes == b"the pump").unwrap();
    bytes[at] ^= 1;
    fs::write(file.path(), bytes).unwrap();

    let error = block_on(async { file.open().await.entries(query).await.unwrap_err() });
    assert_corrupt(&error, "entry");
    assert!(error.to_string().contains("entry 2"), "{error}");
}

#[test]
fn every_body_is_checked_against_its_checksum() {
    let file = Temporary::new();
    block_on(async {
        let store = file.open().await;
        let mut scene = Scene::new(&store).await;
        let writes = one_of_each(&mut scene);
        scene.commit(writes).await.unwrap();

        for table in
            ["conversation", "entry", "task", "submission", "approval", "revision", "document", "usage"]
        {
            let column = if table == "document" { "record" } else { "body" };
            let change = |by: i64| {
                let db = rusqlite::Connection::open(file.path()).unwrap();
                // One more blank is still the same JSON.
                let sql = match by {
                    1 => format!("UPDATE {table} SET {column} = {column} || ' '"),
                    _ => format!("UPDATE {table} SET {column} = rtrim({column})"),
                };
                db.execute_batch(&sql).unwrap();
            };
            read_all(&scene).await.expect("nothing is wrong yet");
            change(1);
            assert_corrupt(&read_all(&scene).await.unwrap_err(), table);
            change(-1);
        }
    });
}

fn one_of_each(scene: &mut Scene) -> Vec<Write> {
    let record = DocumentRecord {
        id: DocumentId(scene.mint()),
        scope: ScopeKey::Session,
        kind: "app.notes".into(),
        history: History::Latest,
        fork: ForkPolicy::Initial,
    };
    let revision = Revision::Base { version: 1, value: json("{}") };
    let usage = UsageRow {
        conversation: ConversationId::ROOT,
        turn: TaskId(5),
        step: 1,
        attempt: 1,
        model: "chat/qwen".into(),
        end: everturn_core::usage::RequestEnd::Complete,
        usage: None,
        cost: None,
        time: everturn_core::clock::Timestamp(7),
    };
    let call = scene.task();
    vec![
        scene.entry("hello").into_write(),
        scene.approval(&call).into_write(),
        call.into_write(),
        scene.submission(None).into_write(),
        Write::Document(DocumentWrite { record, number: 1, revision }),
        Write::Usage(usage),
    ]
}

async fn read_all(scene: &Scene) -> Result<(), Error> {
    let (store, session) = (&scene.store, scene.id());
    store.conversations(session).await?;
    store.entries(scene.all()).await?;
    let tasks = TaskQuery { session, live: false, ids: None, owner: None };
    store.tasks(tasks).await?;
    let only = SubmissionFilter::Live;
    store.submissions(SubmissionQuery { session, only }).await?;
    store.approvals(ApprovalQuery::open()).await?;
    let documents = DocumentQuery { session, scope: ScopeKey::Session, kind: None, at: None };
    store.documents(documents).await?;
    store.usage(session).await?;
    Ok(())
}
