//! `everturn doctor`: what the store is, and whether everything in it agrees with itself.

use std::io::{self, IsTerminal};

use everturn::storage::{SessionQuery, SessionRow};

use crate::{
    args::Place,
    exit::{Exit, Failure},
    host::{Host, Missing, PAGE},
    screen::{Screen, moment},
};

pub(crate) async fn run(place: &Place, verify: bool) -> Result<Exit, Failure> {
    let host = Host::open(place, Missing::Refuse).await?;
    let mut screen = Screen::new();
    let (mut sessions, mut findings) = (0_u64, 0_u64);
    if verify {
        let wrong = host.harness.opener().store.check().await?;
        wrong.iter().for_each(|finding| screen.text(&finding.to_string()));
        findings += wrong.len() as u64;
    }
    let mut query = SessionQuery { limit: PAGE, ..SessionQuery::default() };
    loop {
        let page = host.next_page(&mut query).await?;
        if page.is_empty() {
            break;
        }
        for row in &page {
            sessions += 1;
            if verify {
                findings += prove(&host, row, sessions, &mut screen).await?;
            }
        }
    }
    let store = &host.config.store;
    screen.text(&format!("{store}: {sessions} sessions, schema known, {}", said(verify, findings)));
    screen.delivered()?;
    Ok(if findings == 0 { Exit::Answered } else { Exit::Store })
}

/// Verifies one session; gives how much is wrong with it.
async fn prove(host: &Host, row: &SessionRow, number: u64, screen: &mut Screen) -> Result<u64, Failure> {
    if io::stderr().is_terminal() {
        eprint!("\rverifying session {number} ");
    }
    if row.new.labels.contains_key("et.restoring") {
        screen.text(&format!("session {}: it is only partly restored; restore it again", row.id));
        return Ok(0);
    }
    let findings = host.harness.verify(row.id).await?;
    if !findings.is_empty() {
        screen.heading(&format!("session {}, last used {} UTC", row.id, moment(row.used)));
    }
    for finding in &findings {
        screen.text(&finding.to_string());
    }
    Ok(findings.len() as u64)
}

fn said(verify: bool, findings: u64) -> String {
    match (verify, findings) {
        (false, _) => "not verified (--verify reads everything again)".into(),
        (true, 0) => "everything agrees with itself".into(),
        (true, findings) => {
            format!("{findings} findings; the store was left as it is, restore it from a backup")
        }
    }
}
