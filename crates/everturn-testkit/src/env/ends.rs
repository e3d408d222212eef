//! Ends: what is left of a program when its run is over, which is nothing.

use std::time::Duration;

use everturn_core::{
    CancelToken,
    env::{Env, Exec, Exit},
    tool::Output,
};
use futures_util::{FutureExt, future::poll_fn, pin_mut};

use super::{get, kept, shell};

/// A tree of processes: an orphan that has left its group where that can be done, one that ignores every request to end,
/// and the program itself. Each writes its number to a file; then the program says that they are all there.
const TREE: &str = r#"
setsid=$(command -v setsid)
( $setsid sh -c 'echo $$ > stray; exec sleep 1000' & )
sh -c 'trap "" TERM INT HUP; echo $$ > deaf; while :; do sleep 1000; done' &
until [ -s stray ] && [ -s deaf ]; do :; done
echo $$ > trunk
echo ready
wait
"#;

/// Ends when none of the processes whose numbers stand in these files runs any more; what is dead and was not yet
/// collected by the system does not run.
const GONE: &str = r#"
for file in "$@"; do
  id=$(cat "$file")
  while kill -0 "$id" 2>/dev/null; do
    state=$(ps -o stat= -p "$id" 2>/dev/null || sed 's/.*) //' "/proc/$id/stat" 2>/dev/null)
    case "$state" in *Z*) break;; esac
  done
done
"#;

async fn assert_gone(env: &Env, files: &[&str]) {
    let argv = ["sh", "-c", GONE, "sh"].iter().chain(files);
    let exec = Exec { deadline: Some(Duration::from_secs(60)), ..Exec::new(argv.copied()) };
    let exit = env.exec(exec).await.unwrap();
    assert!(exit.is_success(), "a process still runs: {exit:?}");
}

fn tree() -> Exec {
    Exec::new(["sh", "-c", TREE])
}

/// An output that fires when something is written.
fn firing() -> (CancelToken, Output) {
    let fired = CancelToken::new();
    let output = Output::new({
        let fired = fired.clone();
        move |_| fired.cancel()
    });
    (fired, output)
}

/// Past its deadline a program is ended, and with it all that it started; its output so far is kept.
pub async fn a_deadline_ends_the_whole_tree(env: &Env) {
    let (output, text) = kept();
    let exec = Exec { deadline: Some(Duration::from_secs(1)), output, ..tree() };
    let exit = env.exec(exec).await.unwrap();
    assert!(exit.timed_out && !exit.was_cancelled && !exit.is_success(), "{exit:?}");
    // All that it had said by then.
    assert!(b"ready\n".starts_with(&text.lock().unwrap()));
    assert_gone(env, &["trunk", "deaf", "stray"]).await;
}

/// A program that is cancelled is ended, and with it all that it started.
pub async fn a_cancellation_ends_the_whole_tree(env: &Env) {
    let (cancel, output) = firing();
    let exit = env.exec(Exec { cancel, output, ..tree() }).await.unwrap();
    assert!(exit.was_cancelled && !exit.timed_out && !exit.is_success(), "{exit:?}");
    assert_gone(env, &["trunk", "deaf", "stray"]).await;
}

/// A program for which nobody waits any more is ended, and with it all that it started.
pub async fn a_dropped_run_ends_the_whole_tree(env: &Env) {
    let (ready, output) = firing();
    {
        let run = env.exec(Exec { output, ..tree() });
        let seen = ready.cancelled();
        pin_mut!(run, seen);
        poll_fn(|context| {
            assert!(run.poll_unpin(context).is_pending(), "it has no end");
            seen.poll_unpin(context)
        })
        .await;
    }
    assert_gone(env, &["trunk", "deaf", "stray"]).await;
}

/// Nothing is started for a call that was told to stop.
pub async fn a_run_that_was_cancelled_before_does_not_begin(env: &Env) {
    let exec = Exec::new(["sh", "-c", "echo > began"]);
    exec.cancel.cancel();
    assert_eq!(env.exec(exec).await.unwrap(), Exit { was_cancelled: true, ..Exit::default() });
    assert!(get(env, "began").await.is_err());
}

/// A program that does not end when it is asked to is ended.
pub async fn a_process_that_ignores_the_request_is_ended(env: &Env) {
    let (cancel, output) = firing();
    let line = r#"trap "" TERM INT HUP; echo $$ > deaf; echo ready; while :; do sleep 1000; done"#;
    let exit = env.exec(Exec { cancel, output, ..Exec::new(["sh", "-c", line]) }).await.unwrap();
    assert_eq!(exit, Exit { signal: Some(9), was_cancelled: true, ..Exit::default() });
    assert_gone(env, &["deaf"]).await;
}

/// A run ends with its program, whoever still holds its output; what it left in its group is ended.
pub async fn a_process_that_is_left_behind_holds_nobody_up(env: &Env) {
    let line = r#"sh -c 'echo $$ > left; exec sleep 1000' & until [ -s left ]; do :; done; echo done"#;
    let (exit, text) = shell(env, line).await;
    assert_eq!((exit, text.as_str()), (Exit { code: Some(0), ..Exit::default() }, "done\n"));
    assert_gone(env, &["left"]).await;
    let line = r#"
        setsid=$(command -v setsid) || exit 0
        $setsid sh -c 'echo $$ > service; exec sleep 30' & until [ -s service ]; do :; done; echo done"#;
    let (exit, _) = shell(env, line).await;
    assert!(exit.is_success());
    shell(env, "test -s service && kill $(cat service)").await;
}

/// A program that a signal ended says which.
pub async fn a_signal_is_told(env: &Env) {
    let (exit, _) = shell(env, "kill -9 $$").await;
    assert_eq!(exit, Exit { signal: Some(9), ..Exit::default() });
}
