//! The words of a question.

/// A question, taken apart far enough for rules.
pub(super) struct Question {
    text: String,
    /// As written, without the punctuation around them.
    words: Vec<String>,
}

/// Words that stand in front of a name, and are not it.
const FILLERS: &[&str] = &[
    "a", "all", "an", "and", "are", "do", "does", "every", "for", "in", "is", "me", "my", "our", "please",
    "string", "text", "that", "the", "this", "we", "where", "word", "your",
];

/// Words that speak of files and folders, and name none.
const NO_PATHS: &[&str] = &[
    "code",
    "conversation",
    "directory",
    "file",
    "files",
    "folder",
    "here",
    "it",
    "project",
    "repo",
    "repository",
    "there",
    "total",
    "tree",
    "workspace",
];

impl Question {
    pub(super) fn new(text: String) -> Self {
        let trimmed = text.split_whitespace().map(|word| {
            let word = word.trim_matches(|c: char| "\"'`“”()[]{},;:!?".contains(c));
            word.trim_end_matches('.')
        });
        let words = trimmed.filter(|word| !word.is_empty()).map(str::to_owned).collect();
        Self { words, text }
    }

    /// Whether all of these words are in it, in any order; a plural is as good as its singular.
    pub(super) fn has(&self, words: &str) -> bool {
        words.split(' ').all(|word| self.position(word).is_some())
    }

    /// The folder that it names behind a word of place (`under src`).
    pub(super) fn folder(&self) -> Option<&str> {
        self.path_behind(&["under", "in", "inside", "within", "below"])
            .map(|word| word.trim_end_matches('/').trim_start_matches("./"))
            .filter(|word| !word.is_empty())
    }

    /// The file or folder that it names: the first word that looks like a path, else the one behind a verb.
    pub(super) fn path(&self) -> Option<&str> {
        let path = self.words.iter().find(|word| word.contains(['.', '/']));
        path.map(String::as_str).or_else(|| {
            self.path_behind(&["show", "read", "print", "open", "cat", "list", "ls", "file", "in"])
        })
    }

    /// The text that it wants to be found: what is quoted, else the word behind a verb.
    pub(super) fn wanted(&self) -> Option<&str> {
        let verbs = ["grep", "word", "text", "for", "find", "search", "where", "contain", "mention"];
        self.quoted().or_else(|| verbs.iter().find_map(|verb| self.behind(verb)))
    }

    fn quoted(&self) -> Option<&str> {
        ['`', '"'].into_iter().find_map(|mark| {
            let (_, rest) = self.text.split_once(mark)?;
            rest.split_once(mark).map(|(quoted, _)| quoted).filter(|quoted| !quoted.trim().is_empty())
        })
    }

    fn path_behind(&self, marks: &[&str]) -> Option<&str> {
        let mut words = marks.iter().filter_map(|mark| self.behind(mark));
        words.find(|word| !is_one_of(NO_PATHS, word))
    }

    /// The name behind a word.
    fn behind(&self, mark: &str) -> Option<&str> {
        let from = self.position(mark)? + 1;
        let mut words = self.words[from..].iter().map(String::as_str);
        words.find(|word| !is_one_of(FILLERS, word))
    }

    fn position(&self, word: &str) -> Option<usize> {
        self.words.iter().position(|found| stem(found) == stem(word))
    }
}

fn is_one_of(list: &[&str], word: &str) -> bool {
    list.contains(&word.to_lowercase().as_str())
}

fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    word.strip_suffix('s').map_or(word.clone(), str::to_owned)
}
