//! What a model is told beside the messages: only what differs, and each request begins with the one before it.

use everturn_core::{
    document::Document,
    entry::{Edit, Entry, Head, kind},
    id::ConversationId,
    json::RawJson,
    message::{Message, Part, Stop},
    model::{Abilities, Delta, FaultClass, Request},
    prompt::{Epoch, EpochReason},
    storage::Store,
    tool::ToolError,
};
use everturn_engine::{
    AgentChange, Extension, Harness, Input, LiveSession, Models,
    extension::{PromptSection, SectionContext, SectionWrap},
    tool::{Does, SessionCall, SessionTool, Spawn, Writes},
};
use everturn_testkit::scripted::{Reply, Scripted};
use serde::{Deserialize, Serialize};

use crate::support::{Able, Doing, Empty, ask, assert_legal, builder, spec, store};

const ROOT: ConversationId = ConversationId::ROOT;

#[derive(Clone, Debug, Default, PartialEq, Document, Serialize, Deserialize)]
#[document(kind = "test.plan", version = 1, scope = "conversation", crate = "everturn_core")]
struct Plan {
    text: String,
}

/// A section that reads a document, and waits before it does.
struct Planned;

impl PromptSection for Planned {
    fn key(&self) -> &'static str {
        "plan"
    }

    async fn render(&self, cx: &SectionContext<'_>) -> Option<String> {
        tokio::task::yield_now().await;
        Some(cx.snapshot::<Plan>(cx.conversation()).await.ok()??.text)
    }
}

/// A section without tags, which sub-agents do not have.
struct Polite;

impl PromptSection for Polite {
    fn key(&self) -> &'static str {
        "polite"
    }

    fn is_tagged(&self) -> bool {
        false
    }

    async fn render(&self, cx: &SectionContext<'_>) -> Option<String> {
        (!cx.is_sub_agent()).then(|| "A person reads this.".into())
    }
}

/// A section that breaks.
struct Broken;

impl PromptSection for Broken {
    fn key(&self) -> &'static str {
        "broken"
    }

    async fn render(&self, _: &SectionContext<'_>) -> Option<String> {
        panic!("no words")
    }
}

struct Loud;

impl SectionWrap for Loud {
    fn key(&self) -> &'static str {
        "rules"
    }

    async fn wrap(&self, _: &SectionContext<'_>, text: Option<String>) -> Option<String> {
        text.map(|text| text.to_uppercase())
    }
}

/// A tool that plans, in the commit of its call.
struct MakePlan;

#[derive(Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

impl SessionTool for MakePlan {
    const NAME: &'static str = "make_plan";
    type Arguments = Text;

    fn description(&self) -> &'static str {
        "Makes a plan."
    }

    async fn run(&self, cx: &SessionCall, Text { text }: Text) -> Result<Does, ToolError> {
        let conversation = cx.conversation;
        let writes = Writes::new(move |mut tx| async move {
            tx.doc::<Plan>(conversation).await?.text = text;
            Ok(tx)
        });
        Ok(Does::Stored("planned".into(), writes))
    }
}

/// A tool that has a sub-agent do it.
struct Delegate;

impl SessionTool for Delegate {
    const NAME: &'static str = "delegate";
    type Arguments = Empty;

    fn description(&self) -> &'static str {
        "Has it done."
    }

    async fn run(&self, _: &SessionCall, _: Empty) -> Result<Does, ToolError> {
        Ok(Does::Spawn(Spawn::new("do it")))
    }
}

fn systems(request: &Request) -> Vec<String> {
    let is_system = |message: &&std::sync::Arc<Message>| matches!(&***message, Message::System(_));
    request.messages.iter().filter(is_system).map(|message| message.text()).collect()
}

#[tokio::test]
async fn only_what_differs_is_told() {
    let model = Scripted::new([
        Reply::calls([("make_plan", r#"{"text":"one step"}"#)]),
        Reply::text("planned"),
        Reply::text("the same"),
        Reply::calls([("delegate", "{}")]),
        Reply::text("done by a sub-agent"),
        Reply::text("good"),
        Reply::text("bye"),
    ]);
    let tools = Extension::new("tools").session_tool(MakePlan).session_tool(Delegate);
    let words = Extension::new("words").text("rules", "Be brief.").section(Polite).section(Planned);
    let around = Extension::new("around").wrap(Loud).section(Broken);
    let harness = builder(&store(), &model).install(words).unwrap().install(around).unwrap();
    let harness = harness.install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    ask(&session, "plan").await;
    ask(&session, "go on").await;
    ask(&session, "delegate").await;
    harness.install(Extension::new("words").section(Polite)).unwrap();
    ask(&session, "end").await;
    let requests = model.requests();
    let first = "<rules>\nBE BRIEF.\n</rules>\n\nA person reads this.";
    let plan = "<plan>\none step\n</plan>";
    assert_eq!(systems(&requests[0]), [first]);
    assert_eq!(systems(&requests[1]), [first, plan], "the section saw what the call's commit held");
    assert_eq!(systems(&requests[2]), [first, plan], "nothing differs, nothing is told");
    let child = systems(&requests[4]);
    assert_eq!(child, ["<rules>\nBE BRIEF.\n</rules>"], "a sub-agent has no plan and no person");
    let gone = "The section rules no longer applies.\n\nThe section plan no longer applies.";
    assert_eq!(systems(&requests[6]), [first, plan, gone]);
    assert_legal(&model);
}

/// A request as the bytes of its parts.
fn bytes(request: &Request) -> (String, Vec<String>) {
    let json = |message: &std::sync::Arc<Message>| serde_json::to_string(&**message).unwrap();
    (serde_json::to_string(&request.tools).unwrap(), request.messages.iter().map(json).collect())
}

/// The epochs of the root, in order, each with how many answers stand before it.
async fn epochs(session: &LiveSession) -> Vec<(usize, EpochReason)> {
    let entries = session.entries(ROOT, None, 10_000).await.unwrap();
    let (mut answers, mut found) = (0, Vec::new());
    for entry in entries.iter().rev() {
        match entry.kind.as_str() {
            kind::ASSISTANT => answers += 1,
            kind::EPOCH => found.push((answers, entry.read::<Epoch>().unwrap().unwrap().reason)),
            _ => {}
        }
    }
    found
}

/// Proves that each request begins with the bytes of the one before it, but for where an epoch says why not.
async fn assert_prefixes(session: &LiveSession, requests: &[Request]) {
    let epochs = epochs(session).await;
    for (number, pair) in requests.windows(2).enumerate() {
        let (before, after) = (bytes(&pair[0]), bytes(&pair[1]));
        let begins = before.0 == after.0 && after.1.starts_with(&before.1);
        let says_why = epochs.iter().any(|(answers, _)| *answers == number + 1);
        assert!(begins || says_why, "request {}: {after:#?} does not begin with {before:#?}", number + 1);
    }
}

async fn twenty(store: &Store, model: &Scripted, order: &[&str]) -> Harness {
    let mut builder = builder(store, model);
    for name in order {
        let extension = Extension::new(*name);
        let extension = match *name {
            "plan" => extension.section(Planned).session_tool(MakePlan),
            "rules" => extension.text("rules", "Be brief.").tool(Doing::<0>::says("done")),
            _ => extension.section(Polite).tool(Doing::<1>::says("done too")),
        };
        builder = builder.install(extension).unwrap();
    }
    builder.open().await.unwrap()
}

#[tokio::test]
async fn twenty_turns_begin_with_the_bytes_of_the_turn_before() {
    let (store, model) = (
        store(),
        Scripted::answering(|request| match crate::support::results_since_asked(request) {
            0 => Reply::calls([("do", "{}"), ("do_1", "{}")]),
            _ => Reply::text("so it is"),
        }),
    );
    let mut harness = twenty(&store, &model, &["plan", "rules", "polite"]).await;
    let mut session = harness.create(spec()).await.unwrap();
    for turn in 0..20 {
        if turn % 3 != 1 {
            let mut tx = session.begin().await.unwrap();
            tx.doc::<Plan>(ROOT).await.unwrap().text = format!("step {turn}");
            tx.commit().await.unwrap();
        }
        match turn {
            7 => {
                session.close().await.unwrap();
                let id = session.id();
                drop((session, harness));
                harness = twenty(&store, &model, &["polite", "plan", "rules"]).await;
                session = harness.open_session(id).await.unwrap();
            }
            12 => {
                let rules = Extension::new("rules").text("rules", "Be very brief.");
                harness.install(rules.tool(Doing::<0>::says("done anew"))).unwrap();
            }
            16 => {
                let batch = |registry: &mut everturn_engine::Registry| {
                    registry.remove("polite");
                    registry.install(Extension::new("later").section(Polite).tool(Doing::<1>::says("done")))
                };
                harness.batch(batch).unwrap();
            }
            _ => {}
        }
        assert!(ask(&session, &format!("question {turn}")).await.is_answered());
    }
    assert_legal(&model);
    let requests = model.requests();
    assert_eq!(requests.len(), 40);
    assert_prefixes(&session, &requests).await;
    let tools = |turn: usize| (turn * 2, EpochReason::Tools);
    assert_eq!(epochs(&session).await, [(0, EpochReason::Start), tools(7), tools(16)]);
}

/// An answer with a signed item in it.
fn signed(text: &str) -> Reply {
    let item = RawJson::parse(format!(r#"{{"signed":"{text}"}}"#)).unwrap();
    Reply::pieces(
        [Delta::Opaque(item), Delta::Text(text.into()), Delta::End(Stop::Answer)].into_iter().map(Ok),
    )
}

fn opaque(request: &Request) -> Vec<String> {
    let parts = request.messages.iter().filter_map(|message| match &**message {
        Message::Assistant(assistant) => Some(&assistant.parts),
        _ => None,
    });
    let opaque = parts.flatten().filter_map(|part| match part {
        Part::Opaque(item) => Some(item.get().to_owned()),
        _ => None,
    });
    opaque.collect()
}

/// Does something between two turns, and proves that an epoch says why the second does not go on with the first.
async fn check_epoch(
    reason: EpochReason,
    fault: Option<FaultClass>,
    act: impl AsyncFn(&Harness, &LiveSession),
) {
    let fault = fault.map(|class| Reply::fault(class, "it is bound to another prefix"));
    let replies = [signed("one"), signed("two")].into_iter().chain(fault).chain([signed("three")]);
    let model = Scripted::new(replies.chain([signed("four")]));
    let able = |takes_changes| Abilities { takes_changes, ..Abilities::default() };
    let models = Models::new()
        .provider("scripted", Able(model.clone(), able(reason != EpochReason::System)))
        .provider("other", model.clone());
    let builder = Harness::builder(store()).models(models).install(Extension::new("none")).unwrap();
    let harness = builder.open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    ask(&session, "first").await;
    ask(&session, "second").await;
    act(&harness, &session).await;
    assert_eq!(ask(&session, "third").await.text, "three", "{reason:?}");
    assert_eq!(ask(&session, "fourth").await.text, "four", "{reason:?}");
    let requests = model.requests();
    assert_eq!(opaque(&requests[1]), [r#"{"signed":"one"}"#], "signed items go back as they came");
    let [third, fourth] = requests.last_chunk().unwrap();
    assert_eq!(opaque(third), Vec::<String>::new(), "{reason:?}: what was signed before is dropped");
    assert_eq!(opaque(fourth), [r#"{"signed":"three"}"#], "{reason:?}");
    let told: Vec<_> = epochs(&session).await.into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(told, [EpochReason::Start, reason]);
    assert_prefixes(&session, &requests[requests.len() - 2..]).await;
    assert_legal(&model);
}

#[tokio::test]
async fn an_epoch_says_why_a_request_does_not_go_on_with_the_one_before() {
    let write = async |session: &LiveSession, entry: Entry| {
        session.root().submit(Input::write(entry)).await.unwrap().answer().await.unwrap();
    };
    check_epoch(EpochReason::Reset, None, async |_, session| {
        write(session, Entry::new("app.anew").head(Head::Itself)).await;
    })
    .await;
    check_epoch(EpochReason::Edit, None, async |_, session| {
        let entries = session.entries(ROOT, None, 99).await.unwrap();
        let asked = entries.iter().rev().find(|entry| entry.kind == kind::USER).unwrap();
        write(session, Entry::new("app.mend").edit(Edit::replace(asked.id, [Message::user("FIRST")]))).await;
    })
    .await;
    check_epoch(EpochReason::Model, None, async |_, session| {
        let model = Some("other/large".parse().unwrap());
        session.root().configure(AgentChange { model, ..AgentChange::default() }).await.unwrap();
    })
    .await;
    check_epoch(EpochReason::Tools, None, async |harness, _| {
        harness.install(Extension::new("more").tool(Doing::<0>::says("done"))).unwrap();
    })
    .await;
    check_epoch(EpochReason::System, None, async |harness, _| {
        harness.install(Extension::new("more").text("rules", "Be brief.")).unwrap();
    })
    .await;
    check_epoch(EpochReason::Binding, Some(FaultClass::Binding), async |_, _| {}).await;
}

#[tokio::test]
async fn a_change_of_sections_keeps_what_was_signed() {
    let model = Scripted::new([signed("one"), signed("two")]);
    let harness = builder(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    ask(&session, "first").await;
    harness.install(Extension::new("more").text("rules", "Be brief.")).unwrap();
    ask(&session, "second").await;
    let requests = model.requests();
    assert_eq!(opaque(&requests[1]), [r#"{"signed":"one"}"#]);
    assert_prefixes(&session, &requests).await;
    assert_legal(&model);
}

#[tokio::test]
async fn what_an_application_says_while_a_request_runs_stands_behind_it() {
    let gate = everturn_core::CancelToken::new();
    let model = Scripted::new([Reply::words("one two").then_wait(&gate), Reply::text("three")]);
    let harness = builder(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("first")).await.unwrap();
    crate::support::until("the request runs", || model.count() == 1).await;
    let note = Entry::new("app.note").message(Message::user("by the way"));
    let written = session.root().submit(Input::write(note)).await.unwrap();
    gate.cancel();
    asked.answer().await.unwrap();
    written.answer().await.unwrap();
    ask(&session, "second").await;
    let requests = model.requests();
    assert_eq!(requests[1].texts(), ["first", "one two", "by the way", "second"]);
    assert_prefixes(&session, &requests).await;
    assert_legal(&model);
}

#[tokio::test]
async fn what_an_application_appends_while_a_request_runs_changes_no_prefix() {
    let gate = everturn_core::CancelToken::new();
    let model = Scripted::new([Reply::words("one two").then_wait(&gate), Reply::text("three")]);
    let harness = builder(&store(), &model).open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("first")).await.unwrap();
    crate::support::until("the request runs", || model.count() == 1).await;
    let mut tx = session.begin().await.unwrap();
    tx.append(ROOT, Entry::new("app.note").message(Message::user("by the way"))).unwrap();
    tx.commit().await.unwrap();
    gate.cancel();
    asked.answer().await.unwrap();
    ask(&session, "second").await;
    let requests = model.requests();
    assert_prefixes(&session, &requests).await;
    assert_legal(&model);
}
