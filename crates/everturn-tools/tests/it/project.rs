//! A small tree of files, `ws`, beside a place that is outside of it.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use everturn_core::{
    CancelToken, Error,
    env::{DirectoryEntry, Env, ListDirectory, ReadFile},
    id::ConversationId,
    json::RawJson,
    message::{CallId, Outcome},
    tool::{AnyTool, CallContext, Output, ToolOutput},
};
use everturn_tools::{Directory, coding};

pub(crate) struct Project {
    _base: tempfile::TempDir,
    /// What holds the root and what is outside.
    pub(crate) base: PathBuf,
    /// The root of the environment.
    pub(crate) root: PathBuf,
}

impl Project {
    /// A root with these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let base = temporary.path().canonicalize().unwrap();
        let project = Self { _base: temporary, root: base.join("ws"), base };
        fs::create_dir(&project.root).unwrap();
        for (path, text) in files {
            project.file(path, text);
        }
        project
    }

    /// The bytes of a file, as nobody's environment reads them.
    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.root.join(path)).unwrap()
    }

    /// Writes a file; the path is relative to the root.
    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn link(&self, path: &str, to: impl AsRef<std::path::Path>) {
        symlink(to, self.root.join(path)).unwrap();
    }

    pub(crate) fn env(&self) -> Env {
        Env::new(Directory::open(&self.root).unwrap())
    }

    pub(crate) fn context(&self) -> CallContext {
        CallContext {
            call: CallId("c1".into()),
            conversation: ConversationId::ROOT,
            key: "k1".into(),
            cancel: CancelToken::new(),
            env: self.env(),
            output: Output::default(),
        }
    }

    /// What a call of a tool gives.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Result<String, String> {
        call(&self.context(), tool, arguments).await.map_err(|(message, _)| message)
    }

    pub(crate) async fn read(&self, path: &str) -> Result<String, Error> {
        let read = ReadFile { path: path.into(), offset: 0, limit: 1 << 20 };
        self.env().read(read).await.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>, Error> {
        self.env().list(ListDirectory { path: path.into(), after: None, limit: usize::MAX }).await
    }
}

pub(crate) async fn call(cx: &CallContext, tool: &str, arguments: &str) -> Result<String, (String, Outcome)> {
    output(cx, tool, arguments).await.map(|output| output.text)
}

/// All that a call of a tool gives.
pub(crate) async fn output(
    cx: &CallContext,
    tool: &str,
    arguments: &str,
) -> Result<ToolOutput, (String, Outcome)> {
    let result = named(tool).run(cx, &RawJson::parse(arguments).unwrap()).await;
    result.map_err(everturn_core::tool::ToolError::into_parts)
}

/// What a person is shown of a call that has not begun.
pub(crate) async fn preview(cx: &CallContext, tool: &str, arguments: &str) -> Option<String> {
    let shown = named(tool).preview(cx, &RawJson::parse(arguments).unwrap()).await;
    shown.map(|shown| shown.get().to_owned())
}

fn named(tool: &str) -> AnyTool {
    coding().into_iter().find(|known| known.spec().name == tool).unwrap()
}
