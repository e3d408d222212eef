//! The tool `exec`.

use std::sync::{Arc, Mutex};

use everturn_core::{message::Outcome, tool::Output};

use crate::project::{Project, call, preview};

/// What a call streams, and what it gives.
async fn run(project: &Project, arguments: &str) -> (String, Result<String, (String, Outcome)>) {
    let text: Arc<Mutex<Vec<u8>>> = Arc::default();
    let mut cx = project.context();
    cx.output = Output::new({
        let text = text.clone();
        move |bytes| text.lock().unwrap().extend_from_slice(bytes)
    });
    let result = call(&cx, "exec", arguments).await;
    let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
    (text, result)
}

#[tokio::test]
async fn output_is_streamed_and_the_end_is_told() {
    let project = Project::new(&[("src/a.txt", "hello\n")]);
    let (text, result) = run(&project, r#"{"argv":["cat","a.txt"],"directory":"src"}"#).await;
    assert_eq!((text.as_str(), result.unwrap().as_str()), ("hello\n", "exit code 0"));
}

#[tokio::test]
async fn another_end_than_code_0_is_an_error_that_says_so() {
    let project = Project::new(&[]);
    let ended = async |argv: &str| run(&project, &format!(r#"{{"argv":["sh","-c",{argv:?}]}}"#)).await;
    let (text, result) = ended("echo oh; exit 3").await;
    assert_eq!((text.as_str(), result.unwrap_err()), ("oh\n", ("exit code 3".into(), Outcome::Error)));
    let (_, result) = ended("kill -9 $$").await;
    assert_eq!(result.unwrap_err(), ("killed by signal 9".into(), Outcome::Error));
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_stopped() {
    let project = Project::new(&[]);
    let (text, result) = run(&project, r#"{"argv":["sleep","1000"],"timeout_ms":1}"#).await;
    assert_eq!(
        (text.as_str(), result.unwrap_err()),
        ("", ("timed out after 1 ms".into(), Outcome::TimedOut))
    );
}

#[tokio::test]
async fn a_call_that_is_cancelled_says_so() {
    let project = Project::new(&[]);
    let mut cx = project.context();
    cx.output = Output::new({
        let cancel = cx.cancel.clone();
        move |_| cancel.cancel()
    });
    let error = call(&cx, "exec", r#"{"argv":["sh","-c","echo; exec sleep 1000"]}"#).await.unwrap_err();
    assert_eq!(error, ("stopped before it was done".into(), Outcome::Cancelled));
}

#[tokio::test]
async fn what_cannot_be_run_is_named() {
    let project = Project::new(&[("a.txt", "text")]);
    for (arguments, words) in [
        (r#"{"argv":["no-such-program"]}"#, "run \"no-such-program\": no such program on PATH"),
        (r#"{"argv":["./b"]}"#, "run \"./b\": no such file"),
        (r#"{"argv":[]}"#, "run \"\": no program is named"),
        (r#"{"argv":["ls"],"directory":".."}"#, "run in \"..\": it leaves the root"),
        (r#"{"argv":["./a.txt"]}"#, "run \"./a.txt\": Permission denied"),
    ] {
        let (_, result) = run(&project, arguments).await;
        let (message, outcome) = result.unwrap_err();
        assert!(message.starts_with(words), "{message}");
        assert_eq!(outcome, Outcome::Error);
    }
}

#[tokio::test]
async fn a_preview_shows_the_arguments_and_runs_nothing() {
    let project = Project::new(&[]);
    let shown = preview(&project.context(), "exec", r#"{"argv":["touch","a"]}"#).await.unwrap();
    assert_eq!(shown, r#"{"argv":["touch","a"],"directory":"."}"#);
    assert!(!project.root.join("a").exists());
}
