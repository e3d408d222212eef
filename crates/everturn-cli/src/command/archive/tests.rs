use std::{fs, io::Write, path::Path};

use super::Unfinished;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is there");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

// A command that was killed left half an archive under the name that was asked for. Guards that the name is given to what is
// whole, never taken from something else, and that what is given up leaves nothing.
#[test]
fn an_archive_gets_its_name_when_it_is_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out.jsonl");
    let [given_up, mut late, mut first] = [(); 3].map(|()| Unfinished::create(&path).expect("a file"));
    assert_eq!(names(directory.path()).iter().filter(|name| name.ends_with(".part")).count(), 3);
    assert!(!path.exists(), "nothing is whole yet");
    drop(given_up);
    first.file.write_all(b"whole").expect("there is room");
    first.finish().expect("the name is free");
    late.file.write_all(b"late").expect("there is room");
    assert!(late.finish().unwrap_err().message.contains("out.jsonl"));
    assert_eq!(fs::read(&path).expect("it is there"), b"whole");
    assert_eq!(names(directory.path()), ["out.jsonl"]);
    assert!(Unfinished::create(&path).is_err(), "what is there is told before anything is written");
}
