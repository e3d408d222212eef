//! Random rules, layers and acts.

use everturn_core::policy::{Act, Effect, Judged, Layer, Policy, Rule, Verdict, Word};
use proptest::{collection::vec, prelude::*, sample::select};

use super::judge;

/// Few names, so that rules and acts meet; some with what has a meaning in patterns.
const NAMES: [&str; 14] =
    ["a", "b", "src", "*", "**", "a b", " ", "~", "\\", "\"\"", "'a'", "a,b", "é)", "x*y"];

const ARGUMENTS: [&str; 14] =
    ["rm", "git", "push", "--force", "-c", "", "*", "**", "a b", "/bin/rm", "sudo", "\\", "'", "x\ny"];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![8 => select(NAMES.to_vec()).prop_map(String::from), 1 => "[a-z*/ ,()\\\\]{0,5}"]
}

fn path() -> impl Strategy<Value = String> {
    let inside = || vec(name(), 1..4).prop_map(|names| names.join("/"));
    prop_oneof![
        4 => inside(),
        2 => inside().prop_map(|path| format!("/{path}")),
        1 => select(vec!["", ".", "..", "a/../b", "/", ".git/a", "a//b/./", "a\u{202e}"]).prop_map(String::from),
    ]
}

fn argv() -> impl Strategy<Value = Vec<String>> {
    let word = prop_oneof![8 => select(ARGUMENTS.to_vec()).prop_map(String::from), 1 => any::<String>()];
    vec(word, 0..5)
}

fn act() -> impl Strategy<Value = Act> {
    let host = select(vec!["example.com", "api.example.com", "EXAMPLE.com.", "localhost", "::1", "*", ""]);
    prop_oneof![
        path().prop_map(Act::Read),
        path().prop_map(Act::Write),
        argv().prop_map(Act::Exec),
        (host, select(vec![80, 443])).prop_map(|(host, port)| Act::Net { host: host.into(), port }),
        (name(), name()).prop_map(|(server, tool)| Act::Mcp { server, tool }),
        name().prop_map(Act::Spawn),
        name().prop_map(Act::Tool),
    ]
}

/// Rules as people write them, and such as acts give.
fn rule() -> impl Strategy<Value = Rule> {
    let written = select(vec![
        "read(**)",
        "read(a/**)",
        "read(*)",
        "read(/**)",
        "read(/a)",
        "write(**)",
        "write(src/*)",
        "write(/a/**)",
        "exec(* **)",
        "exec(rm **)",
        "exec(git push ** --force **)",
        "exec(git *)",
        "exec(* -c **)",
        "exec(sudo **)",
        "exec(** a)",
        "exec(/bin/* *)",
        "net(*, *)",
        "net(*.example.com, 443)",
        "mcp(*, *)",
        "mcp(a, *)",
        "spawn(*)",
        "tool(a*)",
        "tool(*)",
    ]);
    let effect = || select(vec![Effect::Allow, Effect::Ask, Effect::Deny]);
    let written = (effect(), written)
        .prop_filter_map("it cannot be read", |(effect, act)| Some(Rule { effect, act: act.parse().ok()? }));
    let of_act = (effect(), act()).prop_filter_map("no rule can allow it", |(effect, act)| {
        Some(Rule { effect, ..Rule::for_act(&act)? })
    });
    prop_oneof![3 => written, 1 => of_act]
}

fn rules(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(Layer, Rule)>> {
    vec((select(Layer::ALL.to_vec()), rule()), count)
}

fn with(policy: Policy, rules: &[(Layer, Rule)]) -> Policy {
    rules.iter().cloned().fold(policy, |policy, (layer, rule)| policy.rule(layer, rule))
}

fn policy() -> impl Strategy<Value = Policy> {
    let otherwise = select(vec![Effect::Deny, Effect::Ask, Effect::Allow]);
    let locked = proptest::option::of(select(Layer::ALL.to_vec()));
    (rules(0..6), otherwise, locked, any::<bool>(), proptest::bool::weighted(0.2)).prop_map(
        |(rules, otherwise, locked, is_trusted, is_unattended)| {
            let policy = with(Policy::new(), &rules).otherwise(otherwise);
            let policy = locked.into_iter().fold(policy, Policy::locked);
            let policy = if is_trusted { policy.trusted() } else { policy };
            if is_unattended { policy.unattended() } else { policy }
        },
    )
}

fn verdict() -> impl Strategy<Value = Verdict> {
    (policy(), act()).prop_map(|(policy, act)| judge(&policy, &act))
}

/// One spelling for acts that are the same.
fn same(act: &Act) -> Act {
    let path = |path: &String| {
        let names: Vec<_> = path.split('/').filter(|name| !["", "."].contains(name)).collect();
        format!("{}{}", if path.starts_with('/') { "/" } else { "" }, names.join("/"))
    };
    match act {
        Act::Read(at) => Act::Read(path(at)),
        Act::Write(at) => Act::Write(path(at)),
        Act::Net { host, port } => {
            Act::Net { host: host.trim_end_matches('.').to_ascii_lowercase(), port: *port }
        }
        other => other.clone(),
    }
}

/// Words of which some are not known, and what they may be.
fn words() -> impl Strategy<Value = Vec<(u8, String, Vec<String>)>> {
    let known = || select(ARGUMENTS.to_vec()).prop_map(String::from);
    vec((prop_oneof![4 => Just(0u8), 1 => Just(1), 1 => Just(2)], known(), vec(known(), 0..3)), 1..5)
}

proptest! {
    #[test]
    fn a_rule_is_read_as_it_is_written(rule in rule()) {
        prop_assert_eq!(&rule.to_string().parse::<Rule>().unwrap(), &rule);
        let json = serde_json::to_string(&rule).unwrap();
        prop_assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
    }

    #[test]
    fn any_text_is_a_rule_or_an_error(act in select(vec!["read", "exec", "net", "mcp", "tool"]), text in r#"[a*/\\ ,.~"'()n]{0,8}"#) {
        if let Ok(rule) = format!("deny {act}({text})").parse::<Rule>() {
            prop_assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
        }
    }

    #[test]
    fn the_rule_for_an_act_allows_it_and_no_other(one in act(), other in act()) {
        if let Some(rule) = Rule::for_act(&one) {
            prop_assert_eq!(&rule.to_string().parse::<Rule>().unwrap(), &rule);
            let policy = Policy::new().rule(Layer::Session, rule);
            prop_assert_eq!(judge(&policy, &one).effect, Effect::Allow);
            let is_allowed = judge(&policy, &other).effect == Effect::Allow;
            prop_assert_eq!(is_allowed, same(&one) == same(&other), "{} {}", one, other);
        }
    }

    #[test]
    fn a_deny_more_never_loosens(policy in policy(), layer in select(Layer::ALL.to_vec()), rule in rule(), act in act()) {
        let before = judge(&policy, &act).effect;
        let deny = Rule { effect: Effect::Deny, ..rule };
        prop_assert!(judge(&policy.rule(layer, deny), &act).effect >= before);
    }

    #[test]
    fn a_rule_that_is_stricter_never_loosens(policy in policy(), layer in select(Layer::ALL.to_vec()), rule in rule(), act in act()) {
        let effects = [Effect::Allow, Effect::Ask, Effect::Deny].map(|effect| {
            judge(&policy.clone().rule(layer, Rule { effect, ..rule.clone() }), &act).effect
        });
        prop_assert!(effects.is_sorted(), "{:?}", effects);
    }

    #[test]
    fn a_session_never_loosens_a_deny_or_a_locked_ask(
        policy in policy(),
        layer in select(Layer::ALL.to_vec()),
        act in act(),
        session in vec(rule(), 0..4),
        effect in select(vec![Effect::Ask, Effect::Deny]),
    ) {
        let Some(rule) = Rule::for_act(&act) else { return Ok(()) };
        let policy = policy.rule(layer, Rule { effect, ..rule });
        let policy = if effect == Effect::Ask { policy.locked(layer) } else { policy };
        let call = Judged { acts: &[act], session: &session, ..Judged::default() };
        prop_assert!(policy.verdict(&call).effect >= effect);
    }

    #[test]
    fn a_project_that_is_not_trusted_never_loosens(
        rules in rules(0..6),
        project in vec(rule(), 0..4),
        otherwise in select(vec![Effect::Deny, Effect::Ask, Effect::Allow]),
        act in act(),
    ) {
        let others: Vec<_> = rules.into_iter().filter(|(layer, _)| *layer != Layer::Project).collect();
        let policy = with(Policy::new(), &others).otherwise(otherwise);
        let project: Vec<_> = project.into_iter().map(|rule| (Layer::Project, rule)).collect();
        prop_assert!(judge(&with(policy.clone(), &project), &act).effect >= judge(&policy, &act).effect);
    }

    #[test]
    fn a_glob_without_a_slash_in_front_never_fits_outside_of_the_root(policy in policy(), path in path(), writes in any::<bool>()) {
        let act = if writes { Act::Write(format!("/{path}")) } else { Act::Read(format!("/{path}")) };
        let why = policy.explain(&act, &Judged::default());
        let names = |rule: &Rule| rule.act.to_string().contains("(/");
        prop_assert!(why.rules.iter().all(|one| names(&one.rule)), "{}", why);
        prop_assert!(!why.rules.is_empty() || why.verdict.effect == Effect::Deny, "{}", why);
    }

    #[test]
    fn an_explanation_has_the_verdict_of_its_act(policy in policy(), act in act()) {
        prop_assert_eq!(policy.explain(&act, &Judged::default()).verdict, judge(&policy, &act));
    }

    #[test]
    fn a_child_never_may_more_than_any_of_its_owners(verdicts in vec(verdict(), 1..6)) {
        let all = verdicts.iter().cloned().reduce(Verdict::and).unwrap();
        prop_assert!(verdicts.iter().all(|one| all.effect >= one.effect));
        prop_assert_eq!(verdicts.iter().find(|one| one.effect == all.effect), Some(&all));
    }

    #[test]
    fn where_nobody_can_be_asked_nothing_is_asked_and_nothing_more_is_allowed(policy in policy(), act in act()) {
        let (before, after) = (judge(&policy, &act).effect, judge(&policy.unattended(), &act).effect);
        prop_assert_eq!(after, if before == Effect::Allow { Effect::Allow } else { Effect::Deny });
    }

    #[test]
    fn a_command_with_unknown_words_may_no_more_than_with_any_of_their_values(policy in policy(), words in words()) {
        let unknown: Vec<_> = words.iter().map(|(kind, known, _)| match kind {
            0 => Word::Known(known),
            1 => Word::One,
            _ => Word::Many,
        }).collect();
        let values = words.iter().flat_map(|(kind, known, values)| match kind {
            0 | 1 => vec![known.clone()],
            _ => values.clone(),
        });
        let found = policy.command(&unknown, &Judged::default());
        let act = Act::Exec(values.collect());
        if found.effect == Effect::Allow {
            prop_assert_eq!(judge(&policy, &act).effect, Effect::Allow, "{} {:?}", act, found);
        }
        if words.iter().all(|(kind, ..)| *kind == 0) {
            prop_assert_eq!(judge(&policy, &act), found);
        }
    }
}
