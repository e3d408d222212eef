//! What the system and the keyboard send.

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit::Failure;

/// What interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C: end the turn.
    Interrupt,
    /// The system wants the process to end: leave the turn for later.
    Terminate,
}

/// Listens for the life of the command: once it listens, nothing else acts on these signals.
pub(crate) struct Signals {
    interrupt: Stream,
    terminate: Stream,
    hangup: Stream,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.hangup.recv() => Signal::Terminate,
        }
    }
}
