//! What is told, as a table, and that what was told folds to what is wanted.

use proptest::{collection::vec, prelude::*};

use super::{EpochReason, Prompt, PromptChange, Section, Speaks, Standing, Told};
use crate::{
    clock::Timestamp,
    entry::{Edit, Entry, EntryRecord, Head, kind},
    id::{ConversationId, EntryId, Seq},
    json::RawJson,
    tool::ToolSpec,
};

fn section(key: &str, text: &str) -> Section {
    Section { key: key.into(), text: text.into() }
}

fn prompt(sections: &[(&str, &str)], tools: &[&str]) -> Prompt {
    let tool = |name: &&str| ToolSpec {
        name: (*name).into(),
        description: String::new(),
        parameters: RawJson::empty(),
    };
    Prompt {
        sections: sections.iter().map(|(key, text)| section(key, text)).collect(),
        tools: tools.iter().map(tool).collect(),
    }
}

fn record(id: u64, entry: Entry) -> EntryRecord {
    let (conversation, seq, time) = (ConversationId::ROOT, Seq(id), Timestamp(0));
    EntryRecord { id: EntryId(id), conversation, seq, time, task: None, entry }
}

const DEMO: Speaks<'_> = Speaks { family: "demo", takes_changes: true };

/// A standing that was told a prompt at entry 2.
fn told(prompt: &Prompt) -> Standing {
    let mut standing = Standing::default();
    let entry = standing.tell(prompt, DEMO).into_entry().unwrap().unwrap();
    standing.take(&record(2, entry));
    standing
}

fn reason(told: Told) -> Option<EpochReason> {
    if let Told::Epoch(epoch) = told { Some(epoch.reason) } else { None }
}

#[test]
fn what_was_told_is_not_told_again() {
    let wanted = prompt(&[("a", "1")], &["read"]);
    assert_eq!(told(&wanted).tell(&wanted, DEMO), Told::Nothing);
}

#[test]
fn only_the_difference_is_told() {
    let standing = told(&prompt(&[("a", "1"), ("b", "2"), ("c", "3")], &[]));
    let wanted = prompt(&[("a", "1"), ("c", "4"), ("d", "5")], &[]);
    let Told::Change(change, text) = standing.tell(&wanted, DEMO) else { panic!("a change") };
    let expected =
        PromptChange { removed: vec!["b".into()], set: vec![section("c", "4"), section("d", "5")] };
    assert_eq!(change, expected);
    assert_eq!(text, "The section b no longer applies.\n\nThe section c now says:\n4\n\n5");
}

#[test]
fn an_epoch_says_why() {
    let before = prompt(&[("a", "1")], &["read"]);
    let standing = told(&before);
    let other_model = Speaks { family: "chat/qwen", ..DEMO };
    assert_eq!(reason(standing.tell(&before, other_model)), Some(EpochReason::Model));
    assert_eq!(
        reason(standing.tell(&prompt(&[("a", "1")], &["read", "write"]), DEMO)),
        Some(EpochReason::Tools)
    );
    let no_changes = Speaks { takes_changes: false, ..DEMO };
    assert_eq!(
        reason(standing.tell(&prompt(&[("a", "2")], &["read"]), no_changes)),
        Some(EpochReason::System)
    );
    let broken_by = |entry: Entry| {
        let mut standing = standing.clone();
        standing.take(&record(3, entry));
        reason(standing.tell(&before, DEMO))
    };
    assert_eq!(broken_by(Entry::new("note").head(Head::Itself)), Some(EpochReason::Reset));
    let summary = Entry::new(kind::COMPACTION).head(Head::Entry(EntryId(2)));
    assert_eq!(broken_by(summary), Some(EpochReason::Compaction));
    assert_eq!(broken_by(Entry::new("mend").edit(Edit::omit(EntryId(2)))), Some(EpochReason::Edit));
    assert_eq!(broken_by(Entry::new("note")), None, "what only adds breaks nothing");
}

#[test]
fn an_epoch_mends_what_was_broken_before_it() {
    let wanted = prompt(&[], &[]);
    let mut standing = told(&wanted);
    standing.take(&record(3, Entry::new("note").head(Head::Itself)));
    let entry = standing.tell(&wanted, DEMO).into_entry().unwrap().unwrap();
    standing.take(&record(4, entry));
    assert_eq!(standing.tell(&wanted, DEMO), Told::Nothing);
}

proptest! {
    #[test]
    fn what_is_told_folds_to_what_is_wanted(
        prompts in vec(vec((0_u8..6, 0_u8..3), 0..6), 1..8),
    ) {
        let mut standing = Standing::default();
        for (at, sections) in prompts.iter().enumerate() {
            let mut wanted = Prompt::default();
            for (key, text) in sections {
                let section = section(&format!("s{key}"), &format!("t{text}"));
                if !wanted.sections.iter().any(|other| other.key == section.key) {
                    wanted.sections.push(section);
                }
            }
            if let Some(entry) = standing.tell(&wanted, DEMO).into_entry().unwrap() {
                standing.take(&record(at as u64 + 2, entry));
            }
            prop_assert_eq!(&standing.prompt, &wanted);
        }
    }
}
