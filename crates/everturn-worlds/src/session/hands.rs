//! Tools of every contract, and files in memory.

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everturn::{
    Error, Extension, Result,
    env::{
        Env, EnvLayer, Expect, FileKind, FileVersion, Layered, Nowhere, ReadFile, ResolvePath, Resolved,
        Stat, WriteFile, Written,
    },
    tool::{CallContext, Contract, Does, SessionCall, SessionTool, Spawn, Tool, ToolError, ToolResult},
};
use serde::Deserialize;

use crate::tasks::{Ledger, Line};

/// The files that the session changes and restores.
pub(super) const FILES: [&str; 3] = ["a", "b", "gone"];

/// Puts the files that a session finds into a new directory, all at once.
///
/// Errors: `Unavailable` for everything the operating system refuses.
pub fn put_files(directory: &Path) -> Result<()> {
    let refused = |fault: io::Error| Error::unavailable(format!("put files into {directory:?}: {fault}"));
    let making = directory.with_extension("new");
    fs::create_dir_all(&making).map_err(refused)?;
    for path in FILES {
        fs::write(making.join(path), found(path)).map_err(refused)?;
    }
    fs::rename(&making, directory).map_err(refused)
}

/// What a file says at first.
fn found(path: &str) -> String {
    format!("{path} one")
}

/// All tools of the scenario.
pub(super) fn tools(extension: Extension, ledger: &Arc<Ledger>) -> Extension {
    let once = |name| Once { name, ledger: ledger.clone() };
    extension
        .tool(Look)
        .tool(Pay(ledger.clone()))
        .tool(Note(once("note")))
        .tool(Sign(once("sign")))
        .tool(Burn(once("burn")))
        .tool(Save)
        .session_tool(Delegate)
        .session_tool(Hire)
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// May run again, and says something meanwhile.
struct Look;

impl Tool for Look {
    const NAME: &'static str = "look";
    type Arguments = Nothing;

    fn description(&self) -> &str {
        "Looks."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    async fn run(&self, cx: &CallContext, _: Nothing) -> ToolResult {
        for said in ["left\n", "right\n"] {
            cx.output.write(said.as_bytes());
            tokio::task::yield_now().await;
        }
        Ok("seen".into())
    }
}

/// May run again under its key.
struct Pay(Arc<Ledger>);

impl Tool for Pay {
    const NAME: &'static str = "pay";
    type Arguments = Nothing;

    fn description(&self) -> &str {
        "Pays."
    }

    fn contract(&self) -> Contract {
        Contract::keyed()
    }

    async fn run(&self, cx: &CallContext, _: Nothing) -> ToolResult {
        self.0.charge(&cx.key, 7);
        tokio::task::yield_now().await;
        Ok("paid".into())
    }
}

/// Does what must not be done twice.
struct Once {
    name: &'static str,
    ledger: Arc<Ledger>,
}

impl Once {
    async fn run(&self, cx: &CallContext) -> ToolResult {
        self.ledger.write(Line::Did(format!("{} {}", self.name, cx.key)));
        tokio::task::yield_now().await;
        Ok("done once".into())
    }
}

macro_rules! once {
    ($tool:ident, $name:literal) => {
        struct $tool(Once);

        impl Tool for $tool {
            const NAME: &'static str = $name;
            type Arguments = Nothing;

            fn description(&self) -> &str {
                "Does what cannot be taken back."
            }

            async fn run(&self, cx: &CallContext, _: Nothing) -> ToolResult {
                self.0.run(cx).await
            }
        }
    };
}

once!(Note, "note");
once!(Sign, "sign");
once!(Burn, "burn");

/// Writes files, and removes those that are to be nothing.
struct Save;

impl Tool for Save {
    const NAME: &'static str = "save";
    type Arguments = BTreeMap<String, Option<String>>;

    fn description(&self) -> &str {
        "Saves files."
    }

    fn contract(&self) -> Contract {
        Contract::safe()
    }

    async fn run(&self, cx: &CallContext, files: Self::Arguments) -> ToolResult {
        for (path, text) in files {
            match text {
                Some(text) => {
                    let write = WriteFile { path, bytes: text.into_bytes(), expect: Expect::Any };
                    cx.env.write(write).await.map(drop)?;
                }
                None => remove(cx, path).await?,
            }
        }
        Ok("saved".into())
    }
}

/// It may have been removed by a run that was cut off.
async fn remove(cx: &CallContext, path: String) -> Result<()> {
    match cx.env.remove(path).await {
        Err(error) if *error.kind() == everturn::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Has a sub-agent help.
struct Delegate;

impl SessionTool for Delegate {
    const NAME: &'static str = "delegate";
    type Arguments = Nothing;

    fn description(&self) -> &'static str {
        "Has it done."
    }

    async fn run(&self, _: &SessionCall, _: Nothing) -> std::result::Result<Does, ToolError> {
        Ok(Does::Spawn(Spawn::new("help")))
    }
}

/// Has a sub-agent find something out in the background.
struct Hire;

impl SessionTool for Hire {
    const NAME: &'static str = "hire";
    type Arguments = Nothing;

    fn description(&self) -> &'static str {
        "Has it found out."
    }

    async fn run(&self, _: &SessionCall, _: Nothing) -> std::result::Result<Does, ToolError> {
        Ok(Does::Spawn(Spawn { is_background: true, ..Spawn::new("research") }))
    }
}

/// Files in memory, which outlive the process that writes them. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    files: BTreeMap<String, (Vec<u8>, u64)>,
    writes: u64,
}

impl Files {
    /// Those that a session finds.
    pub fn found() -> Self {
        let files = Self::default();
        FILES.into_iter().for_each(|path| files.put(path, found(path)));
        files
    }

    /// An environment that reaches them.
    pub fn env(&self) -> Env {
        Env::new(Layered(self.clone()))
    }

    fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let mut held = self.held();
        held.writes += 1;
        let version = held.writes;
        held.files.insert(path.into(), (bytes.into(), version));
    }

    fn get(&self, path: &str) -> Result<(Vec<u8>, u64)> {
        let found = self.held().files.get(path).cloned();
        found.ok_or_else(|| Error::not_found(format!("read {path:?}: there is none")))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EnvLayer for Files {
    fn inner(&self) -> Env {
        Env::new(Nowhere)
    }

    async fn resolve(&self, resolve: ResolvePath) -> Result<Resolved> {
        let kind = self.get(&resolve.path).ok().map(|_| FileKind::File);
        Ok(Resolved { path: resolve.path, kind, links: u64::from(kind.is_some()) })
    }

    async fn stat(&self, path: String) -> Result<Stat> {
        let (bytes, version) = self.get(&path)?;
        let version = FileVersion::new(version.to_string());
        Ok(Stat { kind: FileKind::File, size: bytes.len() as u64, version })
    }

    async fn read(&self, read: ReadFile) -> Result<Vec<u8>> {
        let (bytes, _) = self.get(&read.path)?;
        let behind =
            usize::try_from(read.offset).map_or(&[][..], |from| bytes.get(from..).unwrap_or_default());
        Ok(behind[..behind.len().min(read.limit)].to_vec())
    }

    async fn write(&self, write: WriteFile) -> Result<Written> {
        tokio::task::yield_now().await;
        self.put(&write.path, write.bytes);
        let (_, version) = self.get(&write.path)?;
        Ok(Written { version: FileVersion::new(version.to_string()), replaced: None })
    }

    async fn remove(&self, path: String) -> Result<()> {
        self.get(&path)?;
        self.held().files.remove(&path);
        Ok(())
    }
}
