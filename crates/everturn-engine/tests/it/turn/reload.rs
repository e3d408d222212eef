//! Code that is replaced while it is used.

use std::sync::atomic::{AtomicBool, Ordering};

use everturn_core::{CancelToken, message::Outcome};
use everturn_engine::{Extension, Harness, Input};
use everturn_testkit::scripted::{Reply, Scripted};

use crate::support::{Doing, assert_legal, builder, results, spec, store, until};

#[tokio::test]
async fn a_running_call_ends_with_the_old_code_and_the_next_has_the_new() {
    let (gate, begun) = (CancelToken::new(), CancelToken::new());
    let old = Doing::<0>::new({
        let (gate, begun) = (gate.clone(), begun.clone());
        move |_, _| {
            let (gate, begun) = (gate.clone(), begun.clone());
            async move {
                begun.cancel();
                gate.cancelled().await;
                Ok("old".into())
            }
        }
    });
    let model =
        Scripted::new([Reply::calls([("do", "{}")]), Reply::calls([("do", "{}")]), Reply::text("both")]);
    let harness = builder(&store(), &model).install(Extension::new("test").tool(old)).unwrap();
    let harness = harness.open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    begun.cancelled().await;
    harness.install(Extension::new("test").tool(Doing::<0>::says("new"))).unwrap();
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().text, "both");
    let expected = ["old", "new"].map(|text| (Outcome::Ok, text.to_owned()));
    assert_eq!(results(&session).await, expected);
    assert_legal(&model);
}

#[test]
fn no_snapshot_misses_a_tool_while_a_batch_replaces_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let model = Scripted::new([]);
    let tools = Extension::new("test").tool(Doing::<0>::says("old"));
    let harness: Harness =
        runtime.block_on(builder(&store(), &model).install(tools).unwrap().open()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut looks = 0;
            while !over.load(Ordering::SeqCst) || looks == 0 {
                let snapshot = harness.registry();
                let found = ["do", "do_1"].iter().filter(|name| snapshot.tool(name).is_some()).count();
                assert_eq!(found, 1, "one of the two, whichever look it is");
                looks += 1;
            }
        });
        for turn in 0..1_000 {
            let next = if turn % 2 == 0 {
                Extension::new("other").tool(Doing::<1>::says("new"))
            } else {
                Extension::new("test").tool(Doing::<0>::says("old"))
            };
            let gone = if turn % 2 == 0 { "test" } else { "other" };
            let batch = |registry: &mut everturn_engine::Registry| {
                assert!(registry.remove(gone));
                registry.install(next)
            };
            harness.batch(batch).unwrap();
        }
        over.store(true, Ordering::SeqCst);
        looks.join().unwrap();
    });
}

#[tokio::test]
async fn a_batch_that_fails_changes_nothing() {
    let model = Scripted::new([]);
    let tools = Extension::new("test").tool(Doing::<0>::says("old"));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let failed = harness.batch(|registry| {
        registry.remove("test");
        registry.install(Extension::new("a").tool(Doing::<1>::says("a")))?;
        registry.install(Extension::new("b").tool(Doing::<1>::says("b")))
    });
    assert!(failed.unwrap_err().to_string().contains("two of their tools are named do_1"));
    let registry = harness.registry();
    assert_eq!(registry.extensions().map(Extension::name).collect::<Vec<_>>(), ["test"]);
}

#[tokio::test]
async fn a_tool_that_is_taken_away_while_its_call_waits_is_unavailable() {
    let gate = CancelToken::new();
    let model = Scripted::new([Reply::calls([("do", "{}")]).after_wait(&gate), Reply::text("gone")]);
    let tools = Extension::new("test").tool(Doing::<0>::says("old"));
    let harness = builder(&store(), &model).install(tools).unwrap().open().await.unwrap();
    let session = harness.create(spec()).await.unwrap();
    let asked = session.root().submit(Input::text("a")).await.unwrap();
    until("the model was asked", || model.count() == 1).await;
    harness.batch(|registry| registry.remove("test").then_some(()).ok_or_else(|| unreachable!())).unwrap();
    gate.cancel();
    assert_eq!(asked.answer().await.unwrap().text, "gone");
    assert_eq!(results(&session).await[0].0, Outcome::Unavailable);
    assert_legal(&model);
}
