//! Spans: how they hang together, and that they say nothing of what was said.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
};

use everturn_core::model::FaultClass;
use everturn_engine::{Agent, Extension, Input, SessionSpec, Settings, session_tools};
use everturn_testkit::scripted::{Reply, Scripted};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, Registry, layer::Context, prelude::*, registry::LookupSpan};

use crate::support::{Doing, ask, builder, rules, spec, store};

/// What nobody must find in a span.
const MARK: &str = "xyzzy";

/// A span as it was collected.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    parent: Option<usize>,
    fields: BTreeMap<&'static str, String>,
    is_closed: bool,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.into());
    }
}

/// Collects spans, and what events say.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Seen>>>);

/// Where a span is in the collection.
struct At(usize);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let span = cx.span(id).unwrap();
        let parent = span.parent().and_then(|parent| parent.extensions().get::<At>().map(|at| at.0));
        let mut seen = Seen { name: attributes.metadata().name(), parent, ..Seen::default() };
        attributes.record(&mut seen);
        let mut all = self.0.lock().unwrap();
        span.extensions_mut().insert(At(all.len()));
        all.push(seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let at = cx.span(id).unwrap().extensions().get::<At>().unwrap().0;
        values.record(&mut self.0.lock().unwrap()[at]);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut seen = Seen { name: "event", ..Seen::default() };
        event.record(&mut seen);
        self.0.lock().unwrap().push(seen);
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let at = cx.span(&id).unwrap().extensions().get::<At>().unwrap().0;
        self.0.lock().unwrap()[at].is_closed = true;
    }
}

impl Collector {
    fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }

    /// The spans of a name, each with the names of what is around it, the nearest first.
    fn named(&self, name: &str) -> Vec<(Seen, Vec<&'static str>)> {
        let seen = self.seen();
        let around = |one: &Seen| {
            std::iter::successors(one.parent, |at| seen[*at].parent).map(|at| seen[at].name).collect()
        };
        seen.iter().filter(|one| one.name == name).map(|one| (one.clone(), around(one))).collect()
    }

    /// The names and fields in which the mark stands.
    fn marked(&self) -> Vec<(&'static str, &'static str)> {
        let seen = self.seen();
        let fields =
            seen.iter().flat_map(|one| one.fields.iter().map(|(field, value)| (one.name, *field, value)));
        fields.filter(|(_, _, value)| value.contains(MARK)).map(|(name, field, _)| (name, field)).collect()
    }
}

/// A turn with a call that works and one that is refused, and a turn that fails; everything that is said is marked.
async fn marked_turns(collector: &Collector, settings: Settings) {
    let _collecting = tracing::subscriber::set_default(Registry::default().with(collector.clone()));
    let arguments = format!(r#"{{"a":"{MARK}"}}"#);
    let model = Scripted::new([
        Reply::calls([("do", &*arguments), ("do_1", &*arguments)]).usage(10, 5),
        Reply::text(format!("an answer, {MARK}")).usage(20, 7),
        Reply::text(MARK).then_fault(FaultClass::Auth, MARK),
    ]);
    let extension = Extension::new("doing").tool(Doing::<0>::says(MARK)).tool(Doing::<1>::says(MARK));
    let policy = rules(&["allow tool(do)", "deny tool(do_1)"]);
    let builder = builder(&store(), &model).settings(settings).policy(policy);
    let harness = builder.install(extension).unwrap().open().await.unwrap();
    let agent = Agent { instructions: Some(MARK.into()), ..spec().agent };
    let spec = SessionSpec {
        title: Some(MARK.into()),
        labels: [(MARK.into(), MARK.into())].into(),
        agent,
        request: None,
    };
    let session = harness.create(spec).await.unwrap();
    assert!(ask(&session, &format!("a question, {MARK}")).await.is_answered());
    assert!(!ask(&session, MARK).await.is_answered());
    session.close().await.unwrap();
}

#[tokio::test]
async fn requests_and_calls_stand_in_their_turn_and_turns_in_their_session() {
    let collector = Collector::default();
    marked_turns(&collector, Settings::default()).await;

    let [(session, above)] = collector.named("session").try_into().unwrap();
    assert!(above.is_empty());
    let turns = collector.named("turn");
    assert_eq!(turns.iter().map(|(_, above)| &**above).collect::<Vec<_>>(), [["session"], ["session"]]);
    let outcomes: Vec<_> = turns.iter().map(|(turn, _)| &*turn.fields["outcome"]).collect();
    assert_eq!(outcomes, ["answered", "failed"]);
    let first = &turns[0].0.fields;
    assert_eq!((&*first["gen_ai.operation.name"], &*first["steps"]), ("invoke_agent", "2"));
    assert_eq!((&*first["gen_ai.usage.input_tokens"], &*first["gen_ai.usage.output_tokens"]), ("30", "12"));
    assert_eq!(turns[1].0.fields["error.type"], "auth");

    let requests = collector.named("request");
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|(_, above)| **above == ["step", "turn", "session"]));
    let ends: Vec<_> = requests.iter().map(|(request, _)| &*request.fields["outcome"]).collect();
    assert_eq!(ends, ["complete", "complete", "failed"]);
    let fields = &requests[0].0.fields;
    assert_eq!(fields["gen_ai.operation.name"], "chat");
    assert_eq!(fields["gen_ai.provider.name"], "scripted");
    assert_eq!(fields["gen_ai.usage.input_tokens"], "10");
    assert_eq!(fields["gen_ai.usage.output_tokens"], "5");
    assert_eq!(fields["gen_ai.conversation.id"], session.fields["gen_ai.conversation.id"]);

    // What was refused never ran.
    let [(call, above)] = collector.named("call").try_into().unwrap();
    assert_eq!(above, ["step", "turn", "session"]);
    assert_eq!((&*call.fields["gen_ai.tool.name"], &*call.fields["outcome"]), ("do", "ok"));
    assert_eq!(call.fields["gen_ai.operation.name"], "execute_tool");
    assert!(collector.named("commit").iter().any(|(_, above)| **above == ["step", "turn", "session"]));
}

#[tokio::test]
async fn no_span_says_what_was_said() {
    let collector = Collector::default();
    marked_turns(&collector, Settings::default()).await;
    assert!(collector.seen().len() > 10);
    assert_eq!(collector.marked(), []);
}

#[tokio::test]
async fn spans_say_what_was_said_where_the_host_wants_it() {
    let collector = Collector::default();
    marked_turns(&collector, Settings { trace_content: true, ..Settings::default() }).await;
    let marked = collector.marked();
    let expected = [
        ("request", "gen_ai.input.messages"),
        ("request", "gen_ai.output.messages"),
        ("call", "gen_ai.tool.call.arguments"),
        ("call", "gen_ai.tool.call.result"),
    ];
    assert!(expected.iter().all(|field| marked.contains(field)), "{marked:?}");
    assert!(marked.iter().all(|field| expected.contains(field)), "{marked:?}");
}

#[tokio::test]
async fn every_span_ends_with_its_session() {
    let collector = Collector::default();
    marked_turns(&collector, Settings::default()).await;
    let is_open = || {
        let seen = collector.seen();
        seen.into_iter().any(|one| one.name != "event" && !one.is_closed)
    };
    crate::support::until("all spans end", || !is_open()).await;
}

#[tokio::test]
async fn the_turn_of_a_sub_agent_stands_in_the_turn_that_called_it() {
    let collector = Collector::default();
    let _collecting = tracing::subscriber::set_default(Registry::default().with(collector.clone()));
    let arguments = r#"{"prompt":"look"}"#;
    let model = Scripted::new([
        Reply::calls([("agent", arguments)]),
        Reply::text("looked"),
        Reply::text("it has looked"),
    ]);
    let builder = builder(&store(), &model).policy(rules(&["allow spawn(*)"]));
    let harness = builder.install(session_tools()).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("have someone look")).await.unwrap();
    assert!(asked.answer().await.unwrap().is_answered());
    let above: Vec<_> = collector.named("turn").into_iter().map(|(_, above)| above).collect();
    assert_eq!(above, [vec!["session"], vec!["turn", "session"]]);
}
