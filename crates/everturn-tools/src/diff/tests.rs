use super::{details, unified};

#[test]
fn a_change_is_shown_with_the_lines_around_it() {
    let before: String = (1..=9).map(|i| format!("{i}\n")).collect();
    let after = before.replace("5\n", "five\n");
    assert_eq!(unified(&before, &after), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
    assert_eq!(unified(&before, &before), "");
}

#[test]
fn changes_far_from_one_another_stand_in_hunks_of_their_own() {
    let before: String = (1..=30).map(|i| format!("{i}\n")).collect();
    let after = before.replace("\n3\n", "\n").replace("\n28\n", "\n28\nnew\n");
    assert_eq!(
        unified(&before, &after),
        "@@ -1,6 +1,5 @@\n 1\n 2\n-3\n 4\n 5\n 6\n@@ -26,5 +25,6 @@\n 26\n 27\n 28\n+new\n 29\n 30\n"
    );
}

#[test]
fn changes_near_one_another_share_a_hunk() {
    let before: String = (1..=9).map(|i| format!("{i}\n")).collect();
    let after = before.replace("2\n", "two\n").replace("8\n", "eight\n");
    assert_eq!(unified(&before, &after).matches("@@ -").count(), 1);
}

#[test]
fn a_new_file_and_a_last_line_without_an_end_are_shown_as_such() {
    assert_eq!(unified("", "a\nb"), "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n");
    assert_eq!(unified("a\n", "a"), "@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n");
}

#[test]
fn what_is_binary_or_huge_is_not_shown() {
    assert_eq!(details("a", b"\0", b"a"), None);
    assert_eq!(details("a", b"a", b"\xff"), None);
    assert_eq!(details("a", b"", &vec![b'a'; 2 * 1024 * 1024]), None);
    let json = details("a", b"", b"a\n").unwrap();
    assert_eq!(json.get(), r#"{"path":"a","diff":"@@ -0,0 +1,1 @@\n+a\n"}"#);
}
