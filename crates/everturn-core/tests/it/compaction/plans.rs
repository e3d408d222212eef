//! What the strategies plan, transcript by transcript.

use everturn_core::{
    compaction::{Compaction, DropToolOutput, KeepLast, Strategy, Summarise, Trigger, Wanted, tokens_of},
    entry::{Edit, Entry, Head, kind},
    id::{EntryId, TaskId},
    json::RawJson,
    message::Message,
    prompt::Prompt,
    tool::ToolSpec,
};

use super::{Log, calling, cut, long, prompt, recent, reported};

/// Four turns of a hundred tokens each, and their first entries.
fn four() -> (Log, Vec<EntryId>) {
    let mut log = Log::default();
    let turns = (0..4).map(|_| log.turn(&long(50), &long(50))).collect();
    (log, turns)
}

#[test]
fn a_context_is_cut_where_a_turn_begins() {
    let (log, turns) = four();
    for (keep, kept) in [(50, 3), (100, 3), (149, 3), (150, 2), (200, 2), (299, 1)] {
        let plan = Summarise.plan(&log.transcript(), &recent(keep)).unwrap();
        assert_eq!(plan.first_kept, Some(turns[kept]), "{keep}");
        assert_eq!((plan.tokens_before, plan.tokens_kept), (400, 400 - 100 * kept as u64));
        assert_eq!(plan.summarise.len(), 2 * kept, "the ends of turns say nothing");
        assert!(plan.needs_summary && plan.edits.is_empty());
    }
    assert_eq!(Summarise.plan(&log.transcript(), &recent(400)), None, "all of it is wanted");
    assert_eq!(Summarise.plan(&log.transcript(), &recent(350)), None, "no turn is cut to gain so little");
    assert_eq!(Summarise.plan(&Log::default().transcript(), &recent(0)), None);
}

#[test]
fn what_came_in_the_middle_of_a_turn_begins_none() {
    let mut log = Log::default();
    log.turn(&long(50), &long(50));
    let turn = TaskId(900);
    let (first, _) = (log.user(turn, &long(20)), log.user(turn, &long(20)));
    let calls = log.calling(turn, "I weigh.", 2);
    log.result(turn, &calls[1], &long(20));
    log.user(turn, "Do not forget the plum.");
    log.result(turn, &calls[0], &long(20));
    log.say(turn, kind::NOTICE, Message::user("Hurry."));
    log.answer(turn, &long(20));
    let plan = Summarise.plan(&log.transcript(), &recent(70)).unwrap();
    assert_eq!(plan.first_kept, Some(first));
}

#[test]
fn a_turn_that_alone_is_too_large_is_cut_before_an_answer() {
    let mut log = Log::default();
    log.turn(&long(50), &long(50));
    let turn = TaskId(900);
    log.user(turn, &long(50));
    let mut answers = Vec::new();
    for _ in 0..3 {
        let calls = log.calling(turn, &long(50), 2);
        answers.push(EntryId(log.last));
        for call in calls.iter().rev() {
            log.result(turn, call, &long(50));
        }
    }
    // A cut attempt in between is sent to nobody, and no place to cut.
    log.say(turn, kind::ASSISTANT, cut("I wei"));
    let plan = Summarise.plan(&log.transcript(), &recent(60)).unwrap();
    assert_eq!(plan.first_kept, Some(answers[2]), "behind both results of the answer before");
    let before_turn = Summarise.plan(&log.transcript(), &recent(400)).unwrap();
    assert_eq!(before_turn.summarise.len(), 2, "a turn that is not too large is kept whole");
    log.take(&plan, Some("They weigh."));
    log.context();
}

#[test]
fn calls_that_run_are_kept_with_all_behind_them() {
    let (mut log, _) = four();
    let turn = TaskId(900);
    log.user(turn, &long(50));
    let calls = log.calling(turn, "I weigh.", 2);
    let running = EntryId(log.last);
    log.result(turn, &calls[0], &long(200));
    log.user(turn, &long(300));
    let plan = Summarise.plan(&log.transcript(), &recent(10)).unwrap();
    assert_eq!(plan.first_kept, Some(running));
    let drop = DropToolOutput { keep_last: 0, at_least_bytes: 10 };
    assert_eq!(drop.plan(&log.transcript(), &recent(10)), None, "nor is an output of theirs dropped");
    log.take(&plan, Some("They weighed."));
    log.result(turn, &calls[1], "180");
    assert!(log.context().texts().contains(&"180".into()));
}

#[test]
fn what_has_to_fit_comes_before_what_is_to_be_kept() {
    let (mut log, turns) = four();
    let plan = |log: &Log, keep, room| {
        Summarise.plan(&log.transcript(), &Wanted { keep_recent: keep, room: Some(room) })
    };
    assert_eq!(plan(&log, 390, 400).unwrap().first_kept, Some(turns[2]), "half of the room is kept");
    assert_eq!(plan(&log, 390, 10_000), None, "and where there is much, all that is wanted");
    log.user(TaskId(900), &long(500));
    let only = plan(&log, 100, 450).unwrap();
    assert_eq!(only.first_kept, Some(EntryId(log.last)), "what cannot fit is made as short as it can be");
    assert!(only.tokens_kept > 450);
}

#[test]
fn a_provider_that_counts_more_is_believed_where_something_has_to_fit() {
    let mut log = Log::default();
    let first = log.turn(&long(100), &long(100));
    let turn = TaskId(900);
    log.user(turn, &long(100));
    let second = log.say(turn, kind::ASSISTANT, reported(&long(100), 1_100, 100));
    assert_eq!(tokens_of(&log.context()), 1_200);
    let plan = Summarise.plan(&log.transcript(), &Wanted { keep_recent: 100, room: Some(500) }).unwrap();
    assert_eq!(plan.first_kept, Some(second), "the turn of {first} has six hundred tokens, and not two");
    assert_eq!((plan.tokens_before, plan.tokens_kept), (1_200, 300));
}

#[test]
fn a_report_counts_until_the_context_is_another() {
    let tool = ToolSpec {
        name: "weigh".into(),
        description: "Weighs things.".into(),
        parameters: RawJson::parse(r#"{"type":"object"}"#).unwrap(),
    };
    let weighed = |tools: Vec<ToolSpec>| {
        let mut log = Log::default();
        log.tell(&Prompt { tools: tools.into(), ..prompt("Be brief.") });
        log.turn("How heavy?", "180");
        tokens_of(&log.context())
    };
    assert_eq!(weighed(vec![tool]) - weighed(Vec::new()), 4 + (5 + 14 + 17) / 4);

    let mut log = Log::default();
    let turn = TaskId(900);
    log.tell(&prompt("Be brief."));
    let question = log.user(turn, &long(100));
    log.say(turn, kind::ASSISTANT, reported("180", 700, 9));
    log.say(turn, kind::ASSISTANT, cut("18"));
    log.user(turn, &long(30));
    assert_eq!(tokens_of(&log.context()), 700 + 9 + 30);
    for entry in [
        Entry::new("app.edit").edit(Edit::omit(question)),
        Entry::new("app.head").head(Head::Entry(question)),
    ] {
        let mut log = log.clone();
        log.push(None, entry);
        assert!(tokens_of(&log.context()) < 200, "the report is of another context");
        log.say(turn, kind::ASSISTANT, reported("181", 80, 3));
        assert_eq!(tokens_of(&log.context()), 83);
    }
}

#[test]
fn what_was_told_of_the_prompt_is_never_summarised() {
    let mut log = Log::default();
    let epoch = log.tell(&prompt("Be brief.")).unwrap();
    log.turn(&long(50), &long(50));
    let change = log.tell(&prompt("Be kind.")).unwrap();
    log.turn(&long(50), &long(50));
    log.turn(&long(50), &long(50));
    let plan = Summarise.plan(&log.transcript(), &recent(100)).unwrap();
    assert!(!plan.summarise.contains(&epoch) && !plan.summarise.contains(&change));
    log.take(&plan, Some("They weighed."));
    log.tell(&prompt("Be kind."));
    assert!(log.context().texts()[0].contains("Be kind."));
}

#[test]
fn an_earlier_summary_is_summarised_and_gains_nothing_alone() {
    let (mut log, _) = four();
    let plan = Summarise.plan(&log.transcript(), &recent(200)).unwrap();
    let first = log.take(&plan, Some("They weighed two pears."));
    assert_eq!(Summarise.plan(&log.transcript(), &recent(200)), None);
    log.turn(&long(50), &long(50));
    let plan = Summarise.plan(&log.transcript(), &recent(200)).unwrap();
    assert_eq!(plan.summarise[0], first);
    assert_eq!(plan.summarise.len(), 3);
    log.take(&plan, Some("They weighed three pears."));
    let texts = log.context().texts().join("\n");
    assert!(texts.contains("three pears") && !texts.contains("two pears"));
}

#[test]
fn the_last_turns_are_kept_with_a_note_and_no_summary() {
    let (mut log, turns) = four();
    let keep = |turns| KeepLast { turns };
    let plan = keep(2).plan(&log.transcript(), &recent(0)).unwrap();
    assert_eq!((plan.first_kept, plan.needs_summary), (Some(turns[2]), false));
    assert_eq!(keep(4).plan(&log.transcript(), &recent(0)), None);
    let more = keep(1).plan(&log.transcript(), &recent(250)).unwrap();
    assert_eq!(more.first_kept, Some(turns[1]), "as many tokens as are wanted");
    let room = Wanted { keep_recent: 0, room: Some(150) };
    assert_eq!(keep(4).plan(&log.transcript(), &room).unwrap().first_kept, Some(EntryId(turns[3].0 + 1)));
    let note = log.take(&plan, None);
    assert!(log.context().texts()[0].contains("no longer shown"));
    let data = log.entries.iter().find(|entry| entry.id == note).unwrap().read::<Compaction>().unwrap();
    let compaction = Compaction {
        strategy: "keep_last".into(),
        trigger: Trigger::Asked,
        tokens_before: 400,
        tokens_kept: 200,
        replaced: 4,
    };
    assert_eq!(data, Some(compaction));
}

#[test]
fn old_outputs_are_dropped_and_their_calls_and_ends_stay() {
    let mut log = Log::default();
    let turn = TaskId(900);
    log.user(turn, "Weigh.");
    let calls = log.calling(turn, "I weigh.", 4);
    let results: Vec<_> = calls.iter().map(|call| log.result(turn, call, &long(100))).collect();
    let short = log.calling(turn, "And once more.", 1);
    log.result(turn, &short[0], "180");
    log.answer(turn, "180 grams each.");
    let drop = DropToolOutput { keep_last: 3, at_least_bytes: 200 };
    let plan = drop.plan(&log.transcript(), &recent(0)).unwrap();
    assert_eq!(plan.edits.iter().map(|edit| edit.target).collect::<Vec<_>>(), results[..2]);
    assert_eq!((plan.first_kept, plan.needs_summary, plan.summarise.len()), (None, false, 0));
    let before = log.context();
    let entry = log.take(&plan, None);
    let after = log.context();
    assert_eq!((after.head(), after.messages().len()), (None, before.messages().len()));
    assert_eq!(plan.tokens_before, tokens_of(&before));
    assert_eq!(plan.tokens_kept, tokens_of(&after));
    let (Message::Result(was), Message::Result(is)) = (&*before.messages()[2], &*after.messages()[2]) else {
        panic!("the results keep their places")
    };
    assert_eq!((&is.call, &is.outcome), (&was.call, &was.outcome));
    assert!(is.text.contains("dropped") && is.truncated);
    assert!(log.entries.iter().any(|record| record.id == entry && record.messages.is_empty()));
    assert_eq!(drop.plan(&log.transcript(), &recent(0)), None, "nothing is dropped twice");
    let kept = drop.plan(&log.transcript(), &recent(10_000));
    assert_eq!(kept, None, "what is recent stays");
}

#[test]
fn a_plan_no_longer_fits_when_the_conversation_began_anew_meanwhile() {
    let (mut log, turns) = four();
    let plan = Summarise.plan(&log.transcript(), &recent(100)).unwrap();
    log.turn(&long(50), &long(50));
    assert!(plan.fits(&log.context()), "going on does no harm");
    let mut edited = log.clone();
    edited.push(None, Entry::new("app.edit").edit(Edit::omit(turns[0])));
    assert!(!plan.fits(&edited.context()), "what was taken out is in the summary");
    log.push(None, Entry::new(kind::RESET).head(Head::Itself));
    assert!(!plan.fits(&log.context()));
}

#[test]
fn entries_that_no_turn_wrote_are_cut_at_what_a_person_said() {
    let mut log = Log::default();
    let user = |log: &mut Log| log.push(None, Entry::new("app.said").message(Message::user(long(50))));
    user(&mut log);
    let call = ["c1".to_owned()].map(everturn_core::message::CallId);
    log.push(None, Entry::new("app.did").message(calling("I weigh.", &call)));
    user(&mut log);
    let second = user(&mut log);
    log.push(None, Entry::new("app.said").message(Message::assistant("Yes.")));
    let plan = Summarise.plan(&log.transcript(), &recent(40)).unwrap();
    assert_eq!(plan.first_kept, Some(second));
}
