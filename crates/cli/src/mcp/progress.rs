//! Tells a client how far a round is, or that another long call goes on, where it asked for that.

use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use surety_executor::round::Begun;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// How often a long check, or another long call, is said to be at work.
const EVERY: Duration = Duration::from_secs(2);

/// Notifications about one call. They end with it.
#[derive(Debug)]
pub(super) struct Progress {
    sending: JoinHandle<()>,
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.sending.abort();
    }
}

impl Progress {
    /// Begins to tell of a round; the sender is for the round.
    pub(super) fn of_round(
        (peer, token): (Peer<RoleServer>, ProgressToken),
    ) -> (Self, UnboundedSender<Begun>) {
        let (sender, receiver) = unbounded_channel();
        (Self { sending: tokio::spawn(follow(peer, token, receiver)) }, sender)
    }

    /// Tells that a call goes on, of which is known only what it does.
    pub(super) fn of_wait(
        (peer, token): (Peer<RoleServer>, ProgressToken),
        does: &'static str,
    ) -> Self {
        Self { sending: tokio::spawn(wait(peer, token, does)) }
    }
}

async fn wait(peer: Peer<RoleServer>, token: ProgressToken, does: &'static str) {
    let mut value = 0.0;
    loop {
        tokio::time::sleep(EVERY).await;
        value += 1.0;
        let said = ProgressNotificationParam::new(token.clone(), value).with_message(does);
        if peer.notify_progress(said).await.is_err() {
            return;
        }
    }
}

async fn follow(peer: Peer<RoleServer>, token: ProgressToken, mut begun: UnboundedReceiver<Begun>) {
    let mut at = At::default();
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            next = begun.recv() => match next {
                Some(next) => at.begin(next),
                None => return,
            },
            _ = ticks.tick() => at.wait(),
        }
        let mut said = ProgressNotificationParam::new(token.clone(), at.value);
        if let Some(of) = at.of() {
            said = said.with_total(of);
        }
        if peer.notify_progress(said.with_message(at.message())).await.is_err() {
            return;
        }
    }
}

/// How far a round is. The value only grows, as the protocol asks: a round begins with the reading of the workspace,
/// and a repeated one behind the first.
#[derive(Debug, Default)]
struct At {
    value: f64,
    offset: f64,
    last: Option<Begun>,
}

/// What is left of the present check is divided by this with every wait.
const PART: f64 = 50.0;

impl At {
    fn begin(&mut self, begun: Begun) {
        if self.last.as_ref().is_some_and(|last| last.round != begun.round) {
            self.offset = self.ceiling();
        }
        self.value = self.offset + 1.0 + number(begun.place);
        self.last = Some(begun);
    }

    fn wait(&mut self) {
        self.value += (self.ceiling() - self.value) / PART;
    }

    /// Where the next check begins.
    fn ceiling(&self) -> f64 {
        self.offset + 1.0 + self.last.as_ref().map_or(0.0, |last| number(last.place) + 1.0)
    }

    fn of(&self) -> Option<f64> {
        self.last.as_ref().map(|last| self.offset + 1.0 + number(last.of))
    }

    fn message(&self) -> String {
        match &self.last {
            None => "the workspace is read".to_owned(),
            Some(Begun { round, place, of, check_id }) => {
                let again = if *round > 1 { " again" } else { "" };
                format!("check {} of {of}{again}: {check_id}", place + 1)
            }
        }
    }
}

/// A place as a number of the protocol.
fn number(place: usize) -> f64 {
    f64::from(u32::try_from(place).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_grows_with_every_check_every_wait_and_every_round() {
        let mut at = At::default();
        let mut before = -1.0;
        let mut grows = |at: &At| {
            assert!(at.value > before, "{} after {before}", at.value);
            before = at.value;
        };
        at.wait();
        grows(&at);
        for round in 1..=2 {
            for place in 0..3 {
                at.begin(Begun { round, place, of: 3, check_id: "c".to_owned() });
                grows(&at);
                at.wait();
                grows(&at);
                assert!(at.of().is_some_and(|of| of >= at.value), "{at:?}");
            }
        }
        assert_eq!(at.message(), "check 3 of 3 again: c");
    }
}
