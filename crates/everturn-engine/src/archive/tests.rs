//! Archives of older forms.

use everturn_core::{
    entry::Entry,
    id::ConversationId,
    memory::Memory,
    storage::{NewSession, Store},
};

use super::line::Tally;
use crate::{Opener, Session, World};

#[tokio::test]
async fn an_archive_of_form_1_is_restored() {
    let opener = Opener::new(Store::new(Memory::new()), World::system()).await;
    let session = Session::create(&opener, NewSession::default()).await.expect("a session");
    let mut tx = session.begin().await.expect("it begins");
    tx.append(ConversationId::ROOT, Entry::new("app.note")).expect("it is small");
    tx.commit().await.expect("it is stored");
    let mut archive = Vec::new();
    session.archive(&mut archive).await.expect("there is room");
    session.delete().await.expect("it is ours");

    // What has no approvals is the same but for its number.
    let text = String::from_utf8(archive).expect("it is text");
    let older = text.replacen(r#""form":2"#, r#""form":1"#, 1);
    let (lines, _) = older.trim_end().rsplit_once('\n').expect("it has lines");
    let mut tally = Tally::default();
    lines.lines().for_each(|line| tally.add(line));
    let end = tally.end().to_text().expect("it is JSON");
    assert_ne!(older, text);
    let restored = Session::restore(&opener, format!("{lines}\n{end}\n").as_bytes()).await;
    let restored = restored.expect("it is whole");
    let found = restored.entries(ConversationId::ROOT, None, 9).await.expect("they can be read");
    assert_eq!(found.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(), ["app.note"]);
}
