//! Mail of an open session: what others, who do not own it, ask of it.

use std::time::Duration;

use everturn_core::{
    Result,
    storage::{MailFilter, MailRow},
};

use super::Session;

/// How long the doorbell is trusted: then the store is asked whether or not it rang.
const POLL: Duration = Duration::from_secs(1);

impl Session {
    /// Mail that waits to be taken, oldest first. [`Transaction::take`](super::Transaction::take) takes it.
    pub async fn mail(&self) -> Result<Vec<MailRow>> {
        self.store().mail(self.id(), MailFilter::Waiting).await
    }

    /// Waits until there is mail, and gives it, oldest first. What is not taken is given again.
    ///
    /// Errors: why the session was shut.
    pub async fn wait_for_mail(&self) -> Result<Vec<MailRow>> {
        let clock = &self.0.opener.world.clock;
        let mut heard = 0;
        loop {
            self.0.check_open()?;
            let mail = self.mail().await?;
            if !mail.is_empty() {
                return Ok(mail);
            }
            tokio::select! {
                rung = self.store().doorbell(heard) => heard = rung,
                () = clock.sleep(POLL) => {}
            }
        }
    }
}
