//! What is opened, what is refused, and that what is refused is left as it is.

use std::{fs, path::Path};

use everturn_core::error::{Error, ErrorKind};
use everturn_store::{Options, open};
use everturn_testkit::{
    block_on,
    store::scene::{Scene, owner},
};

use crate::files::Temporary;

/// Puts something where a store is looked for.
type Make<'a> = &'a dyn Fn(&Path);

fn refusal(url: &str, options: Options) -> Error {
    block_on(open(url, options)).expect_err("the store is refused")
}

fn opened(path: &Path) -> Error {
    refusal(&format!("sqlite:{}", path.display()), Options::new(owner()))
}

/// What lies in a directory, by name and content.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let mut all: Vec<_> =
        files.map(|path| (path.display().to_string(), fs::read(&path).unwrap_or_default())).collect();
    all.sort();
    all
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_as_it_is() {
    let foreign = |path: &Path| {
        let db = rusqlite::Connection::open(path).unwrap();
        db.execute_batch("PRAGMA application_id = 7; CREATE TABLE theirs (a)").unwrap();
    };
    let cases: [(&str, Make<'_>, &str); 5] = [
        ("text", &|path| fs::write(path, "once upon a time ".repeat(100)).unwrap(), "not a SQLite database"),
        ("short", &|path| fs::write(path, "SQLite format 3\0").unwrap(), "not a SQLite database"),
        ("empty", &|path| fs::write(path, "").unwrap(), "the file is empty"),
        ("foreign", &foreign, "of another application"),
        ("directory", &|path| fs::create_dir(path).unwrap(), "it is a directory"),
    ];
    for (name, make, expected) in cases {
        let file = Temporary::new();
        make(&file.path());
        let before = contents(file.path().parent().unwrap());
        let error = opened(&file.path());
        assert_eq!(error.kind(), &ErrorKind::Invalid, "{name}: {error}");
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert!(error.to_string().contains(&file.path().display().to_string()), "{name}: {error}");
        assert_eq!(contents(file.path().parent().unwrap()), before, "{name}");
    }
}

#[test]
fn a_newer_store_is_refused_and_left_as_it_is() {
    let file = Temporary::new();
    drop(block_on(file.open()));
    let db = rusqlite::Connection::open(file.path()).unwrap();
    db.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(db);
    let before = contents(file.path().parent().unwrap());
    let error = opened(&file.path());
    assert_eq!(error.kind(), &ErrorKind::Newer { found: 99, known: 4 }, "{error}");
    assert_eq!(contents(file.path().parent().unwrap()), before);
}

#[test]
fn a_schema_that_is_not_what_it_says_is_refused() {
    let file = Temporary::new();
    drop(block_on(file.open()));
    let db = rusqlite::Connection::open(file.path()).unwrap();
    db.execute_batch("UPDATE migration SET sha256 = 'another'").unwrap();
    drop(db);
    let error = opened(&file.path());
    assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("table migration, version 1"), "{error}");
}

#[test]
fn a_store_that_has_to_exist_is_not_created() {
    let file = Temporary::new();
    let reading = Options { must_exist: true, ..Options::new(owner()) };
    let error = refusal(&file.url(), reading);
    assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
    assert_eq!(contents(file.path().parent().unwrap()), []);
}

#[test]
fn a_store_in_a_directory_that_is_missing_is_not_found() {
    let file = Temporary::new();
    let error = opened(&file.path().join("deeper.db"));
    assert_eq!(error.kind(), &ErrorKind::NotFound, "{error}");
}

#[test]
fn a_url_of_an_unknown_kind_says_which_there_are() {
    for url in ["postgres://db/work", "work.txt", "sqlite:", "", "http://host/work.db"] {
        let error = refusal(url, Options::new(owner()));
        assert_eq!(error.kind(), &ErrorKind::Invalid, "{url}");
        assert!(
            error.to_string().contains("sqlite:PATH") && error.to_string().contains("memory:"),
            "{error}"
        );
    }
}

#[test]
fn a_bare_path_is_a_store_and_memory_is_one_too() {
    let file = Temporary::new();
    block_on(async {
        let store = open(file.path().to_str().unwrap(), Options::new(owner())).await.unwrap();
        Scene::new(&store).await;
        drop(store);
        assert!(
            file.open().await.session(everturn_testkit::store::scene::session_id(1)).await.unwrap().is_some()
        );
        let store = open("memory:", Options::new(owner())).await.unwrap();
        Scene::new(&store).await;
    });
}

#[test]
fn what_a_killed_creation_left_behind_is_no_store_and_is_swept() {
    let file = Temporary::new();
    let owners = file.path().with_extension("db.owners");
    fs::create_dir(&owners).unwrap();
    let dead = owners.join("0198c0de-0000-7000-8000-0000000000cc");
    fs::write(&dead, "").unwrap();
    fs::write(dead.with_extension("new"), "half a store").unwrap();
    let store = block_on(file.open());
    let left: Vec<_> = fs::read_dir(&owners).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, [owner().to_string().as_str()]);
    drop(store);
    assert_eq!(contents(&owners), []);
}
