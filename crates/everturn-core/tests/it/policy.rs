//! Policy: rules and acts in, effect and rule out.

mod cases;
mod random;

use everturn_core::policy::{Act, Effect, Judged, Layer, Policy, Rule, Standing, Verdict, Word};

fn judge(policy: &Policy, act: &Act) -> Verdict {
    policy.verdict(&Judged { acts: std::slice::from_ref(act), ..Judged::default() })
}

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A policy of rules with their layers, in words.
fn policy(rules: &[(Layer, &str)]) -> Policy {
    rules.iter().fold(Policy::new(), |policy, (layer, text)| policy.rule(*layer, rule(text)))
}

fn argv(line: &str) -> Act {
    Act::Exec(line.split(' ').map(String::from).collect())
}

fn verdict(effect: Effect, layer: Layer, rule: &str) -> Verdict {
    Verdict { effect, layer, rule: rule.into() }
}

#[test]
fn what_no_rule_allows_is_denied_and_the_rule_is_named() {
    let read = || Act::Read("src/lib.rs".into());
    let tool = |name: &str| Act::Tool(name.into());
    for (acts, installed, effect, rule) in [
        (vec![read()], &["count"][..], Effect::Allow, "allow read(**)"),
        (vec![], &["count"], Effect::Allow, "allow tool(count)"),
        (vec![], &["other"], Effect::Deny, "no rule allows tool(count)"),
        (vec![tool("count")], &[], Effect::Deny, "no rule allows tool(count)"),
        (vec![tool("")], &[""], Effect::Deny, "no rule can allow tool(): its name is empty"),
        (vec![read(), read()], &[], Effect::Allow, "allow read(**)"),
        (vec![read(), tool("exec"), tool("other")], &[], Effect::Deny, "no rule allows tool(exec)"),
    ] {
        let call = Judged { tool: "count", acts: &acts, session: &[], installed };
        assert_eq!(Policy::default().verdict(&call), verdict(effect, Layer::Code, rule), "{acts:?}");
    }
}

#[test]
fn the_strictest_act_of_a_call_decides_and_of_those_the_first() {
    let policy = policy(&[(Layer::User, "allow read(**)"), (Layer::Project, "ask write(**)")]);
    let acts = [
        Act::Read("a".into()),
        Act::Write("b".into()),
        Act::Write("c".into()),
        Act::Spawn("d".into()),
        Act::Read("/e".into()),
    ];
    let judge = |policy: &Policy, acts| policy.verdict(&Judged { acts, ..Judged::default() });
    let denied = verdict(Effect::Deny, Layer::Code, "no rule allows write(b)");
    assert_eq!(judge(&policy, &acts[..3]), denied, "a project that is not trusted gives nothing");
    let asked = verdict(Effect::Ask, Layer::Project, "ask write(**)");
    assert_eq!(judge(&policy.clone().trusted(), &acts[..3]), asked);
    let denied = verdict(Effect::Deny, Layer::Code, "no rule allows spawn(d)");
    assert_eq!(judge(&policy.trusted(), &acts), denied);
}

#[test]
fn layers_decide_in_their_order() {
    use {
        Effect::{Allow, Ask, Deny},
        Layer::{Code, Organisation, Project, Session, User},
    };
    let check = |why: &str, rules: &[(Layer, &str)], expect: (Effect, Layer, &str)| {
        let (effect, layer, rule) = expect;
        let act = Act::Write("a".into());
        assert_eq!(judge(&policy(rules).trusted(), &act), verdict(effect, layer, rule), "{why}");
    };
    let (allow, ask, deny) = ("allow write(a)", "ask write(a)", "deny write(a)");
    check("a deny anywhere wins", &[(Code, deny), (Session, allow)], (Deny, Code, deny));
    check("also the last", &[(Code, allow), (Session, deny)], (Deny, Session, deny));
    check("the last layer decides", &[(Code, ask), (User, allow)], (Allow, User, allow));
    check("in both ways", &[(User, allow), (Project, ask)], (Ask, Project, ask));
    check("inside a layer ask beats allow", &[(User, ask), (User, allow)], (Ask, User, ask));
    check("a locked ask stays", &[(Organisation, ask), (Session, allow)], (Ask, Organisation, ask));
    check("a locked allow does not", &[(Organisation, allow), (User, ask)], (Ask, User, ask));
    check("what does not fit says nothing", &[(Code, allow), (User, "deny read(a)")], (Allow, Code, allow));
}

#[test]
fn any_layer_can_be_locked() {
    let policy = policy(&[(Layer::User, "ask net(*, *)"), (Layer::Session, "allow net(*, 443)")]);
    let net = Act::Net { host: "example.com".into(), port: 443 };
    assert_eq!(judge(&policy, &net).effect, Effect::Allow);
    let asked = verdict(Effect::Ask, Layer::User, "ask net(*, *)");
    assert_eq!(judge(&policy.locked(Layer::User), &net), asked);
}

#[test]
fn a_project_only_tightens_until_its_directory_is_trusted() {
    let policy = policy(&[
        (Layer::User, "allow write(**)"),
        (Layer::Project, "ask write(src/**)"),
        (Layer::Project, "deny write(keys/**)"),
        (Layer::Project, "allow spawn(*)"),
        (Layer::Project, "ask tool(rocket)"),
    ]);
    let effect = |policy: &Policy, act: Act| judge(policy, &act).effect;
    let acts = || {
        [
            Act::Write("src/a".into()),
            Act::Write("keys/a".into()),
            Act::Spawn("review".into()),
            Act::Tool("rocket".into()),
        ]
    };
    use Effect::{Allow, Ask, Deny};
    assert_eq!(acts().map(|act| effect(&policy, act)), [Ask, Deny, Deny, Deny]);
    assert_eq!(acts().map(|act| effect(&policy.clone().trusted(), act)), [Ask, Deny, Allow, Ask]);
}

#[test]
fn where_nobody_can_be_asked_an_ask_is_a_deny_that_names_the_rule() {
    let policy = policy(&[(Layer::User, "ask exec(git push **)")]).unattended();
    let denied = verdict(Effect::Deny, Layer::User, "ask exec(git push **) (nobody can be asked)");
    assert_eq!(judge(&policy, &argv("git push")), denied);
    let denied = verdict(Effect::Deny, Layer::Code, "no rule allows exec(git pull) (nobody can be asked)");
    assert_eq!(judge(&policy.otherwise(Effect::Ask), &argv("git pull")), denied);
}

#[test]
fn an_ask_in_its_broad_reading_takes_an_allow_back_and_gives_nothing() {
    let ask = (Layer::Organisation, "ask exec(rm **)");
    let behind_sudo = argv("sudo rm a");
    assert_eq!(judge(&policy(&[ask]), &behind_sudo).effect, Effect::Deny, "nothing allows it");
    let elsewhere = argv("/opt/rm a");
    assert_eq!(judge(&policy(&[ask]), &elsewhere).effect, Effect::Deny, "it is another program");
    let allowed = policy(&[ask, (Layer::User, "allow exec(/opt/rm **)")]);
    assert_eq!(judge(&allowed, &elsewhere), verdict(Effect::Ask, Layer::Organisation, "ask exec(rm **)"));
}

#[test]
fn what_hides_what_it_runs_is_asked_for_where_it_is_allowed() {
    let policy = policy(&[(Layer::User, "allow exec(sudo **)")]);
    let asked = verdict(Effect::Ask, Layer::User, "allow exec(sudo **) (it runs another program)");
    assert_eq!(judge(&policy, &argv("sudo ls")), asked);
    let denied = "allow exec(sudo **) (it runs another program) (nobody can be asked)";
    assert_eq!(
        judge(&policy.clone().unattended(), &argv("sudo ls")),
        verdict(Effect::Deny, Layer::User, denied)
    );
    let denied = "no rule allows exec(nice ls): it runs another program";
    assert_eq!(judge(&policy, &argv("nice ls")), verdict(Effect::Deny, Layer::Code, denied));
}

#[test]
fn what_no_rule_can_allow_is_denied_or_asked_for() {
    let all = [
        "read(**)",
        "read(/**)",
        "write(**)",
        "write(/**)",
        "exec(* **)",
        "net(*, *)",
        "mcp(*, *)",
        "tool(*)",
    ];
    let policy = all
        .iter()
        .fold(Policy::new(), |policy, act| policy.rule(Layer::User, rule(&format!("allow {act}"))))
        .otherwise(Effect::Allow);
    let net = |host: &str| Act::Net { host: host.into(), port: 443 };
    for act in [
        Act::Read(String::new()),
        Act::Read("a/../b".into()),
        Act::Read("../b".into()),
        Act::Read("a\u{202e}b".into()),
        Act::Read("a\u{2066}b".into()),
        Act::Write("a\u{1b}b".into()),
        Act::Write("a/.Git/hooks/b".into()),
        Act::Write("/a/.git".into()),
        Act::Exec(vec![]),
        Act::Exec(vec![String::new(), "a".into()]),
        Act::Exec(vec!["a".into(), "\0".into()]),
        net(""),
        net("."),
        net("evil.com/.example.com"),
        net("exämple.com"),
        Act::Mcp { server: "a".into(), tool: String::new() },
        Act::Spawn("a\nb".into()),
    ] {
        assert_eq!(judge(&policy, &act).effect, Effect::Deny, "{act}");
        assert_eq!(Rule::for_act(&act), None, "{act}");
    }
    for line in [
        "sudo ls",
        "find a -exec b",
        "eval a",
        "bash -eo pipefail -c a",
        "bash -oe pipefail -c a",
        "python3.12 -Bc a",
        "/bin/SH -c a",
    ] {
        assert_eq!(judge(&policy, &argv(line)).effect, Effect::Ask, "{line}");
        assert_eq!(Rule::for_act(&argv(line)), None, "{line}");
    }
    for line in [
        "sudo",
        "find a -name b",
        "bash build.sh -c a",
        "bash -x build.sh",
        "python3 -m http.server -c a",
        "python3 -W ignore a.py -c",
        "node -r ./setup.js a.js -e",
        "perl -I lib a.pl -e",
        "perl -Mre a.pl",
        "python3 -mcompileall a",
        "ruby -rjson a.rb -e",
    ] {
        assert_eq!(judge(&policy, &argv(line)).effect, Effect::Allow, "{line}");
    }
}

#[test]
fn a_place_outside_of_the_root_is_denied_unless_a_rule_names_it() {
    let named = policy(&[(Layer::User, "allow read(**)"), (Layer::User, "ask read(/etc/hosts)")])
        .otherwise(Effect::Ask);
    assert_eq!(judge(&named, &Act::Read("/etc/hosts".into())).effect, Effect::Ask);
    let denied = verdict(Effect::Deny, Layer::Code, "no rule allows read(/etc/passwd), outside of the root");
    assert_eq!(judge(&named, &Act::Read("/etc/passwd".into())), denied);
    assert_eq!(judge(&named, &Act::Read("etc/hosts".into())).effect, Effect::Allow, "this one is inside");
}

#[test]
fn hosts_are_told_apart_by_their_names_in_any_case_of_letters() {
    let policy = policy(&[(Layer::User, "allow net(*.Example.com, 443)")]);
    let effect = |host: &str, port| judge(&policy, &Act::Net { host: host.into(), port }).effect;
    use Effect::{Allow, Deny};
    assert_eq!([effect("api.example.com", 443), effect("A.B.EXAMPLE.COM.", 443)], [Allow, Allow]);
    assert_eq!([effect("example.com", 443), effect("notexample.com", 443)], [Deny, Deny]);
    assert_eq!([effect("api.example.com", 80), effect("api.example.com.evil.com", 443)], [Deny, Deny]);
}

#[test]
fn a_star_in_a_name_is_any_run_of_characters_and_nothing_is_counted_twice() {
    let fits = |pattern: &str, name: &str| {
        let policy = policy(&[(Layer::User, &format!("allow mcp({pattern}, *)"))]);
        judge(&policy, &Act::Mcp { server: name.into(), tool: "t".into() }).effect == Effect::Allow
    };
    for name in ["aa", "aba", "a a", "a*a"] {
        assert!(fits("a*a", name), "{name}");
    }
    for name in ["a", "ab", "ba", "aab"] {
        assert!(!fits("a*a", name), "{name}");
    }
    assert!(fits("a*bc*c", "abcbcc") && !fits("a*bc*c", "abc") && !fits(r"a\*", "ab"));
}

#[test]
fn a_long_command_behind_another_is_judged_in_one_pass() {
    // Tried anew from each of its words, a command of this length takes minutes.
    let words =
        [vec!["xargs".to_owned()], vec!["a".to_owned(); 200_000], vec!["rm".into(), "b".into()]].concat();
    let policy = policy(&[(Layer::User, "allow exec(* **)"), (Layer::Code, "deny exec(rm *)")]);
    assert_eq!(judge(&policy, &Act::Exec(words)).layer, Layer::Code);
}

#[test]
fn a_verdict_holds_the_beginning_of_an_act_that_is_long() {
    let long = verdict(Effect::Deny, Layer::Code, &format!("no rule allows write({}…", "ü".repeat(394)));
    assert_eq!(judge(&Policy::new(), &Act::Write("ü".repeat(100_000))), long);
}

#[test]
fn words_that_are_not_known_are_allowed_whatever_they_are_and_denied_if_they_may_be() {
    use Word::{Known, Many, One};
    let check = |rules: &[&str], words: &[Word<'_>], expect: Effect| {
        let rules: Vec<_> = rules.iter().map(|rule| (Layer::User, *rule)).collect();
        let found = policy(&rules).command(words, &Judged::default());
        assert_eq!(found.effect, expect, "{words:?}: {found:?}");
    };
    let (git, push, force) = ("allow exec(git **)", Known("push"), "deny exec(git push ** --force **)");
    check(&["allow exec(ls *)"], &[Known("ls"), One], Effect::Allow);
    check(&["allow exec(ls *)"], &[Known("ls"), Many], Effect::Deny);
    check(&["allow exec(ls **)"], &[Known("ls"), Many, One], Effect::Allow);
    check(&["allow exec(git status)"], &[Known("git"), Known("status"), Many], Effect::Deny);
    check(&["allow exec(* **)"], &[One, Known("a")], Effect::Ask);
    check(&[git, force], &[Known("git"), push, One], Effect::Ask);
    check(&[git, force], &[Known("git"), push, Many, Known("--force")], Effect::Deny);
    check(&[git, force], &[Known("git"), Known("add"), Many], Effect::Allow);
    check(&["allow exec(* **)", "deny exec(rm **)"], &[Known("sudo"), Many, Known("rm"), One], Effect::Deny);
    check(&["allow exec(sh **)"], &[Known("sh"), One], Effect::Ask);
    let unsure = policy(&[(Layer::User, git), (Layer::Code, force)]);
    let asked = verdict(Effect::Ask, Layer::Code, "deny exec(git push ** --force **) (it may fit)");
    assert_eq!(unsure.command(&[Known("git"), push, Many], &Judged::default()), asked);
}

#[test]
fn a_rule_that_cannot_be_read_says_what_is_wrong_and_what_is_right() {
    for (text, why) in [
        ("", "begin with allow, ask or deny"),
        ("alow read(a)", r#""alow" is no effect"#),
        ("allow", "write them as in read(src/**)"),
        ("allow read", "write them as in read(src/**)"),
        ("allow read(a", "write them as in read(src/**)"),
        ("allow delete(a)", "the acts are read, write, exec"),
        ("allow read()", "the path is empty"),
        ("allow read( )", "the path is empty"),
        ("allow read(~/a)", "not the home directory"),
        ("allow read(../a)", ".. never matches"),
        ("allow read(a**)", "two stars"),
        ("allow exec()", "no program"),
        ("allow exec(** a)", "write * for any"),
        ("allow exec(git  status)", "two spaces in a row"),
        (r#"allow exec(git commit -m "a b")"#, "quotes mean nothing"),
        ("allow net(example.com)", "net takes a host and a port"),
        ("allow net(example.com, https)", r#""https" is no port"#),
        ("allow net(, 443)", "a name is empty"),
        ("allow mcp(files)", "mcp takes a server and a tool"),
        ("allow tool()", "a name is empty"),
        (r"allow tool(\a)", r"\a means nothing"),
        (r"allow tool(a\)", "ends with a backslash"),
        (r"allow tool(\u{110000})", "is no character"),
        ("allow tool(a\u{202e}b)", r"write \u{202e}"),
    ] {
        let error = text.parse::<Rule>().expect_err(text).to_string();
        assert!(error.starts_with(&format!("read rule {text:?}: ")) && error.contains(why), "{error}");
    }
}

#[test]
fn an_explanation_names_all_rules_that_fit_and_the_verdict_is_the_same() {
    let policy = policy(&[
        (Layer::Session, "allow exec(git **)"),
        (Layer::Organisation, "ask exec(git push **)"),
        (Layer::Project, "allow exec(git push)"),
        (Layer::User, "deny exec(rm **)"),
    ]);
    let why = policy.explain(&argv("git push"), &Judged::default());
    assert_eq!(why.verdict, judge(&policy, &argv("git push")));
    let standings: Vec<_> = why.rules.iter().map(|one| one.standing).collect();
    assert_eq!(standings, [Standing::Decides, Standing::Untrusted, Standing::Overruled]);
    let text = "\
ask: exec(git push)
because: ask exec(git push **)
  organisation  ask exec(git push **)  decides
  project       allow exec(git push)   does not count: the project's directory is not trusted
  session       allow exec(git **)     a stricter or later rule decides";
    assert_eq!(why.to_string(), text);
    let hidden = policy.explain(&argv("git\u{1b}[2J push"), &Judged::default());
    assert_eq!(
        hidden.to_string().lines().next(),
        Some(r"deny: exec(git\u{1b}[2J push)"),
        "no control characters"
    );
}

#[test]
fn stored_verdicts_and_hashes_stay_what_they_are() {
    let stored = r#"{"effect":"allow","layer":"code","rule":"allow read(**)"}"#;
    let read: Verdict = serde_json::from_str(stored).unwrap();
    assert_eq!(read, verdict(Effect::Allow, Layer::Code, "allow read(**)"));
    assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    let policy = Policy::default();
    assert_eq!(policy.hash(), "f12d07db7e45c4bf");
    let twice = policy.clone().rule(Layer::Code, rule("allow read(**)")).locked(Layer::Organisation);
    assert_eq!(twice.hash(), policy.hash(), "what is said twice is said");
    let others =
        [policy.clone().trusted(), policy.clone().unattended(), policy.clone().otherwise(Effect::Ask)];
    assert!(others.iter().all(|other| other.hash() != policy.hash()));
}

#[test]
fn for_what_was_decided_an_ask_is_an_ask_whoever_is_there() {
    let policy = policy(&[(Layer::User, "ask exec(git push **)"), (Layer::User, "deny exec(rm **)")]);
    let decided = policy.clone().unattended().attended();
    assert_eq!(judge(&decided, &argv("git push")), judge(&policy, &argv("git push")));
    assert_eq!(judge(&decided, &argv("rm a")).effect, Effect::Deny, "what a rule denies stays denied");
}
