//! Papers: what they name exists, and each library says why it is here.

use super::{check, manifest::names, read, root, sources};

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
        if promise.tests.is_empty() {
            findings.push(format!("{}: no test shows it", promise.title));
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
            promises.push(Promise { number, title: title.into(), tests: Vec::new() });
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

#[test]
fn the_files_that_the_architecture_names_exist() {
    let paper = read("ARCHITECTURE.md");
    let named: Vec<_> = paper
        .split('`')
        .filter(|word| word.ends_with(".rs") && (word.starts_with("core/") || word.starts_with("engine/")))
        .collect();
    assert!(named.len() > 20, "the files were found");
    let path = |word: &str| format!("crates/everturn-{}", word.replacen('/', "/src/", 1));
    let is_missing = |word: &&str| !root().join(path(word)).exists();
    let findings: Vec<_> = named.into_iter().filter(is_missing).map(str::to_owned).collect();
    check("ARCHITECTURE.md names what is not there", &findings);
}

#[test]
fn the_readme_lists_every_example_in_its_own_words() {
    let readme = read("README.md");
    let examples: Vec<_> =
        sources().into_iter().filter(|source| source.path.starts_with("examples/")).collect();
    assert!(examples.len() > 10, "the examples were found");
    let rows = examples.iter().map(|example| row(&example.path, &example.text));
    let missing: Vec<String> = rows.filter(|row| !readme.contains(row.as_str())).collect();
    check("README.md lacks a row of its table of examples", &missing);
}

/// The row of an example: its name, and the first paragraph of what it says of itself.
fn row(path: &str, text: &str) -> String {
    let name = path.trim_start_matches("examples/").trim_end_matches(".rs");
    let said = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = said.take_while(|line| !line.is_empty()).collect();
    let plain = paragraph.join(" ").replace("[`", "`").replace("`]", "`");
    format!("| `{name}` | {plain} |")
}
