//! `everturn approvals [ID]`: what waits for a decision, read without taking a session.

use everturn::{
    id::SessionId,
    storage::{ApprovalQuery, ApprovalRow},
};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    follow::line,
    host::{Host, Missing, explain},
    question::{age, fields, lines},
    screen::{Screen, moment},
};

/// How many are read at a time.
const PAGE: usize = 200;

pub(crate) async fn run(place: &Place, id: Option<SessionId>, json: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    if let Some(id) = id {
        host.harness.reader(id).await.map_err(explain)?;
    }
    let mut screen = Screen::new();
    let open = id.map_or_else(ApprovalQuery::open, ApprovalQuery::open_in);
    let mut query = ApprovalQuery { limit: PAGE, ..open };
    let mut is_empty = true;
    loop {
        let page = host.harness.opener().store.approvals(query.clone()).await?;
        let Some(last) = page.last() else { break };
        query.after = Some((last.session, last.record.id));
        is_empty = false;
        for row in &page {
            if json {
                line(&fields(row.session, &row.record)).map_err(|fault| Failure::output(&fault))?;
            } else {
                show(&host, row, &mut screen);
            }
        }
    }
    screen.delivered()?;
    if is_empty && !json {
        eprintln!("everturn: nothing waits for a decision");
    }
    Ok(Exit::Answered)
}

fn show(host: &Host, row: &ApprovalRow, screen: &mut Screen) {
    let ApprovalRow { session, record } = row;
    let (asked, now) = (record.time, host.harness.opener().world.clock.now());
    screen.heading(&format!("{}  session {session}", record.id));
    screen.text(&format!("    asked {} ({} UTC)", age(asked, now), moment(asked)));
    for line in lines(record) {
        screen.text(&format!("    {line}"));
    }
}
