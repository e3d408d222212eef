//! The cases of `tests/fixtures/policy`: those that need neither a shell's grammar nor a file system.

use everturn_core::policy::{Act, Effect, Layer, Policy, Rule};
use serde::Deserialize;

use super::judge;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandCase {
    id: String,
    rules: Vec<CommandRule>,
    interactive: bool,
    command: Option<String>,
    argv: Option<Vec<String>>,
    expect: Effect,
    why: String,
}

#[derive(Deserialize)]
struct CommandRule {
    effect: Effect,
    argv: String,
}

#[derive(Deserialize)]
struct PathCase {
    id: String,
    setup: Vec<serde_json::Map<String, serde_json::Value>>,
    rules: Vec<PathRule>,
    interactive: bool,
    act: String,
    path: String,
    expect: Effect,
    why: String,
    race: Option<serde_json::Value>,
    needs: Option<String>,
}

#[derive(Deserialize)]
struct PathRule {
    effect: Effect,
    act: String,
    glob: String,
}

fn read<T: for<'a> Deserialize<'a>>(lines: &str) -> Vec<T> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn policy(rules: impl Iterator<Item = String>, is_interactive: bool) -> Policy {
    let policy = rules.fold(Policy::new(), |policy, rule| {
        policy.rule(Layer::User, rule.parse::<Rule>().unwrap_or_else(|error| panic!("{error}")))
    });
    if is_interactive { policy.otherwise(Effect::Ask) } else { policy.unattended() }
}

/// The words of a command, where a shell takes them as they stand.
fn plain_words(command: &str) -> Option<Vec<String>> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " ./_=-".contains(letter);
    let words: Vec<String> = command.split_whitespace().map(String::from).collect();
    (command.chars().all(is_plain) && !words.first()?.contains('=')).then_some(words)
}

fn judge_command(case: &CommandCase, argv: Vec<String>) {
    let rules = case.rules.iter().map(|rule| format!("{} exec({})", rule.effect, rule.argv));
    let verdict = judge(&policy(rules, case.interactive), &Act::Exec(argv));
    assert_eq!(verdict.effect, case.expect, "{}: {} ({verdict:?})", case.id, case.why);
}

#[test]
fn every_argv_case_gives_the_verdict_it_expects() {
    let cases: Vec<CommandCase> = read(include_str!("../../fixtures/policy/commands.jsonl"));
    let of_argv: Vec<_> = cases.iter().filter_map(|case| Some((case, case.argv.clone()?))).collect();
    assert_eq!(of_argv.len(), 14);
    of_argv.into_iter().for_each(|(case, argv)| judge_command(case, argv));
}

#[test]
fn every_command_of_plain_words_gives_as_argv_the_verdict_it_expects() {
    let cases: Vec<CommandCase> = read(include_str!("../../fixtures/policy/commands.jsonl"));
    let plain = |case: &'_ CommandCase| plain_words(case.command.as_ref()?);
    let plain: Vec<_> = cases.iter().filter_map(|case| Some((case, plain(case)?))).collect();
    assert!(plain.len() > 80, "{}", plain.len());
    plain.into_iter().for_each(|(case, argv)| judge_command(case, argv));
}

const ROOT: &str = "/base/ws";

/// What only a file system knows: what is missing, is no directory, or is too long.
const OF_FILES: &[&str] = &["dots-7", "dots-8", "dots-10", "slash-4", "slash-5", "char-9", "char-10"];

/// The resolved path, where there are no links and all names are as they are written.
fn resolved(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("{ROOT}/{path}") };
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            _ => names.push(name),
        }
    }
    let path = format!("/{}", names.join("/"));
    match path.strip_prefix(ROOT) {
        Some("") => ".".into(),
        Some(inside) if inside.starts_with('/') => inside[1..].into(),
        _ => path,
    }
}

#[test]
fn every_path_case_without_links_gives_the_verdict_it_expects() {
    let cases: Vec<PathCase> = read(include_str!("../../fixtures/policy/paths.jsonl"));
    let is_pure = |case: &&PathCase| {
        let is_plain = case.setup.iter().all(|step| step.contains_key("mkdir") || step.contains_key("file"));
        let is_here = case.needs.as_ref().is_none_or(|needs| needs != "case_insensitive");
        is_plain && is_here && case.race.is_none() && !OF_FILES.contains(&&*case.id)
    };
    let cases: Vec<_> = cases.iter().filter(is_pure).collect();
    assert!(cases.len() > 60, "{}", cases.len());
    for case in cases {
        let fill = |text: &str| text.replace("{ROOT}", ROOT).replace("{BASE}", "/base");
        let rules =
            case.rules.iter().map(|rule| format!("{} {}({})", rule.effect, rule.act, fill(&rule.glob)));
        let path = resolved(&fill(&case.path));
        let act = if case.act == "read" { Act::Read(path) } else { Act::Write(path) };
        let verdict = judge(&policy(rules, case.interactive), &act);
        assert_eq!(verdict.effect, case.expect, "{}: {} ({verdict:?})", case.id, case.why);
    }
}
