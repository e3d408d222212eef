//! `everturn`: a chat in the terminal. What is typed while a turn runs steers it, or answers what it asks.

mod words;

use std::{collections::HashSet, future::pending};

use everturn::{
    Event, Events, Input, LiveSession, Submission, approval::ApprovalRecord, id::ApprovalId,
    submission::LOCAL, task::GraphWatch,
};

use crate::{
    args::{Place, Rules, Which},
    exit::{Exit, Failure},
    follow::exit,
    host::{Host, Missing},
    lines::{Lines, Terminal, Typed},
    question,
    screen::Screen,
    signal::{Signal, Signals},
};

pub(crate) async fn run(place: &Place, which: &Which, rules: Rules) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Create).await?;
    host.judge_by(rules, Lines::are_typed());
    let session = if which.is_new() { None } else { Some(host.session(which, "").await?) };
    let terminal = Terminal::save();
    let mut chat = Chat {
        host,
        session: None,
        turn: None,
        graphs: None,
        asked: HashSet::new(),
        open: None,
        screen: Screen::new(),
        lines: Lines::new()?,
        signals: Signals::listen()?,
        is_leaving: false,
    };
    if let Some(session) = session {
        chat.open(session);
    }
    chat.greet(which);
    let ended = chat.go_on().await;
    terminal.restore();
    let closed = chat.end().await;
    ended.and_then(|exit| closed.map(|()| exit))
}

/// A chat under way.
struct Chat {
    host: Host,
    /// The session; none before anything was asked.
    session: Option<LiveSession>,
    turn: Option<Turn>,
    /// Tells when something may be asked or begun that nobody typed here.
    graphs: Option<GraphWatch>,
    /// What was shown of what is asked.
    asked: HashSet<ApprovalId>,
    /// What the next line answers.
    open: Option<ApprovalId>,
    screen: Screen,
    lines: Lines,
    signals: Signals,
    /// Whether it ends with the turn.
    is_leaving: bool,
}

/// A turn that is followed.
struct Turn {
    asked: Submission,
    events: Events,
}

/// What the chat waits for.
enum Happened {
    Typed(Typed),
    Signal(Signal),
    Event(Box<Option<everturn::Result<Event>>>),
    Moved,
}

impl Chat {
    /// Goes on until the person leaves.
    async fn go_on(&mut self) -> Result<Exit, Failure> {
        loop {
            self.look().await?;
            if self.is_leaving && self.turn.is_none() {
                return Ok(Exit::Answered);
            }
            match self.wait().await? {
                Happened::Typed(Typed::Line(line)) => self.take(line.trim()).await?,
                Happened::Typed(Typed::Interrupt) | Happened::Signal(Signal::Interrupt)
                    if self.turn.is_some() =>
                {
                    self.cancel().await?;
                }
                Happened::Typed(Typed::Interrupt | Typed::End) => self.is_leaving = true,
                Happened::Signal(Signal::Interrupt) | Happened::Moved => {}
                Happened::Signal(Signal::Terminate) => return self.stop(),
                Happened::Event(event) => match *event {
                    Some(event) => self.screen.event(&event?.kind),
                    None => self.turn_ended().await?,
                },
            }
        }
    }

    async fn wait(&mut self) -> Result<Happened, Failure> {
        let Self { turn, graphs, lines, signals, is_leaving, .. } = self;
        // A script's lines are asked one after the other; a person may speak into a turn.
        let listens = !*is_leaving && (turn.is_none() || Lines::are_typed());
        let prompt = if turn.is_none() { "> " } else { "" };
        let event = async {
            match turn {
                Some(turn) => turn.events.next().await,
                None => pending().await,
            }
        };
        let moved = async {
            match graphs {
                // A session that is gone is told of by who follows a turn, or by the next thing that is asked.
                Some(graphs) => {
                    if graphs.next().await.is_err() {
                        pending::<()>().await;
                    }
                }
                None => pending().await,
            }
        };
        Ok(tokio::select! {
            event = event => Happened::Event(Box::new(event)),
            typed = lines.next(prompt), if listens => Happened::Typed(typed?),
            signal = signals.next() => Happened::Signal(signal),
            () = moved => Happened::Moved,
        })
    }

    /// Sees what is asked and what has begun.
    async fn look(&mut self) -> Result<(), Failure> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        if self.turn.is_none()
            && let Some(asked) = session.open_submissions().into_iter().next()
        {
            let events = asked.events();
            self.turn = Some(Turn { asked, events });
        }
        let open = session.open_approvals();
        let is_over = |id| open.iter().all(|one| one.id != id);
        if self.open.is_some_and(is_over) {
            self.open = None;
        }
        for record in &open {
            if self.open.is_none() && self.asked.insert(record.id) {
                self.show(record);
                self.open = Some(record.id);
            }
        }
        Ok(())
    }

    fn show(&mut self, record: &ApprovalRecord) {
        for line in question::lines(record) {
            self.screen.note(&line);
        }
        self.screen.note(&format!("({}; approval {})", question::answers(&record.question), record.id));
    }

    /// Takes a line: a command, an answer, something to ask, or something to say to the turn that runs.
    async fn take(&mut self, line: &str) -> Result<(), Failure> {
        let taken = match line.strip_prefix('/') {
            _ if line.is_empty() => Ok(()),
            Some("quit" | "exit") => {
                self.is_leaving = true;
                self.cancel().await
            }
            Some(command) if !command.starts_with("no ") || self.open.is_none() => self.act(command).await,
            _ if self.open.is_some() => self.answer(line).await,
            _ => self.say(line).await,
        };
        match taken {
            // What cannot be done is told, and the chat goes on; a session that is gone ends it.
            Err(failure) if matches!(failure.exit, Exit::Failed | Exit::Usage | Exit::NotFound) => {
                self.screen.note(&failure.message);
                Ok(())
            }
            taken => taken,
        }
    }

    async fn say(&mut self, line: &str) -> Result<(), Failure> {
        let session = match self.session.clone() {
            Some(session) => session,
            None => {
                let session = self.host.session(&Which::default(), line).await?;
                self.open(session.clone());
                session
            }
        };
        let steers = self.turn.is_some();
        let input = if steers { Input::text(line).steer() } else { Input::text(line) };
        session.current().await?.submit(input).await?;
        if steers {
            self.screen.note("(the turn gets it before its next request)");
        }
        Ok(())
    }

    /// Answers what is asked.
    async fn answer(&mut self, line: &str) -> Result<(), Failure> {
        let (Some(id), Some(session)) = (self.open, self.session.clone()) else { return Ok(()) };
        let record = session.approval(id).await?;
        match question::read(&record.question, line) {
            Ok(decision) => {
                let told = question::said(&decision);
                session.decide(id, decision, LOCAL).await?;
                self.open = None;
                self.screen.note(&told);
                Ok(())
            }
            Err(hint) => Err(Failure::usage(hint)),
        }
    }

    fn open(&mut self, session: LiveSession) {
        // What was cut off goes on, what was asked is judged by the rules as they are, and what others leave here is taken.
        session.resume();
        self.graphs = Some(session.task_graph());
        self.session = Some(session);
    }

    async fn cancel(&mut self) -> Result<(), Failure> {
        if let Some(turn) = &self.turn {
            turn.asked.cancel().await?;
        }
        Ok(())
    }

    /// A turn that failed or was cancelled does not end the chat; a session that is given up does.
    async fn turn_ended(&mut self) -> Result<(), Failure> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        self.screen.end_line();
        if let Err(failure) = exit(&turn.asked.answer().await?) {
            self.screen.note(&failure.message);
        }
        Ok(())
    }

    /// The system wants the process to end.
    fn stop(&self) -> Result<Exit, Failure> {
        match (&self.turn, &self.session) {
            (Some(_), Some(session)) => Err(Failure::stopped(session.id())),
            _ => Ok(Exit::Stopped),
        }
    }

    fn greet(&mut self, which: &Which) {
        let root = self.host.config.root.display().to_string();
        self.screen.note(&format!("everturn in {root}; /help says what else there is"));
        if let Some(id) = self.session.as_ref().map(|session| session.id()) {
            self.screen.note(&format!("session {id}"));
        }
        if let Some(notice) = self.host.notice(which) {
            self.screen.note(notice);
        }
    }

    async fn end(mut self) -> Result<(), Failure> {
        self.turn = None;
        if let Some(session) = self.session.take() {
            session.close().await?;
            self.screen.note(&format!("everturn chat --session {} goes on here", session.id()));
        }
        Ok(())
    }
}
