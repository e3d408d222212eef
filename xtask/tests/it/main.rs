//! The errands' command line.

use std::process::Command;

fn run(words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(words).output().expect("xtask was built");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("help is text");
    (output.status.code(), said)
}

#[test]
fn no_word_or_a_wrong_one_prints_help_and_exits_with_2() {
    let (_, help) = run(&["help"]);
    assert!(help.contains("cargo xtask test"));
    for words in [&[][..], &["tset"], &["test", "--dney"], &["test", "--deny", "more"], &["killed", "often"]]
    {
        assert_eq!(run(words), (Some(2), help.clone()), "{words:?}");
    }
    assert_eq!(run(&["--help"]), (Some(0), help));
}
