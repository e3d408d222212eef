//! Programs: what they are given, and what they give.

use everturn_core::{
    CancelToken, ErrorKind,
    env::{Env, Exec, Exit},
    tool::Output,
};

use super::{names, put, root, run, shell};

/// The exit code is told, and all output is there when the run has ended.
pub async fn a_program_gives_its_output_and_its_code(env: &Env) {
    let (exit, text) =
        shell(env, "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; exit 7").await;
    assert_eq!(exit, Exit { code: Some(7), ..Exit::default() });
    let expected: String = (0..5000).map(|i| format!("line {i}\n")).collect();
    assert_eq!(text, expected);
}

/// What a program says and what it complains of stand in the order in which they were written.
pub async fn output_comes_in_the_order_in_which_it_is_written(env: &Env) {
    let (_, text) = shell(env, "for i in 1 2 3; do echo out $i; echo err $i >&2; done").await;
    assert_eq!(text, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
}

/// Output is shown before the program ends: here it only ends because somebody saw it.
pub async fn output_comes_while_the_program_runs(env: &Env) {
    let cancel = CancelToken::new();
    let output = Output::new({
        let cancel = cancel.clone();
        move |_| cancel.cancel()
    });
    let exec = Exec { cancel, output, ..Exec::new(["sh", "-c", "echo first; exec sleep 1000"]) };
    assert!(env.exec(exec).await.unwrap().was_cancelled);
}

/// Arguments arrive as they are.
pub async fn no_shell_reads_the_arguments(env: &Env) {
    let (_, text) = run(env, Exec::new(["printf", "%s\\n", "$HOME; echo 'x' | cat > a.txt", "", "*"])).await;
    assert_eq!(text, "$HOME; echo 'x' | cat > a.txt\n\n*\n");
}

/// What stands ready to be read is read to its end; where there is nothing, that is the end at once.
pub async fn a_program_reads_what_it_is_given(env: &Env) {
    let long = "0123456789".repeat(100_000);
    let (exit, text) = run(env, Exec { stdin: long.clone().into(), ..Exec::new(["cat"]) }).await;
    assert!(exit.is_success());
    assert_eq!(text.len(), long.len());
    assert_eq!(
        run(env, Exec::new(["cat"])).await,
        (Exit { code: Some(0), ..Exit::default() }, String::new())
    );
    let (exit, _) = run(env, Exec { stdin: long.into(), ..Exec::new(["true"]) }).await;
    assert!(exit.is_success(), "what is not read holds nobody up");
}

/// The directory is inside, and a program with a `/` is looked for from there.
pub async fn a_program_runs_where_it_is_told(env: &Env) {
    put(env, "src/run.sh", "#!/bin/sh\npwd -P\n").await.unwrap();
    assert!(shell(env, "chmod +x src/run.sh && ln -s src link").await.0.is_success());
    let place = root(env).await.join("src").to_str().unwrap().to_owned();
    let (_, text) = run(env, Exec { directory: "link".into(), ..Exec::new(["./run.sh"]) }).await;
    assert_eq!(text.trim_end(), place);
    let exec = Exec { directory: "src/run.sh".into(), ..Exec::new(["true"]) };
    assert!(matches!(env.exec(exec).await.unwrap_err().kind(), ErrorKind::Invalid));
}

/// A program knows what it was told to know, and little else; what the host was given is not for it.
pub async fn a_program_gets_its_variables_and_none_of_the_host_s(env: &Env) {
    let variables = [("GIVEN".to_owned(), "a=b c".to_owned()), ("LANG".to_owned(), "C".to_owned())].into();
    let (_, text) = run(env, Exec { variables, ..Exec::new(["env"]) }).await;
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines.contains(&"GIVEN=a=b c") && lines.contains(&"LANG=C") && lines.contains(&"TERM=dumb"),
        "{text}"
    );
    let known = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "TERM", "GIVEN"];
    for name in lines.iter().filter_map(|line| Some(line.split_once('=')?.0)) {
        let is_known = known.contains(&name) || name.starts_with("LC_") || name.starts_with("EVERTURN_");
        assert!(is_known, "{name} was told");
    }
}

/// A program that is not there is `NotFound`, by its name.
pub async fn a_program_that_does_not_exist_is_named(env: &Env) {
    for program in ["everturn-no-such-program", "./no-such-file", "/no/such/file"] {
        let error = env.exec(Exec::new([program, "argument"])).await.unwrap_err();
        assert!(names(&error, program, |kind| *kind == ErrorKind::NotFound), "{error}");
    }
}

/// What no process can be started with is refused.
pub async fn what_is_no_program_is_refused(env: &Env) {
    let wrong = [("a=b".to_owned(), String::new())].into();
    for exec in [
        Exec::new([""; 0]),
        Exec::new([""]),
        Exec::new(["echo", "a\0b"]),
        Exec { variables: wrong, ..Exec::new(["true"]) },
    ] {
        let error = env.exec(exec).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid), "{error}");
    }
}
