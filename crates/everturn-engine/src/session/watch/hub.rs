//! From the line to the watchers: what was committed is handed on by a task of its own, off the line.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use everturn_core::{Error, cursor::Cursor, storage::Part};
use tokio::sync::Notify;

use super::{Baseline, Ended, FrameKind, frame::concerns};
use crate::session::state::Adopted;

/// How many frames wait for a watcher before they become one.
const WAITING_MAX: usize = 100;

/// How many watchers are told at a time: then whoever commits has a turn, and the next are told of that commit too.
const AT_ONCE: usize = 32;

/// The watchers of an open session. Dropped with the session, which ends them.
#[derive(Default)]
pub(crate) struct Watchers(Arc<Hub>);

#[derive(Default)]
struct Hub {
    state: Mutex<State>,
    told: Notify,
}

#[derive(Default)]
struct State {
    queues: Vec<Weak<Queue>>,
    news: Vec<News>,
    end: Option<Ended>,
    is_running: bool,
}

/// What watchers are told of.
#[derive(Clone)]
enum News {
    Commit(Cursor, Arc<Adopted>),
    Resync,
    End(Ended),
}

/// What waits for one watcher.
pub(super) struct Queue {
    part: Part,
    waiting: Mutex<Waiting>,
    told: Notify,
}

#[derive(Default)]
struct Waiting {
    commits: VecDeque<(Cursor, Arc<Adopted>)>,
    /// What the newest state is told as, in place of all that waited.
    gap: Option<Gap>,
    end: Option<Ended>,
}

/// How the newest state is told.
pub(super) type Gap = fn(Baseline) -> FrameKind;

/// What a watcher finds in its queue.
pub(super) enum Next {
    Commit(Cursor, Arc<Adopted>),
    Gap(Gap),
    End(Ended),
}

impl Watchers {
    /// Tells of a commit, in the order of commits. Costs nothing where nobody watches.
    pub(crate) fn commit(&self, cursor: Cursor, adopted: &Adopted) {
        let is_watched = !self.0.state().queues.is_empty();
        if is_watched {
            self.0.tell(News::Commit(cursor, Arc::new(adopted.clone())));
        }
    }

    /// Tells that commits were lost.
    pub(crate) fn resync(&self) {
        self.0.tell(News::Resync);
    }

    /// Tells that there will be no more.
    pub(crate) fn end(&self, why: Ended) {
        self.0.state().end.get_or_insert_with(|| why.clone());
        self.0.tell(News::End(why));
    }

    pub(super) fn subscribe(&self, part: Part) -> Arc<Queue> {
        let queue = Arc::new(Queue { part, waiting: Mutex::default(), told: Notify::new() });
        let mut state = self.0.state();
        if let Some(end) = &state.end {
            queue.waiting().end = Some(end.clone());
            return queue;
        }
        state.queues.push(Arc::downgrade(&queue));
        queue
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.end(Ended::Closed(Error::closed("its last handle was dropped")));
    }
}

impl Hub {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands news on, in a task of its own where there is a runtime to run it.
    fn tell(self: &Arc<Self>, news: News) {
        let mut state = self.state();
        state.news.push(news);
        if state.is_running {
            drop(state);
            self.told.notify_one();
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                state.is_running = true;
                drop(state);
                // Made here: it says that it ended also when the runtime ends before it began.
                let running = Running(self.clone());
                runtime.spawn(running.hand_on());
            }
            Err(_) => {
                drop(state);
                drop(self.begin());
            }
        }
    }

    /// Takes the news, and who is to hear them.
    fn begin(&self) -> Round {
        let mut state = self.state();
        state.queues.retain(|queue| queue.strong_count() > 0);
        let queues = state.queues.iter().filter_map(Weak::upgrade).collect();
        Round { news: std::mem::take(&mut state.news), queues }
    }
}

/// News on their way to everyone who is to hear them.
struct Round {
    news: Vec<News>,
    queues: Vec<Arc<Queue>>,
}

impl Round {
    /// Hands the news to some more watchers; whether that were all.
    fn go_on(&mut self, count: usize) -> bool {
        let from = self.queues.len().saturating_sub(count);
        self.queues.drain(from..).for_each(|queue| queue.put(&self.news));
        self.queues.is_empty()
    }

    fn is_last(&self) -> bool {
        self.queues.is_empty() || self.news.iter().any(|news| matches!(news, News::End(_)))
    }
}

impl Drop for Round {
    /// Whoever was not told yet is told now: nobody misses a commit.
    fn drop(&mut self) {
        self.go_on(usize::MAX);
    }
}

/// The task that hands news on, until nobody watches.
struct Running(Arc<Hub>);

impl Running {
    async fn hand_on(self) {
        loop {
            let mut round = self.0.begin();
            let is_last = round.is_last();
            while !round.go_on(AT_ONCE) {
                tokio::task::yield_now().await;
            }
            if is_last {
                return;
            }
            self.0.told.notified().await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_running = false;
        let is_left = !state.news.is_empty();
        drop(state);
        if is_left {
            // What came while it ended.
            drop(self.0.begin());
        }
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, news: &[News]) {
        let mut waiting = self.waiting();
        let mut is_told = false;
        for news in news {
            is_told |= waiting.put(news, &self.part);
        }
        drop(waiting);
        if is_told {
            self.told.notify_one();
        }
    }

    /// The next that waits. A gap stands for all that came before it was taken.
    pub(super) async fn next(&self) -> Next {
        loop {
            let told = self.told.notified();
            if let Some(next) = self.waiting().take() {
                return next;
            }
            told.await;
        }
    }
}

impl Waiting {
    fn put(&mut self, news: &News, part: &Part) -> bool {
        match news {
            News::Commit(_, adopted) if self.gap.is_some() || !concerns(part, adopted) => return false,
            News::Commit(..) if self.commits.len() == WAITING_MAX => {
                self.commits.clear();
                self.gap = Some(FrameKind::Reset);
            }
            News::Commit(cursor, adopted) => self.commits.push_back((*cursor, adopted.clone())),
            News::Resync => {
                self.commits.clear();
                self.gap = Some(FrameKind::Resync);
            }
            // The first reason stays.
            News::End(end) => drop(self.end.get_or_insert_with(|| end.clone())),
        }
        true
    }

    fn take(&mut self) -> Option<Next> {
        if let Some(gap) = self.gap.take() {
            return Some(Next::Gap(gap));
        }
        let commit = self.commits.pop_front().map(|(cursor, adopted)| Next::Commit(cursor, adopted));
        commit.or_else(|| self.end.clone().map(Next::End))
    }
}
