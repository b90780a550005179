//! What connections to the host's network have in common.

use std::collections::BTreeSet;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Hosts that are kept of those that were refused.
const MOST_REFUSED: usize = 16;
/// How long the connection to a host may take.
pub(super) const CONNECT: Duration = Duration::from_secs(15);

/// The hosts that commands were refused.
#[derive(Debug, Clone, Default)]
pub(super) struct Refused(Arc<Mutex<BTreeSet<String>>>);

impl Refused {
    pub(super) fn add(&self, host: String) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() < MOST_REFUSED {
            hosts.insert(host);
        }
    }

    pub(super) fn list(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Copies both ways until both ends are closed.
pub(super) fn join(one: TcpStream, other: TcpStream) -> io::Result<()> {
    let (from, to) = (one.try_clone()?, other.try_clone()?);
    let back = thread::Builder::new().spawn(move || copy(&other, &one))?;
    copy(&from, &to);
    back.join().map_err(|_| io::Error::other("copying failed: a defect"))
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    if io::copy(&mut from, &mut to).is_err() {
        // The other direction ends, too.
        from.shutdown(Shutdown::Both).ok();
    }
    to.shutdown(Shutdown::Write).ok();
}
