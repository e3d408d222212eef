//! What a file may say, and what it is told otherwise.

use super::{File, Owner};

fn said(text: &str, owner: Owner) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("everturn.toml");
    std::fs::write(&path, text).expect("written");
    match File::read(&path, owner) {
        Ok(_) => "ok".into(),
        Err(failure) => failure.message.replace(&format!("read {}: ", path.display()), ""),
    }
}

#[test]
fn a_wrong_file_is_told_what_is_wrong() {
    for (text, answer) in [
        ("model = \"demo\"\nthinking = \"high\"", "ok"),
        ("modle = \"demo\"", "unknown key modle; did you mean model?"),
        ("[chat]\nbase = \"x\"", "unknown key chat.base; did you mean chat.base_url?"),
        ("model = 5", "model is a text in quotes, not a integer"),
        ("thinking = \"hard\"", "thinking is default, off, low, medium or high, not \"hard\""),
        ("[policy]\nrules = [\"allow write(src/**)\", \"deny exec(git push **)\"]", "ok"),
        ("[policy]\nrule = []", "unknown key policy.rule; did you mean policy.rules?"),
        ("policy = 5", "policy is a table: write [policy] above its keys"),
        ("[policy]\nrules = 5", "policy.rules is a list of texts, as in [\"allow write(src/**)\"]"),
        ("[policy]\nrules = [5]", "policy.rules is a list of texts, as in [\"allow write(src/**)\"]"),
        ("chat = \"x\"", "chat is a table: write [chat] above its keys"),
    ] {
        assert_eq!(said(text, Owner::User), answer, "{text}");
    }
    assert!(said("model = ", Owner::User).contains("line 1"), "a fault of the grammar names its place");
}

#[test]
fn a_wrong_rule_is_named() {
    for rule in ["permit read(a)", "allow write(", "allow fly(home)"] {
        let told = said(&format!("[policy]\nrules = [\"deny read(x)\", \"{rule}\"]"), Owner::User);
        assert!(told.starts_with("policy.rules: ") && told.contains(rule), "{told}");
    }
}

#[test]
fn a_project_cannot_say_where_things_are_sent() {
    for text in ["store = \"a.db\"", "[chat]\nbase_url = \"http://a\"", "model = \"chat/x@http://a/v1\""] {
        assert_eq!(said(text, Owner::User), "ok", "{text}");
        assert!(said(text, Owner::Project).contains("not in a project's"), "{text}");
    }
}

#[test]
fn no_file_says_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(File::read(&directory.path().join("everturn.toml"), Owner::User).is_ok());
}
