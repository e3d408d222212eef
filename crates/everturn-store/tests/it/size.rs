//! What a conversation takes on the disk.

use std::sync::Arc;

use everturn_core::{
    clock::Timestamp,
    document::{ForkPolicy, History, ScopeKey},
    entry::{Entry, EntryRecord},
    id::{ConversationId, DocumentId, EntryId, TaskId},
    json::RawJson,
    message::{Assistant, Message, Origin, Part, Stop, Usage},
    storage::{DocumentRecord, DocumentWrite, Durability, Revision, Write},
    submission::{End, Place, SubmissionState},
    task::TaskOutcome,
    usage::UsageRow,
};
use everturn_testkit::store::scene::{IntoWrite, Scene, json};

use crate::files::Temporary;

const TURNS: u64 = 1_000;
const QUESTION_BYTES: usize = 256;
const ANSWER_BYTES: usize = 1_024;

fn text(turn: u64, bytes: usize) -> String {
    let words = format!("turn {turn} says that the pump was repaired with a new seal; ");
    words.chars().cycle().take(bytes).collect()
}

fn usage() -> Usage {
    Usage { input: Some(12_345), output: Some(256), ..Usage::default() }
}

fn answer(turn: u64) -> Message {
    Message::Assistant(Assistant {
        parts: vec![Part::Text(text(turn, ANSWER_BYTES))],
        origin: Some(Origin {
            provider: "chat".into(),
            model: "qwen3-coder".into(),
            response: Some(format!("chatcmpl-{turn:024}")),
        }),
        stop: Some(Stop::Answer),
        usage: Some(usage()),
        ..Assistant::default()
    })
}

fn partial(id: u64, number: u64, revision: Revision) -> Write {
    let record = DocumentRecord {
        id: DocumentId(id),
        scope: ScopeKey::Conversation(ConversationId::ROOT),
        kind: "et.partial".into(),
        history: History::Latest,
        fork: ForkPolicy::Initial,
    };
    Write::Document(DocumentWrite { record, number, revision })
}

fn by_task(mut entry: EntryRecord, task: TaskId, said: Entry) -> Write {
    entry.task = Some(task);
    entry.entry = said;
    entry.into_write()
}

/// A turn as the engine stores it: asked, streamed, answered.
async fn run_turn(scene: &mut Scene, turn: u64) {
    let (mut task, mut submission) = (scene.task(), scene.submission(Some(&format!("{turn:036}"))));
    task.kind = "et.turn".into();
    task.input = json(&format!(r#"{{"submissions":[{}]}}"#, submission.id));
    let (question, partial_id) = (scene.entry(&text(turn, QUESTION_BYTES)), scene.mint());
    let place = Place { turn: task.id, entry: question.id, step: 1 };
    submission.state = SubmissionState::Placed(place);
    let base = Revision::Base { version: 1, value: json(r#"{"text":""}"#) };
    let writes = vec![
        question.into_write(),
        task.clone().into_write(),
        submission.clone().into_write(),
        partial(partial_id, 1, base),
    ];
    scene.commit(writes).await.unwrap();
    stream(scene, turn, partial_id).await;

    task.end(TaskOutcome::Completed { output: RawJson::empty() }, Timestamp(1_790_000_000_000));
    submission.state = SubmissionState::Settled { end: End::Answered, place: Some(place) };
    let said = Entry::new("et.assistant").message(answer(turn));
    let (reply, end) = (scene.entry(""), scene.entry(""));
    let ended = json(&format!(
        r#"{{"turn":{},"end":"answered","answer":{},"submissions":[{}],"steps":1,"usage":{{"requests":1,"usage":{{"input":12345,"output":256}}}}}}"#,
        task.id,
        EntryId(reply.id.0),
        submission.id
    ));
    let writes = vec![
        by_task(reply, task.id, said),
        by_task(end, task.id, Entry::new("et.turn").data(ended).unwrap()),
        task.clone().into_write(),
        submission.into_write(),
        Write::Usage(UsageRow {
            conversation: ConversationId::ROOT,
            turn: task.id,
            step: 1,
            attempt: 1,
            model: "chat/qwen3-coder".into(),
            end: everturn_core::usage::RequestEnd::Complete,
            usage: Some(usage()),
            cost: Some(1_204_500),
            time: Timestamp(1_790_000_000_000),
        }),
        partial(partial_id, 6, Revision::Retired),
    ];
    scene.commit(writes).await.unwrap();
}

async fn stream(scene: &mut Scene, turn: u64, partial_id: u64) {
    let words: Arc<str> = text(turn, ANSWER_BYTES).into();
    for number in 0..4 {
        let piece = &words[number * 256..(number + 1) * 256];
        let operations = json(&format!(r#"[{{"append":{{"path":["text"],"text":"{piece}"}}}}]"#));
        let mut batch =
            scene.batch(vec![partial(partial_id, number as u64 + 2, Revision::Delta { operations })]);
        batch.durability = Durability::Relaxed;
        scene.send(batch).await.unwrap();
    }
}

#[test]
fn a_thousand_turns_take_at_most_three_times_their_text() {
    let file = Temporary::new();
    everturn_testkit::block_on(async {
        let mut scene = Scene::new(&file.open().await).await;
        for turn in 0..TURNS {
            run_turn(&mut scene, turn).await;
        }
    });
    let text = TURNS * (QUESTION_BYTES + ANSWER_BYTES) as u64;
    let stored = std::fs::metadata(file.path()).unwrap().len();
    let log = std::fs::metadata(file.path().with_extension("db-wal")).unwrap().len();
    println!("text {text}, stored {stored} ({:.2}), log {log}", stored as f64 / text as f64);
    assert!(stored <= 3 * text, "{stored} bytes for {text} bytes of text");
}
