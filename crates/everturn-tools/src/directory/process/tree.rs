//! All processes that come from one run, and how they are made to end.

use std::{
    fmt, process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::process::{Pid, Signal, kill_process_group};

/// The variable that marks the processes of a run, also those that leave its group.
pub(super) const VARIABLE: &str = "EVERTURN_RUN";

/// How often processes are looked for that were started while others were ended.
const ROUNDS: usize = 10;

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// What tells the processes of one run from all others.
#[derive(Clone, Copy)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) fn new() -> Self {
        Self(NUMBER.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", process::id(), self.0)
    }
}

/// Which processes are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Those of the group of the program.
    Group,
    /// Also those that have left it.
    All,
}

/// The processes of a run. Those that are left when it is dropped are ended, unless it is over.
pub(super) struct Tree(Arc<Processes>);

struct Processes {
    leader: Option<Pid>,
    mark: Mark,
    is_over: AtomicBool,
}

impl Tree {
    /// The processes that come from this one, which leads its group.
    pub(super) fn new(leader: Option<u32>, mark: Mark) -> Self {
        let leader = leader.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self(Arc::new(Processes { leader, mark, is_over: AtomicBool::new(false) }))
    }

    /// Asks them to end.
    pub(super) async fn ask(&self, reach: Reach) {
        self.blocking(move |processes| processes.signal(Signal::TERM, reach)).await;
    }

    /// Ends them.
    pub(super) async fn kill(&self, reach: Reach) {
        self.blocking(move |processes| processes.kill(reach)).await;
    }

    /// Nothing is left of them that has to end.
    pub(super) fn is_over(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }

    async fn blocking(&self, work: impl FnOnce(&Processes) + Send + 'static) {
        let processes = self.0.clone();
        // It fails only while the runtime ends, and then the drop does it.
        let _ = tokio::task::spawn_blocking(move || work(&processes)).await;
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.0.is_over.load(Ordering::Relaxed) {
            self.0.kill(Reach::All);
        }
    }
}

impl Processes {
    fn kill(&self, reach: Reach) {
        self.signal(Signal::KILL, reach);
        for _ in 1..ROUNDS {
            if reach == Reach::Group || self.strays().is_empty() {
                return;
            }
            self.signal(Signal::KILL, reach);
        }
    }

    /// A process that is gone needs no signal, and one that is somebody else's takes none.
    fn signal(&self, signal: Signal, reach: Reach) {
        // Looked for first: the tree falls apart when its trunk ends.
        let strays = if reach == Reach::All { self.strays() } else { Vec::new() };
        // A group outlives its leader, and its number is nobody else's while it has a member.
        if let Some(leader) = self.leader {
            let _ = kill_process_group(leader, signal);
        }
        for stray in strays {
            let _ = rustix::process::kill_process(stray, signal);
        }
    }

    /// The processes that bear the mark, and all that come from those or from the program.
    #[cfg(target_os = "linux")]
    fn strays(&self) -> Vec<Pid> {
        use std::collections::BTreeSet;
        let mark = format!("{VARIABLE}={}", self.mark);
        let all: Vec<_> = linux::processes().collect();
        let marked = all.iter().filter(|process| linux::has_variable(process.id, &mark));
        let mut ours: BTreeSet<i32> = marked.map(|process| process.id).collect();
        ours.extend(self.leader.map(Pid::as_raw_pid));
        loop {
            let children = all.iter().filter(|process| ours.contains(&process.parent));
            let new: Vec<_> = children.map(|process| process.id).filter(|id| !ours.contains(id)).collect();
            if new.is_empty() {
                break;
            }
            ours.extend(new);
        }
        let living = all.iter().filter(|process| !process.is_zombie && ours.contains(&process.id));
        living.filter_map(|process| Pid::from_raw(process.id)).collect()
    }

    /// Only Linux tells everyone where a process comes from; elsewhere the group is all there is.
    #[cfg(not(target_os = "linux"))]
    fn strays(&self) -> Vec<Pid> {
        let _ = self.mark;
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    pub(super) struct Process {
        pub(super) id: i32,
        pub(super) parent: i32,
        pub(super) is_zombie: bool,
    }

    /// All processes of the machine, as far as they are shown.
    pub(super) fn processes() -> impl Iterator<Item = Process> {
        let names = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter_map(|id| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            // The name of the program stands in parentheses, and may hold anything.
            let mut words = stat.rsplit_once(')')?.1.split_whitespace();
            let state = words.next()?;
            let parent = words.next()?.parse().ok()?;
            Some(Process { id, parent, is_zombie: matches!(state, "Z" | "X") })
        })
    }

    /// Whether a process was started with this variable; those of other users do not say.
    pub(super) fn has_variable(id: i32, variable: &str) -> bool {
        let variables = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    }
}
