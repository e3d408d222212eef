//! Papers: each promise names tests that exist, each library says why it is here.

use super::{check, manifest::names, read, sources};

/// Promises that no test shows yet. Take a number away with the row that shows it.
const NOT_SHOWN_YET: &[u32] = &[1, 2, 3, 4, 5, 8, 9];

#[test]
fn every_promise_names_the_tests_that_show_it() {
    let tests = test_names();
    let mut findings = Vec::new();
    let promises = promises();
    for promise in &promises {
        for test in &promise.tests {
            if !tests.contains(test) {
                findings.push(format!("{}: there is no test `{test}`", promise.title));
            }
        }
        match (promise.tests.is_empty(), NOT_SHOWN_YET.contains(&promise.number)) {
            (true, false) => findings.push(format!("{}: no test shows it", promise.title)),
            (false, true) => findings.push(format!("{}: it is shown; take it off the list", promise.title)),
            (true, true) => println!("not shown yet: {}", promise.title),
            (false, false) => {}
        }
    }
    check("docs/promises.md", &findings);
    let numbers: Vec<_> = promises.iter().map(|promise| promise.number).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
}

struct Promise {
    number: u32,
    title: String,
    tests: Vec<String>,
}

fn promises() -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    for line in read("docs/promises.md").lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let number = title.split('.').next().unwrap().parse().unwrap();
            promises.push(Promise {
                number,
                title: title.into(),
                tests: Vec::new(),
            });
        } else if let (Some(row), Some(promise)) = (line.strip_prefix("| `"), promises.last_mut()) {
            promise.tests.push(row.split('`').next().unwrap().into());
        }
    }
    promises
}

/// The names of all tests, and of the suites' functions.
fn test_names() -> Vec<String> {
    let mut names = Vec::new();
    for source in sources() {
        let is_suite = source.path.starts_with("crates/everturn-testkit/src/");
        let mut is_test = false;
        for line in source.text.lines().map(str::trim) {
            if let Some((before, rest)) = line.split_once("fn ") {
                let is_function = !before.contains("//") && (is_test || (is_suite && before.contains("pub")));
                let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                names.extend(end.filter(|_| is_function).map(|end| rest[..end].to_owned()));
                is_test = false;
            } else if line.starts_with("#[") && line.contains("test") && !line.contains("cfg") {
                is_test = true;
            }
        }
    }
    names
}

#[test]
fn every_library_says_why_it_is_here() {
    let paper = read("docs/dependencies.md");
    let libraries = names(&read("Cargo.toml"), "dependencies");
    assert!(libraries.len() > 20, "the libraries were found");
    let is_missing = |name: &String| !name.starts_with("everturn") && !paper.contains(&format!("`{name}`"));
    let findings: Vec<_> = libraries.into_iter().filter(is_missing).collect();
    check("docs/dependencies.md does not name", &findings);
}
