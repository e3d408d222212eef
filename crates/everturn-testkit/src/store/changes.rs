//! What commits changed, read from their rows.

use everturn_core::{
    approval::Decision,
    clock::Timestamp,
    document::History,
    entry::EntryRecord,
    error::ErrorKind,
    id::{ConversationId, Epoch, Seq},
    storage::{Change, ChangeQuery, Changes, DocumentState, EpochStart, Store, Write},
    task::TaskRecord,
};
use futures_util::future::join;

use super::{
    notes::Notes,
    scene::{IntoWrite, Scene, session_id},
};
use crate::yield_now;

fn after(scene: &Scene, seq: u64) -> ChangeQuery {
    ChangeQuery { session: scene.id(), epoch: Epoch(1), after: Seq(seq), limit: 100 }
}

async fn changes(scene: &Scene, seq: u64) -> Changes {
    scene.store.changes(after(scene, seq)).await.unwrap()
}

/// The answer when the commits are all there is to tell.
fn told(scene: &Scene, commits: Vec<Change>) -> Changes {
    let Seq(head) = scene.lease.head;
    Changes {
        head: Seq(head),
        epoch: scene.lease.epoch,
        floor: Seq(0),
        epochs: vec![],
        until: Seq(head),
        before: vec![],
        commits,
    }
}

fn of_entry(entry: &EntryRecord) -> Change {
    Change { entries: vec![entry.clone()], ..Change::of(entry.seq) }
}

fn of_document(seq: u64, notes: &Notes, write: &Write) -> Change {
    Change { documents: vec![notes.told(write)], ..Change::of(Seq(seq)) }
}

/// Commits each write by itself.
async fn each(scene: &mut Scene, writes: &[Write]) {
    for write in writes {
        scene.commit(vec![write.clone()]).await.unwrap();
    }
}

/// A commit's records come together, in the order of their ids.
pub async fn what_a_commit_changed_is_read_from_its_rows(store: &Store) {
    let mut scene = Scene::new(store).await;
    let root = scene.root().await;
    let (first, second) = (scene.entry("a"), scene.entry("b"));
    let fork = root.fork(ConversationId(scene.mint()), first.id, None, Timestamp(7));
    let inner = scene.entry_in(fork.id, "c");
    let (task, submission) = (scene.task(), scene.submission(Some("r-1")));
    let approval = scene.approval(&task);
    let notes = Notes::new(&mut scene, History::Latest);
    let base = notes.base("0");
    let records = [first.clone(), second.clone(), inner.clone()].map(IntoWrite::into_write);
    let others = [
        fork.clone().into_write(),
        task.clone().into_write(),
        submission.clone().into_write(),
        approval.clone().into_write(),
        base.clone(),
    ];
    scene.commit(records.into_iter().chain(others).collect()).await.unwrap();
    let creation = Change { conversations: vec![root], ..Change::of(Seq(1)) };
    let commit = Change {
        seq: Seq(2),
        conversations: vec![fork],
        entries: vec![first, second, inner],
        tasks: vec![task],
        submissions: vec![submission],
        approvals: vec![approval],
        documents: vec![notes.told(&base)],
    };
    assert_eq!(changes(&scene, 0).await, told(&scene, vec![creation, commit.clone()]));
    assert_eq!(changes(&scene, 1).await, told(&scene, vec![commit]));
}

/// Whoever is up to date is told so.
pub async fn nothing_new_is_empty(store: &Store) {
    let mut scene = Scene::new(store).await;
    scene.say(ConversationId::ROOT, &["a", "b"]).await;
    assert_eq!(changes(&scene, 3).await, told(&scene, vec![]));
}

/// A commit of which no row is left to see is passed over.
pub async fn a_commit_without_rows_is_passed_over(store: &Store) {
    let mut scene = Scene::new(store).await;
    let entry = scene.entry("a");
    each(&mut scene, &[entry.clone().into_write(), Write::Title("a title".into())]).await;
    scene.commit(vec![]).await.unwrap();
    assert_eq!(changes(&scene, 1).await, told(&scene, vec![of_entry(&entry)]));
    assert_eq!(changes(&scene, 2).await, told(&scene, vec![]));
}

/// Entries are told always; work as it is now, in the commit that moved it last.
pub async fn work_is_told_where_it_changed_last(store: &Store) {
    let mut scene = Scene::new(store).await;
    let (asked, answered) = (scene.entry("a"), scene.entry("b"));
    let (task, submission) = (scene.task(), scene.submission(None));
    let still = scene.task();
    let begun = [task.clone().into_write(), submission.clone().into_write(), still.clone().into_write()];
    let writes = std::iter::once(asked.clone().into_write()).chain(begun).collect();
    scene.commit(writes).await.unwrap();
    let before = Change {
        tasks: vec![task.clone(), still.clone()],
        submissions: vec![submission.clone()],
        ..of_entry(&asked)
    };
    assert_eq!(changes(&scene, 1).await, told(&scene, vec![before]));

    let (task, submission) = (Scene::ended(task), Scene::settled(submission));
    let answered = EntryRecord { seq: Seq(3), ..answered };
    let ends = [answered.clone().into_write(), task.clone().into_write(), submission.clone().into_write()];
    scene.commit(ends.into()).await.unwrap();
    let begun = Change { tasks: vec![still], ..of_entry(&asked) };
    let ended = Change { tasks: vec![task], submissions: vec![submission], ..of_entry(&answered) };
    assert_eq!(changes(&scene, 1).await, told(&scene, vec![begun, ended.clone()]));
    assert_eq!(changes(&scene, 2).await, told(&scene, vec![ended]));
}

/// Questions are told as they are now, in the commit that decided them or made them void.
pub async fn a_question_is_told_where_it_changed_last(store: &Store) {
    let mut scene = Scene::new(store).await;
    let call = scene.task();
    let [decided, open] = [scene.approval(&call), scene.approval(&call)];
    let asked = [call.clone().into_write(), decided.clone().into_write(), open.clone().into_write()];
    scene.commit(asked.into()).await.unwrap();
    let approvals = vec![decided.clone(), open.clone()];
    let asked = Change { tasks: vec![call], approvals, ..Change::of(Seq(2)) };
    assert_eq!(changes(&scene, 1).await, told(&scene, vec![asked.clone()]));

    let decided = Scene::decided(decided, Decision::Stop);
    scene.commit(vec![decided.clone().into_write()]).await.unwrap();
    let asked = Change { approvals: vec![open], ..asked };
    let answered = Change { approvals: vec![decided], ..Change::of(Seq(3)) };
    assert_eq!(changes(&scene, 1).await, told(&scene, vec![asked, answered.clone()]));
    assert_eq!(changes(&scene, 2).await, told(&scene, vec![answered]));
}

/// Of a document whose old revisions are gone the oldest base that is left comes first, whatever the place.
pub async fn a_latest_document_begins_with_the_base_that_is_left(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Latest);
    let writes = [notes.base("0"), notes.delta("[1]"), notes.base("2"), notes.delta("[3]")];
    each(&mut scene, &writes).await;
    let kept = vec![of_document(4, &notes, &writes[2]), of_document(5, &notes, &writes[3])];
    for place in [1, 2, 3] {
        assert_eq!(changes(&scene, place).await, told(&scene, kept.clone()), "from {place}");
    }
    let before = vec![notes.state("2", &[], [4, 3])];
    let rest = Changes { before, ..told(&scene, kept[1..].to_vec()) };
    assert_eq!(changes(&scene, 4).await, rest);
}

/// Deltas come with what the document was at the reader's place; a base needs nothing.
pub async fn deltas_come_with_what_was_before(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Rewindable);
    let writes =
        [notes.base("0"), notes.delta("[1]"), notes.delta("[2]"), notes.base("3"), notes.delta("[4]")];
    each(&mut scene, &writes).await;
    let all: Vec<_> = (2..).zip(&writes).map(|(seq, write)| of_document(seq, &notes, write)).collect();
    for (place, before) in [
        (1, vec![]),
        (2, vec![notes.state("0", &[], [2, 1])]),
        (3, vec![notes.state("0", &["[1]"], [3, 2])]),
        (4, vec![]),
        (5, vec![notes.state("3", &[], [5, 4])]),
        (6, vec![]),
    ] {
        let rest = all[place - 1..].to_vec();
        let expected = Changes { before, ..told(&scene, rest) };
        assert_eq!(changes(&scene, place as u64).await, expected, "from {place}");
    }
}

/// What a document was before is told for those only that the answer tells a delta of.
pub async fn what_was_before_is_told_of_no_other_document(store: &Store) {
    let mut scene = Scene::new(store).await;
    let [early, late] = ["app.early", "app.late"].map(|kind| {
        let mut notes = Notes::new(&mut scene, History::Rewindable);
        notes.record.kind = kind.into();
        notes
    });
    scene.commit(vec![early.base("0"), late.base("0")]).await.unwrap();
    let deltas = [early.delta("[1]"), late.delta("[1]")];
    each(&mut scene, &deltas).await;
    let query = ChangeQuery { limit: 1, ..after(&scene, 2) };
    let expected = Changes {
        until: Seq(3),
        before: vec![early.state("0", &[], [2, 1])],
        ..told(&scene, vec![of_document(3, &early, &deltas[0])])
    };
    assert_eq!(store.changes(query).await.unwrap(), expected);
}

/// A document's end is a revision like others, and of a `latest` document the only one left.
pub async fn the_end_of_a_document_is_told(store: &Store) {
    let mut scene = Scene::new(store).await;
    let [latest, rewindable] =
        [History::Latest, History::Rewindable].map(|history| Notes::new(&mut scene, history));
    let (base, delta, end) = (latest.base("0"), latest.delta("[1]"), latest.retired());
    each(&mut scene, &[base, delta, end.clone()]).await;
    assert_eq!(changes(&scene, 1).await, told(&scene, vec![of_document(4, &latest, &end)]));
    assert_eq!(changes(&scene, 3).await, told(&scene, vec![of_document(4, &latest, &end)]));
    let writes = [rewindable.base("0"), rewindable.retired()];
    each(&mut scene, &writes).await;
    let both = [of_document(5, &rewindable, &writes[0]), of_document(6, &rewindable, &writes[1])];
    assert_eq!(changes(&scene, 4).await, told(&scene, both.to_vec()));
    assert_eq!(changes(&scene, 5).await, told(&scene, both[1..].to_vec()));
}

/// Several revisions of one commit keep their order and their numbers.
pub async fn revisions_of_one_commit_are_told_in_order(store: &Store) {
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Rewindable);
    let writes = [notes.base("0"), notes.delta("[1]"), notes.delta("[2]")];
    scene.commit(writes.to_vec()).await.unwrap();
    let documents: Vec<_> = writes.iter().map(|write| notes.told(write)).collect();
    assert_eq!(documents.iter().map(|told| told.number).collect::<Vec<_>>(), [1, 2, 3]);
    let change = Change { documents, ..Change::of(Seq(2)) };
    assert_eq!(changes(&scene, 1).await, told(&scene, vec![change]));
}

/// A page of commits says how far it goes; commits that tell nothing are none of them.
pub async fn a_limit_cuts_between_commits(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut all = Vec::new();
    for text in ["a", "b", "c", "d"] {
        let (entry, task) = (scene.entry(text), scene.task());
        scene.commit(vec![entry.clone().into_write(), task.clone().into_write()]).await.unwrap();
        scene.commit(vec![]).await.unwrap();
        all.push(Change { tasks: vec![task], ..of_entry(&entry) });
    }
    for (place, limit, until, part) in [
        (1, 2, 4, &all[..2]),
        (4, 1, 6, &all[2..3]),
        (4, 2, 9, &all[2..]),
        (4, 3, 9, &all[2..]),
        (8, 1, 9, &[]),
        (4, 0, 4, &[]),
    ] {
        let query = ChangeQuery { limit, ..after(&scene, place) };
        let expected = Changes { until: Seq(until), ..told(&scene, part.to_vec()) };
        assert_eq!(store.changes(query).await.unwrap(), expected, "{limit} from {place}");
    }
}

/// Each claim keeps the head that it found, so that a place which a crash took away is known for what it is.
pub async fn newer_epochs_come_with_the_head_they_found(store: &Store) {
    let mut scene = Scene::new(store).await;
    let mut entries = Vec::new();
    for text in ["a", "b"] {
        let entry = scene.entry(text);
        scene.commit(vec![entry.clone().into_write()]).await.unwrap();
        entries.push(entry);
        scene.claim_again().await;
    }
    let starts = [(2, 2), (3, 3)].map(|(epoch, head)| EpochStart { epoch: Epoch(epoch), head: Seq(head) });
    for (epoch, newer) in [(1, &starts[..]), (2, &starts[1..]), (3, &[])] {
        let query = ChangeQuery { epoch: Epoch(epoch), ..after(&scene, 2) };
        let expected = Changes { epochs: newer.to_vec(), ..told(&scene, vec![of_entry(&entries[1])]) };
        assert_eq!(store.changes(query).await.unwrap(), expected, "from epoch {epoch}");
    }
    let beyond = store.changes(after(&scene, 99)).await.unwrap();
    assert_eq!(
        (beyond.commits, beyond.epochs),
        (vec![], starts.to_vec()),
        "a place beyond the head tells nothing"
    );
}

/// History that was trimmed is told no more, and the answer says so.
pub async fn the_floor_says_what_was_trimmed(store: &Store) {
    let mut scene = Scene::new(store).await;
    let entry = scene.entry("a");
    let done = Scene::ended(scene.task());
    scene.commit(vec![entry.clone().into_write(), done.into_write()]).await.unwrap();
    let live = scene.task();
    each(&mut scene, &[live.clone().into_write(), Write::Trim(Seq(3))]).await;
    let left = vec![of_entry(&entry), Change { tasks: vec![live], ..Change::of(Seq(3)) }];
    let expected = Changes { floor: Seq(3), ..told(&scene, left) };
    assert_eq!(changes(&scene, 1).await, expected);
    scene.commit(vec![Write::Trim(Seq(2))]).await.unwrap();
    assert_eq!(
        changes(&scene, 5).await,
        Changes { floor: Seq(3), ..told(&scene, vec![]) },
        "it does not fall"
    );
}

/// Ended work that a trim kept is told in its own commit, below the floor. When a later trim drops it, the floor need not
/// rise: whoever stands there has seen it end.
pub async fn work_that_a_trim_kept_is_told_where_it_ended(store: &Store) {
    let mut scene = Scene::new(store).await;
    let owner = scene.task();
    let child = Scene::ended(TaskRecord { owner: Some(owner.id), ..scene.task() });
    let [seen, gone] = [child.clone(), Scene::ended(scene.task())];
    scene.commit([&seen, &gone].map(|task| task.clone().into_write()).into()).await.unwrap();
    each(&mut scene, &[owner.clone().into_write(), Write::Trim(Seq(3))]).await;
    let of_tasks = |seq, task: &TaskRecord| Change { tasks: vec![task.clone()], ..Change::of(Seq(seq)) };
    let left = vec![of_tasks(2, &child), of_tasks(3, &owner)];
    assert_eq!(changes(&scene, 1).await, Changes { floor: Seq(3), ..told(&scene, left) });
    assert_eq!(changes(&scene, 3).await, Changes { floor: Seq(3), ..told(&scene, vec![]) });

    let owner = Scene::ended(owner);
    each(&mut scene, &[owner.clone().into_write(), Write::Trim(Seq(2))]).await;
    for place in [1, 3] {
        let expected = Changes { floor: Seq(3), ..told(&scene, vec![of_tasks(5, &owner)]) };
        assert_eq!(changes(&scene, place).await, expected, "from {place}");
    }
}

/// Head, commits and documents fit together while commits go on.
pub async fn an_answer_is_of_one_moment(store: &Store) {
    const COMMITS: u64 = 40;
    let mut scene = Scene::new(store).await;
    let notes = Notes::new(&mut scene, History::Rewindable);
    scene.commit(vec![notes.base("0")]).await.unwrap();
    let query = after(&scene, 2);
    let before = [notes.state("0", &[], [2, 1])];
    let writing = async {
        for _ in 0..COMMITS {
            let (task, entry) = (scene.task(), scene.entry("a"));
            let writes = vec![task.into_write(), entry.into_write(), notes.delta("[1]")];
            scene.commit(writes).await.unwrap();
            yield_now().await;
        }
    };
    let reading = async {
        let mut head = Seq(2);
        while head < Seq(2 + COMMITS) {
            let answer = store.changes(query).await.unwrap();
            head = answer.head;
            check_whole(&answer, &before);
            yield_now().await;
        }
    };
    join(reading, writing).await;
}

/// Every commit up to the head, each with all that it wrote.
fn check_whole(answer: &Changes, before: &[DocumentState]) {
    let seqs: Vec<_> = answer.commits.iter().map(|change| change.seq).collect();
    let expected: Vec<_> = (3..=answer.head.0).map(Seq).collect();
    assert_eq!((seqs, answer.until), (expected, answer.head));
    let whole =
        |change: &Change| change.tasks.len() == 1 && change.entries.len() == 1 && change.documents.len() == 1;
    assert!(answer.commits.iter().all(whole), "{answer:?}");
    assert_eq!(answer.before, if answer.commits.is_empty() { &[] } else { before });
}

/// There is nothing to tell of a session that is not there.
pub async fn changes_of_an_unknown_session_are_not_found(store: &Store) {
    let scene = Scene::new(store).await;
    let nowhere = ChangeQuery { session: session_id(9), ..after(&scene, 0) };
    let error = store.changes(nowhere).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
}
