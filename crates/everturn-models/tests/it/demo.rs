//! The demo model in a small world of files, with tools that print as the real ones do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use everturn_core::{
    json::RawJson,
    message::{Assistant, Call, CallId, CallResult, Message, Outcome, Part, Stop, Usage},
    model::{Delta, Model, Request},
    tool::ToolSpec,
};
use everturn_models::{
    Demo,
    demo::{Ask, Reply, decide},
};
use futures_util::{FutureExt, StreamExt};
use globset::GlobBuilder;
use serde_json::{Value, json};

use crate::{clock::ManualClock, fold::Folded};

const TOOLS: &[&str] = &["read", "list", "glob", "grep"];
const NOTE: &str = "\n\n(I am the demo: a few rules, no language model.)";

/// Files by path, and a conversation about them.
struct World {
    files: BTreeMap<String, String>,
    messages: Vec<Message>,
    tools: &'static [&'static str],
    /// The calls of each step.
    steps: Vec<Vec<Ask>>,
}

impl World {
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files = files.into_iter().map(|(path, text)| (path.into(), text.into()));
        Self { files: files.collect(), messages: Vec::new(), tools: TOOLS, steps: Vec::new() }
    }

    /// Asks, makes the calls that the demo wants, and gives its answer.
    fn ask(&mut self, question: &str) -> String {
        self.messages.push(Message::user(question));
        loop {
            match decide(&self.request()) {
                Reply::Text(text) => {
                    self.messages.push(Message::assistant(&text));
                    return text.strip_suffix(NOTE).unwrap_or(&text).to_owned();
                }
                Reply::Calls(asks) => self.make(asks),
            }
        }
    }

    fn request(&self) -> Request {
        let spec = |name: &&str| ToolSpec {
            name: (*name).into(),
            description: String::new(),
            parameters: RawJson::empty(),
        };
        Request {
            tools: self.tools.iter().map(spec).collect(),
            ..Request::new("demo", self.messages.clone())
        }
    }

    fn make(&mut self, asks: Vec<Ask>) {
        let call = |at: usize| CallId(format!("c{}.{at}", self.steps.len()));
        let calls = asks.iter().enumerate().map(|(at, ask)| {
            Part::Call(Call {
                id: call(at),
                provider: None,
                name: ask.tool.into(),
                arguments: RawJson::of(&ask.arguments).unwrap(),
            })
        });
        let answer = Assistant { parts: calls.collect(), ..Assistant::default() };
        let results = asks.iter().enumerate().map(|(at, ask)| {
            let (text, outcome) = match self.run(ask) {
                Ok(text) => (text, Outcome::Ok),
                Err(text) => (text, Outcome::Error),
            };
            Message::Result(CallResult::new(call(at), outcome, text))
        });
        let results: Vec<_> = results.collect();
        self.messages.push(Message::Assistant(answer));
        self.messages.extend(results);
        self.steps.push(asks);
        assert!(self.steps.len() < 100, "it never comes to an answer");
    }

    fn run(&self, ask: &Ask) -> Result<String, String> {
        let text = |name: &str| ask.arguments[name].as_str().unwrap();
        match ask.tool {
            "read" => self.read(text("path"), ask.arguments["offset"].as_u64().unwrap_or(1)),
            "list" => Ok(self.list(text("path"))),
            "glob" => Ok(self.glob(text("pattern"))),
            "grep" => Ok(self.grep(&text("pattern").replace('\\', ""))),
            other => Err(format!("no tool {other}")),
        }
    }

    /// Three lines at once, so that longer files take several pages.
    fn read(&self, path: &str, offset: u64) -> Result<String, String> {
        if path.contains("denied") {
            return Err("not for you".into());
        }
        let text = self.files.get(path).ok_or(format!("read {path}: no such file"))?;
        let from = usize::try_from(offset).unwrap() - 1;
        let lines: Vec<_> = text.lines().enumerate().skip(from).collect();
        let shown: String =
            lines.iter().take(3).map(|(at, line)| format!("{:>6}\t{line}\n", at + 1)).collect();
        Ok(match lines.len() {
            0 => "(the file is empty)".into(),
            1..=3 => shown,
            _ => format!("{shown}(more lines follow: read on with offset {})", offset + 3),
        })
    }

    fn list(&self, folder: &str) -> String {
        let inside = self.files.keys().filter_map(|path| match folder {
            "." => Some(path.as_str()),
            folder => path.strip_prefix(folder)?.strip_prefix('/'),
        });
        let names = inside.map(|path| match path.split_once('/') {
            Some((folder, _)) => format!("{folder}/\n"),
            None => format!("{path}\n"),
        });
        let mut names: Vec<_> = names.collect();
        names.dedup();
        names.concat()
    }

    fn glob(&self, pattern: &str) -> String {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().unwrap().compile_matcher();
        let paths: String =
            self.files.keys().filter(|path| glob.is_match(path)).map(|path| format!("{path}\n")).collect();
        if paths.is_empty() { "(no file matches)".into() } else { paths }
    }

    fn grep(&self, word: &str) -> String {
        let lines = self.files.iter().flat_map(|(path, text)| {
            let lines = text.lines().enumerate().filter(|(_, line)| line.contains(word));
            lines.map(move |(at, line)| format!("{path}:{}:{line}\n", at + 1))
        });
        let places: String = lines.collect();
        if places.is_empty() { "(no line matches)".into() } else { places }
    }
}

const LARGEST: &str = "Which function under src returns the largest number?";

/// The first sentence of the answer about one file.
#[track_caller]
fn check_largest(path: &str, text: &str, expected: &str) {
    let answer = World::new([(path, text)]).ask(LARGEST);
    assert!(answer.starts_with(expected), "{path}: {answer}\n{text}");
}

#[test]
fn the_largest_number_is_found_in_each_language() {
    check_largest(
        "src/lib.rs",
        "/// Returns 99999.\npub fn small() -> u32 {\n    7\n}\n\npub(crate) fn big<'a>(x: &'a str) -> u64 {\n    if x == \"return 5_000_000;\" {\n        \
         return 3;\n    }\n    12_345u64 // and not 99_999\n}\nfn sum() -> u64 { 99_999 + 1 }\n\
         fn size(x: u64) -> u64 {\n    let y = if x > 1 { 88_888 } else { 77_777 };\n    y + x\n}\n",
        "`big` returns the largest number: 12345 (src/lib.rs, line 6).",
    );
    check_largest(
        "src/a.rs",
        "trait T { fn none(&self) -> [u8; 4]; fn some(&self) -> i32 { -4 } }\nfn hex() -> u8 { 0xFF }\n",
        "`hex` returns the largest number: 255 (src/a.rs, line 2).",
    );
    check_largest(
        "src/a.py",
        "class A:\n    def one(self):\n        \"\"\"return 900\"\"\"\n        def inner():\n            return 50\n        # return 800\n        \
         return 7\n\ndef two(): return 8\nX = 1\n",
        "`inner` returns the largest number: 50 (src/a.py, line 4).",
    );
    check_largest(
        "src/a.js",
        "const one = (a, b) => 41;\nfunction two() { return `return 90`; }\nclass C { three(x) { if (x) { return 42 } } }\n",
        "`three` returns the largest number: 42 (src/a.js, line 3).",
    );
    check_largest(
        "src/a.ts",
        "export async function one(a: number): Promise<number> {\n  return 5;\n}\nconst two = async (x) => {\n  return 6\n}\n",
        "`two` returns the largest number: 6 (src/a.ts, line 4).",
    );
    check_largest(
        "src/a.go",
        "func one() int {\n\treturn 5\n}\nfunc (t *T) two(n int) (int, error) {\n\treturn 77, nil\n}\n",
        "`two` returns the largest number: 77 (src/a.go, line 4).",
    );
    check_largest(
        "src/a.c",
        "int none(void);\nstatic long\nbig(int x)\n{\n  if (x) { return 1000L; }\n  return -1;\n}\nint main() { return 0; }\n",
        "`big` returns the largest number: 1000 (src/a.c, line 3).",
    );
    check_largest(
        "src/a.py",
        "def one():\n    return 1.5\n",
        "I read 1 file and saw no function under src that returns a number as it stands.",
    );
}

#[test]
fn the_answer_says_what_was_read() {
    let mut world = World::new([
        ("src/a.rs", "fn a() -> u8 { 1 }\n"),
        ("src/b/c.py", "def c():\n    return 2\n"),
        ("x.rs", ""),
    ]);
    let expected = "`c` returns the largest number: 2 (src/b/c.py, line 1). I read 2 files and saw 2 functions with a number \
                    to return as it stands.";
    assert_eq!(world.ask(LARGEST), expected);
    let reads = |path: &str| Ask::new("read", json!({"path": path}));
    assert_eq!(world.steps[1], [reads("src/a.rs"), reads("src/b/c.py")], "both at once");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let mut world =
        World::new([("src/a.rs", "fn a() -> u8 { 1 }\n"), ("src/denied.rs", "fn b() -> u8 { 2 }\n")]);
    let expected = "`a` returns the largest number: 1 (src/a.rs, line 1). I read 1 file and saw 1 function with a number to \
                    return as it stands. I could not read src/denied.rs (error: not for you).";
    assert_eq!(world.ask(LARGEST), expected);
}

#[test]
fn a_folder_further_down_is_found_too() {
    let mut world = World::new([
        ("crates/one/src/lib.rs", "fn a() -> u8 { 1 }\n"),
        ("crates/one/tests/a.rs", "fn b() -> u8 { 2 }"),
    ]);
    assert!(
        world.ask(LARGEST).starts_with("`a` returns the largest number: 1 (crates/one/src/lib.rs, line 1).")
    );
}

#[test]
fn many_files_are_read_a_few_at_a_time_and_long_ones_page_by_page() {
    let files: Vec<_> = (0..30)
        .map(|n| (format!("src/f{n:02}.rs"), format!("\n\n\n\nfn f{n}() -> u8 {{\n    {n}\n}}\n")))
        .collect();
    let mut world = World::new(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    assert!(world.ask(LARGEST).starts_with("`f29` returns the largest number: 29 (src/f29.rs, line 5)."));
    assert!(world.steps.iter().all(|asks| asks.len() <= 8), "bounded");
    let mut made: Vec<_> = world.steps.concat().iter().map(|ask| format!("{ask:?}")).collect();
    made.sort();
    made.dedup();
    let calls: usize = world.steps.iter().map(Vec::len).sum();
    assert_eq!((made.len(), calls), (91, 91), "one glob, three pages of thirty files, none twice");
}

#[track_caller]
fn check(question: &str, expected: &str) {
    let readme = "# Pond\n\nThree frogs.\nNo fish.\nfrogs!\n";
    let mut world = World::new([("README.md", readme), ("src/lib.rs", "// frogs\n"), ("src/bin/a.py", "")]);
    assert_eq!(world.ask(question), expected, "{question}");
}

#[test]
fn questions_about_files_are_answered() {
    check("How many files are there?", "I count 3 files here.");
    check("how many files are in the src directory?", "I count 2 files under src.");
    check("How many Python files are there in total?", "I count 1 file here.");
    check("Which files are in src?", "I see 2 names in src.\n- bin/\n- lib.rs");
    check("list the files", "I see 2 names here.\n- README.md\n- src/");
    check("How many lines are in README.md?", "README.md has 5 lines.");
    check("show me `src/lib.rs`, please", "src/lib.rs:\n\n```\n// frogs\n```");
    check(
        "find frogs",
        "I found `frogs` in 3 places.\n- README.md:3:Three frogs.\n- README.md:5:frogs!\n- src/lib.rs:1:// frogs",
    );
    check("Where is \"No fish.\"?", "I found `No fish.` in 1 place.\n- README.md:4:No fish.");
    check("search for toads", "I found `toads` nowhere.");
    check("show", "Which file? Ask for example: show README.md");
}

#[test]
fn what_fails_is_told() {
    check("read NOTES.md", "I could not read NOTES.md (error: read NOTES.md: no such file).");
    check("which function under lib returns the largest number?", "I found no source files under lib.");

    let long = "x\n".repeat(200);
    let answer = World::new([("long.txt", long.as_str())]).ask("how many lines are in long.txt?");
    assert_eq!(answer, "I could not read long.txt (it is longer than 50 pages).");

    let mut world = World::new([]);
    world.tools = &["read"];
    assert_eq!(world.ask("find frogs"), "For that I need the tool `grep`, and it is not on offer here.");
    assert!(world.steps.is_empty());
}

#[test]
fn a_denied_call_is_told_and_not_made_again() {
    let call = Call {
        id: CallId("c1".into()),
        provider: None,
        name: "grep".into(),
        arguments: RawJson::parse(r#"{"pattern":"frogs"}"#).unwrap(),
    };
    let denied = Message::Result(CallResult::new(
        call.id.clone(),
        Outcome::Denied { rule: "deny read(**)".into() },
        "denied by the rule deny read(**)",
    ));
    let mut world = World::new([]);
    let asked = Message::Assistant(Assistant { parts: vec![Part::Call(call)], ..Assistant::default() });
    world.messages = vec![Message::user("find frogs"), asked, denied];
    let expected = "I called `grep` with `{\"pattern\":\"frogs\"}`, and it did not work (denied): denied by the rule deny \
                    read(**)";
    assert_eq!(decide(&world.request()), Reply::Text(format!("{expected}{NOTE}")));
}

#[test]
fn it_remembers_the_conversation() {
    let mut world = World::new([("a.md", "x\n")]);
    assert_eq!(world.ask("What is the first question of this conversation?"), "This is your first question.");
    world.ask("how many files are there?");
    let first = "Your first question was: What is the first question of this conversation?";
    assert_eq!(world.ask("What did I ask first?"), first);
    assert_eq!(world.steps.len(), 1);
}

#[test]
fn it_says_what_it_is() {
    for question in ["Hello!", "hi", "Who are you?", "what can you do", "Write me a poem.", ""] {
        let answer = World::new([]).ask(question);
        assert!(
            answer.contains("no language model") && answer.contains("- show a file"),
            "{question}: {answer}"
        );
    }
    assert!(World::new([]).ask("Write me a poem.").starts_with("That is more than I can do. "));
}

#[test]
fn calls_stream_like_those_of_any_model() {
    let mut world = World::new([]);
    world.messages.push(Message::user("list src"));
    let demo = Demo::new(Arc::new(ManualClock::default()), Duration::from_secs(1));
    let deltas = demo.stream(world.request()).collect::<Vec<_>>().now_or_never();
    let folded = Folded::of(deltas.expect("calls need no pace"));
    let call = json!({"name": "list", "arguments": {"path": "src"}, "provider_id": Value::Null});
    assert_eq!((folded.calls(), folded.stop), (json!([call]), Some(Stop::Calls)));
    assert_eq!(folded.usage, Some(Usage { input: Some(2), output: Some(1), ..Usage::default() }));
}

#[tokio::test]
async fn words_come_at_the_pace_of_the_clock() {
    let clock = ManualClock::default();
    let demo = Demo::new(Arc::new(clock.clone()), Duration::from_millis(20));
    let mut stream = demo.stream(Request::new("demo", [Message::user("hello")]));
    assert!(matches!(stream.next().await, Some(Ok(Delta::Started { .. }))));
    assert_eq!(stream.next().now_or_never(), None);
    clock.advance(Duration::from_millis(19));
    assert_eq!(stream.next().now_or_never(), None);
    clock.advance(Duration::from_millis(1));
    assert_eq!(stream.next().now_or_never(), Some(Some(Ok(Delta::Text("Hello! ".into())))));
}
