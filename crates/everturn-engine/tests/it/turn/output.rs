//! What tools write and models ask for, in every shape that hurts.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use everturn_core::{
    CancelToken, Error, Result,
    clock::Timestamp,
    json::RawJson,
    message::{Message, Outcome, Stop},
    model::Delta,
    storage::{Chunk, Layer, Layered, Store},
    submission::End,
    tool::{CallContext, Contract, Keep, ToolError},
};
use everturn_engine::{
    EventKind, Extension, Input, LiveSession, Settings, SystemEntropy, Todo, World,
    extension::{AfterTool, BeforeTool, CallView, Hooked},
    session_tools,
    tool::{Does, SessionCall, SessionTool, Writes},
    watch::Start,
};
use everturn_testkit::{
    manual::ManualClock,
    scripted::{Reply, Scripted},
};

use futures_util::FutureExt;

use crate::support::{Doing, Empty, ask, assert_legal, builder, results, rules, spec, store, until};

const LIMIT: usize = 50 << 10;

/// Runs one call of a tool; gives the session behind the answer, and what the model was sent.
async fn run(extension: Extension, calls: Reply) -> (LiveSession, Scripted) {
    let model = Scripted::new([calls, Reply::text("I see")]);
    let harness = builder(&store(), &model).install(extension).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "a").await.text, "I see", "the turn goes on");
    assert_legal(&model);
    (session, model)
}

async fn one(extension: Extension) -> (Outcome, String) {
    let (session, _) = run(extension, Reply::calls([("do", "{}")])).await;
    results(&session).await.pop().unwrap()
}

fn writing(pieces: &'static [&'static [u8]], contract: Contract) -> Extension {
    let tool = Doing::<0>::new(move |cx: CallContext, _| async move {
        pieces.iter().for_each(|piece| cx.output.write(piece));
        Ok("end".into())
    });
    Extension::new("test").tool(tool.contract(contract))
}

#[tokio::test]
async fn a_tool_that_prints_without_end_is_stopped_by_its_deadline() {
    let clock = ManualClock::at(Timestamp(1_000));
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
    let written = Arc::new(AtomicUsize::new(0));
    let endless = Doing::<0>::new({
        let written = written.clone();
        move |cx: CallContext, _| {
            let written = written.clone();
            async move {
                while !cx.cancel.is_cancelled() {
                    cx.output.write([b'x'; 4096]);
                    written.fetch_add(4096, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
                Err(ToolError::new("stopped"))
            }
        }
    });
    let contract = Contract { deadline: Some(Duration::from_secs(5)), ..Contract::default() };
    let tools = Extension::new("test").tool(endless.contract(contract));
    let model = Scripted::new([Reply::calls([("do", "{}")]), Reply::text("I see")]);
    let builder = builder(&store(), &model).world(world).install(tools).unwrap();
    let harness = builder.open().await.unwrap();
    harness.set(Settings { output_quota: 1 << 20, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    until("it has printed more than is kept", || written.load(Ordering::SeqCst) > 2 << 20).await;
    clock.advance(Duration::from_secs(5));
    assert_eq!(asked.answer().await.unwrap().text, "I see");
    let (outcome, text) = results(&session).await.pop().unwrap();
    assert_eq!(outcome, Outcome::TimedOut);
    assert!(text.len() < LIMIT + 300, "{} bytes", text.len());
    assert_legal(&model);
}

// What came while the next commit had to wait was forgotten when the call was told to stop meanwhile.
// Guards: what a call has written is shown, whatever else happens to the call.
#[tokio::test]
async fn what_was_written_right_before_a_cancellation_is_shown() {
    let clock = ManualClock::at(Timestamp(1_000));
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
    let (more, told, end) = (CancelToken::new(), CancelToken::new(), CancelToken::new());
    let slow = Doing::<0>::new({
        let (more, told, end) = (more.clone(), told.clone(), end.clone());
        move |cx: CallContext, _| {
            let (more, told, end) = (more.clone(), told.clone(), end.clone());
            async move {
                cx.output.write("first");
                more.cancelled().await;
                cx.output.write("second");
                cx.cancel.cancelled().await;
                told.cancel();
                end.cancelled().await;
                Ok("end".into())
            }
        }
    });
    let model = Scripted::new([Reply::calls([("do", "{}")])]);
    let tools = Extension::new("test").tool(slow);
    let harness = builder(&store(), &model).world(world).install(tools).unwrap().open().await.unwrap();
    harness.set(Settings { flush_ms: 1_000, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    let mut events = session.root().events(Start::Now).await.unwrap();
    let mut shown = async |text: &str| loop {
        match events.next().await.unwrap().unwrap().kind {
            EventKind::Output { delta, .. } if delta.contains(text) => return,
            _ => {}
        }
    };
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    shown("first").await;
    let slept = clock.slept();
    more.cancel();
    until("the pause before the next commit has begun", || clock.slept() > slept).await;
    asked.cancel().await.unwrap();
    told.cancelled().await;
    clock.advance(Duration::from_secs(1));
    shown("second").await;
    end.cancel();
    assert_eq!(asked.answer().await.unwrap().end, End::Cancelled);
    assert_legal(&model);
}

#[tokio::test]
async fn a_tool_that_does_not_stop_is_given_up_behind_its_deadline() {
    let clock = ManualClock::at(Timestamp(1_000));
    let world = World { clock: Arc::new(clock.clone()), entropy: Arc::new(SystemEntropy) };
    let deaf = Doing::<0>::new(|cx: CallContext, _| async move {
        cx.output.write("begun");
        std::future::pending().await
    });
    let contract = Contract { deadline: Some(Duration::from_secs(5)), ..Contract::default() };
    let tools = Extension::new("test").tool(deaf.contract(contract));
    let model = Scripted::new([Reply::calls([("do", "{}")]), Reply::text("I see")]);
    let harness = builder(&store(), &model).world(world).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    until("the call waits", || clock.sleepers() > 0 && model.count() == 1).await;
    while session.open_submissions().len() == 1 {
        clock.advance(Duration::from_secs(5));
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.answer().await.unwrap().text, "I see");
    let (outcome, text) = results(&session).await.pop().unwrap();
    assert_eq!(outcome, Outcome::TimedOut);
    assert!(text.starts_with("begun\n"), "{text}");
    assert_legal(&model);
}

#[tokio::test]
async fn a_result_of_a_hundred_megabytes_is_cut_and_kept_up_to_the_quota() {
    let tool = Doing::<0>::new(|_, _| async { Ok("line\n".repeat(20 << 20).into()) });
    let tool = tool.contract(Contract { keep: Keep::Both, ..Contract::default() });
    let (session, _) = run(Extension::new("test").tool(tool), Reply::calls([("do", "{}")])).await;
    let entries = session.entries(session.root().id(), None, 99).await.unwrap();
    let result = entries.iter().flat_map(|entry| &entry.messages).find_map(|message| match &**message {
        Message::Result(result) => Some(result.clone()),
        _ => None,
    });
    let result = result.unwrap();
    assert!(result.truncated && result.text.len() < LIMIT + 300);
    assert!(result.text.lines().count() <= 2_003, "{} lines", result.text.lines().count());
    assert!(result.text.contains("(104857600 bytes in all, the rest is left out)"));
    let whole = result.whole.unwrap();
    assert!(result.text.contains(&whole.to_string()), "the result names it");
    assert_eq!(session.blob(whole, 0..u64::MAX).await.unwrap().bytes.len(), 16 << 20);
}

#[tokio::test]
async fn what_is_no_text_becomes_text() {
    let pieces: &[&[u8]] =
        &[b"caf\xc3", b"\xa9 \xff\xfe ", b"\x1b[31mred\x1b[0m\x07\r\n", b"\xe2\x80\xaeevil"];
    let (outcome, text) = one(writing(pieces, Contract::default())).await;
    assert_eq!(outcome, Outcome::Ok);
    assert!(text.starts_with("café \u{fffd}\u{fffd} "), "{text:?}");
    assert!(text.ends_with("\nend"), "{text:?}");
    let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!text.chars().any(is_bad), "{text:?}");
}

#[tokio::test]
async fn arguments_with_half_a_character_never_reach_a_tool() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counting = Doing::<0>::new({
        let ran = ran.clone();
        move |_, _| {
            ran.fetch_add(1, Ordering::SeqCst);
            async { Ok("done".into()) }
        }
    });
    let store = store();
    let half =
        Reply::calls([("do", r#"{"a":"\ud800"}"#), ("do", r#"{"\udc00":1}"#), ("do", r#"{"a":"ok"}"#)]);
    let model = Scripted::new([half, Reply::text("I see"), Reply::text("more")]);
    let tools = Extension::new("test").tool(counting);
    let harness = builder(&store, &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "a").await.text, "I see");
    let words: Vec<_> = results(&session).await.iter().map(|(outcome, _)| outcome.word()).collect();
    assert_eq!(words, ["invalid_arguments", "invalid_arguments", "ok"]);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    let id = session.id();
    session.close().await.unwrap();
    drop(session);
    let session = harness.open_session(id).await.unwrap();
    assert_eq!(ask(&session, "b").await.text, "more", "what was stored can be read");
    assert_eq!(harness.verify(id).await.unwrap(), []);
    assert_legal(&model);
}

#[tokio::test]
async fn broken_arguments_are_quoted_and_stored_as_json() {
    let calls = Reply::calls([("do", r#"{"a": 1"#), ("do", "[1]"), ("do", "null"), ("do", "  ")]);
    let tools = Extension::new("test").tool(Doing::<0>::says("done"));
    let (session, model) = run(tools, calls).await;
    let results = results(&session).await;
    let words: Vec<_> = results.iter().map(|(outcome, _)| outcome.word()).collect();
    assert_eq!(words, ["invalid_arguments", "invalid_arguments", "ok", "ok"]);
    assert!(results[0].1.contains(r#"{"a": 1: EOF while parsing"#), "{}", results[0].1);
    let sent = model.requests().pop().unwrap();
    let calls = sent.messages.iter().find_map(|message| match &**message {
        Message::Assistant(assistant) => Some(assistant.clone()),
        _ => None,
    });
    for call in calls.unwrap().calls() {
        call.arguments.read::<serde_json::Value>().expect("what is stored is JSON");
    }
}

#[tokio::test]
async fn odd_ids_of_a_provider_lead_each_result_to_its_call() {
    let call = |number: u32, id: Option<&str>| {
        let provider = id.map(str::to_owned);
        let piece = format!(r#"{{"n":{number}}}"#);
        [
            Delta::CallStart { call: number, provider, name: "do".into() },
            Delta::CallArguments { call: number, piece },
            Delta::CallEnd { call: number },
        ]
    };
    let odd = || {
        let ids = [Some(""), Some("call_1"), Some("call_1"), None, Some("")];
        let calls = ids.into_iter().zip(0..).flat_map(|(id, number)| call(number, id));
        Reply::pieces(calls.chain([Delta::End(Stop::Calls)]).map(Ok))
    };
    let echo = Doing::<0>::new(|_, arguments| async move { Ok(arguments.to_string().into()) });
    let model = Scripted::new([odd(), odd(), Reply::text("I see")]);
    let tools = Extension::new("test").tool(echo);
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "a").await.text, "I see");
    let sent = model.requests().pop().unwrap();
    let mut asked = std::collections::BTreeMap::new();
    let mut told = 0;
    for message in sent.messages.iter() {
        match &**message {
            Message::Assistant(assistant) => {
                asked
                    .extend(assistant.calls().map(|call| (call.id.clone(), call.arguments.get().to_owned())));
            }
            Message::Result(result) => {
                assert_eq!(asked[&result.call], result.text);
                told += 1;
            }
            _ => {}
        }
    }
    assert_eq!((asked.len(), told), (10, 10), "our own ids are unique");
    assert_legal(&model);
}

#[tokio::test]
async fn a_model_that_never_stops_calling_is_stopped_by_its_steps() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = Scripted::answering(move |_| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        Reply::calls([("do", format!(r#"{{"n":{n}}}"#).as_str()), ("fly", "{}")])
    });
    let tools = Extension::new("test").tool(Doing::<0>::says("done"));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    harness.set(Settings { steps_max: 7, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    let answer = ask(&session, "a").await;
    assert_eq!((answer.end, answer.steps), (End::Failed { reason: "max_steps".into() }, 7));
    assert_eq!(model.count(), 7);
    assert_eq!(results(&session).await.len(), 14, "each call has its result");
    assert_legal(&model);
}

#[tokio::test]
async fn an_answer_without_words_is_an_answer() {
    let nothing = || Reply::pieces([Ok(Delta::End(Stop::Answer))]);
    let model = Scripted::new([nothing(), Reply::text(""), Reply::text("  "), Reply::text("at last")]);
    let harness = builder(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    for text in ["", "", "  ", "at last"] {
        let answer = ask(&session, "a").await;
        assert_eq!((answer.text.as_str(), answer.end), (text, End::Answered));
    }
    assert_legal(&model);
}

#[tokio::test]
async fn a_stop_for_calls_without_calls_is_no_answer() {
    let model = Scripted::new([Reply::text("so").stop(Stop::Calls), Reply::text("better")]);
    let harness = builder(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    assert_eq!(ask(&session, "a").await.end, End::Failed { reason: "malformed".into() });
    assert_eq!(ask(&session, "b").await.text, "better");
    assert_legal(&model);
}

/// A hook that breaks, before calls and behind them.
struct Breaking;

impl BeforeTool for Breaking {
    async fn before(&self, _: &CallView) -> Hooked {
        panic!("the hook came off")
    }
}

impl AfterTool for Breaking {
    async fn after(&self, _: &CallView, _: &Outcome, _: String) -> String {
        panic!("the hook came off")
    }
}

#[tokio::test]
async fn a_hook_that_breaks_before_a_call_keeps_it_from_running() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counting = Doing::<0>::new({
        let ran = ran.clone();
        move |_, _| {
            ran.fetch_add(1, Ordering::SeqCst);
            async { Ok("done".into()) }
        }
    });
    let (outcome, text) = one(Extension::new("test").tool(counting).before_tool(Breaking)).await;
    assert_eq!((outcome.word(), ran.load(Ordering::SeqCst)), ("declined", 0));
    assert!(text.contains("the hook came off"), "{text}");
}

#[tokio::test]
async fn a_hook_that_breaks_behind_a_call_leaves_its_result() {
    let tools = Extension::new("test").tool(Doing::<0>::says("done")).after_tool(Breaking);
    assert_eq!(one(tools).await, (Outcome::Ok, "done".into()));
}

/// A hook that has its own view of arguments and results.
struct Changing;

impl BeforeTool for Changing {
    async fn before(&self, call: &CallView) -> Hooked {
        match call.arguments.get() {
            r#"{"n":1}"# => Hooked::Rewrite(RawJson::parse(r#"{"n":2}"#).unwrap()),
            r#"{"n":3}"# => Hooked::Rewrite(RawJson::parse("[]").unwrap()),
            r#"{"n":4}"# => Hooked::Block("no fours".into()),
            _ => Hooked::Pass,
        }
    }
}

impl AfterTool for Changing {
    async fn after(&self, call: &CallView, outcome: &Outcome, text: String) -> String {
        format!("{} {}: {text}", call.tool, outcome.word())
    }
}

#[tokio::test]
async fn hooks_rewrite_block_and_see_results() {
    let echo = Doing::<0>::new(|_, arguments| async move { Ok(arguments.to_string().into()) });
    let tools = Extension::new("test").tool(echo).before_tool(Changing).after_tool(Changing);
    let calls = [1, 3, 4, 5].map(|n| format!(r#"{{"n":{n}}}"#));
    let calls = Reply::calls(calls.iter().map(|arguments| ("do", arguments.as_str())));
    let (_, model) = run(tools, calls).await;
    let texts = model.requests()[1].texts();
    assert_eq!(texts[2], r#"do ok: {"n":2}"#);
    assert!(texts[3].contains("invalid type: sequence"), "what a hook makes is validated: {}", texts[3]);
    assert_eq!(texts[4], "Refused by the host: no fours");
    assert_eq!(texts[5], r#"do ok: {"n":5}"#);
}

// A tool whose acts broke failed the whole turn, and the response of the model was lost with it.
// Guards: a tool that breaks while it is judged is an error result, and does not run.
#[tokio::test]
async fn a_tool_that_breaks_while_it_is_judged_is_an_error_result() {
    let tools = Extension::new("test").tool(Doing::<0>::says("done"));
    let (session, _) = run(tools, Reply::calls([("do", r#"{"panic":1}"#), ("do", "{}")])).await;
    let results = results(&session).await;
    assert_eq!(results[1], (Outcome::Ok, "done".into()));
    assert_eq!(results[0].0, Outcome::Error);
    assert!(results[0].1.contains("no acts for this"), "{results:?}");
}

/// A tool of the session that has much to say.
struct Talking;

impl SessionTool for Talking {
    const NAME: &'static str = "do";
    type Arguments = Empty;

    fn description(&self) -> &'static str {
        "Talks."
    }

    async fn run(&self, _: &SessionCall, _: Empty) -> std::result::Result<Does, ToolError> {
        Ok(Does::from("\u{1b}[2Jblah ".repeat(1 << 20)))
    }
}

// What a session's tool gave went into its entry as it was: a long text faulted the call.
// Guards: limits hold for the results of all tools.
#[tokio::test]
async fn a_tool_of_the_session_keeps_within_limits_too() {
    let (outcome, text) = one(Extension::new("test").session_tool(Talking)).await;
    assert_eq!(outcome, Outcome::Ok);
    assert!(text.len() < LIMIT + 300 && !text.contains('\u{1b}'), "{} bytes", text.len());
}

/// Looks whether a session's line of commits is free while somebody else's code runs.
#[derive(Clone, Default)]
struct Line {
    session: Arc<OnceLock<LiveSession>>,
    seen: Arc<Mutex<Vec<(&'static str, bool)>>>,
}

impl Line {
    fn look(&self, who: &'static str) {
        let Some(session) = self.session.get() else { return };
        let is_free = session.begin().now_or_never().is_some();
        self.seen.lock().unwrap().push((who, is_free));
    }
}

impl AfterTool for Line {
    async fn after(&self, _: &CallView, _: &Outcome, text: String) -> String {
        self.look("hook");
        text
    }
}

/// A store that looks at the line whenever a piece of a blob is written.
struct Looking(Store, Line);

impl Layer for Looking {
    fn inner(&self) -> Store {
        self.0.clone()
    }

    async fn put_chunk(&self, chunk: Chunk) -> Result<()> {
        self.1.look("blob");
        self.0.put_chunk(chunk).await
    }
}

// Hooks ran, and outputs were kept as blobs, while the transaction of a session's tool held the line: a hook that asked the
// session for anything waited for itself, and everybody for the hook.
// Guards: what a call writes is staged when all that is done to its result is done.
#[tokio::test]
async fn hooks_and_blobs_of_a_session_s_tool_do_not_hold_the_line() {
    let line = Line::default();
    let items: Vec<_> = (0..4_000)
        .map(|n| serde_json::json!({"text": format!("item {n} of many"), "status": "open"}))
        .collect();
    let todo = serde_json::json!({ "items": items }).to_string();
    let model = Scripted::answering(move |request| match request.texts().last().map(String::as_str) {
        Some("go") => Reply::calls([("todo", todo.as_str()), ("agent", r#"{"prompt":"talk"}"#)]),
        Some("talk") => Reply::text("blah ".repeat(LIMIT)),
        _ => Reply::text("I see"),
    });
    let looking = Store::new(Layered(Looking(store(), line.clone())));
    let hook = Extension::new("hook").after_tool(line.clone());
    let builder = builder(&looking, &model).policy(rules(&["allow spawn(*)", "allow tool(*)"]));
    let harness = builder.install(session_tools()).unwrap().install(hook).unwrap().open().await.unwrap();
    harness.set(Settings { output_quota: 1 << 20, ..harness.settings() }).unwrap();
    let session = harness.create(spec()).await.unwrap();
    line.session.set(session.clone()).unwrap();
    ask(&session, "go").await;
    let results = results(&session).await;
    assert!(results.iter().all(|(outcome, text)| *outcome == Outcome::Ok && text.contains("is kept as")));
    let seen = line.seen.lock().unwrap().clone();
    for who in ["hook", "blob"] {
        assert!(seen.iter().any(|(by, _)| *by == who), "{who} in {seen:?}");
    }
    assert!(seen.iter().all(|(_, is_free)| *is_free), "{seen:?}");
    let kept = session.snapshot::<Todo>(session.root().id()).await.unwrap().unwrap();
    assert_eq!(kept.items.len(), 4_000);
    assert_legal(&model);
}

/// A tool of the session whose writes do not fit.
struct Wrong;

impl SessionTool for Wrong {
    const NAME: &'static str = "do";
    type Arguments = Empty;

    fn description(&self) -> &'static str {
        "Writes what cannot be written."
    }

    async fn run(&self, _: &SessionCall, _: Empty) -> std::result::Result<Does, ToolError> {
        Ok(Does::Stored("done".into(), Writes::new(|_| async { Err(Error::invalid("it does not fit")) })))
    }
}

#[tokio::test]
async fn writes_that_cannot_be_staged_are_the_result_of_their_call() {
    let (outcome, text) = one(Extension::new("test").session_tool(Wrong)).await;
    assert_eq!((outcome, text.as_str()), (Outcome::Error, "it does not fit"));
}
