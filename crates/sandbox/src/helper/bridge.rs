//! The stage that connects sockets of a command's own loopback with the host's network.
//!
//! ```text
//!   command --> 127.0.0.1:PORT of its namespace --(the socket was passed)--> bridge --> 127.0.0.1:PORT of the host
//!   command --> the proxy's port --------------------------------------------> bridge --> a host of the list
//! ```
//!
//! It runs in the host's network under the service's account, without capabilities, and reads nothing of a command
//! but the head of a request to the proxy.

use super::account::drop_capabilities;
use super::passing::{receive_descriptors, send_descriptors};
use super::proxy;
use super::relay::{CONNECT, Refused, join};
use super::stage::{BRIDGE, control};
use crate::launch::{own_program, stage};
use crate::message::{receive, send};
use crate::spec::{Network, NotStarted};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Connections at one time; more are closed at once.
const MOST_CONNECTIONS: usize = 256;
/// How long the stage's last message may take.
const LAST: Duration = Duration::from_secs(2);

/// The stage, as the supervisor sees it.
#[derive(Debug)]
pub(super) struct Bridge {
    child: Child,
    control: UnixStream,
}

impl Bridge {
    /// Starts the stage in the network of this process.
    pub(super) fn start(network: &Network) -> Result<Self, NotStarted> {
        let started = || -> io::Result<Self> {
            let (mut control, theirs) = UnixStream::pair()?;
            let mut command = stage(&own_program()?, BRIDGE);
            // It must not keep the command's output open.
            command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
            let child = command.stderr(Stdio::null()).spawn()?;
            drop(command);
            send(&mut control, network)?;
            Ok(Self { child, control })
        };
        started().map_err(|error| NotStarted::setup("network", &error))
    }

    /// Gives it the sockets of the command's loopback, which come over this control.
    pub(super) fn pass(&self, from: &UnixStream) -> Result<(), NotStarted> {
        let passed =
            receive_descriptors(from).and_then(|sockets| send_descriptors(&self.control, &sockets));
        passed.map_err(|error| NotStarted::setup("network", &error))
    }

    /// Ends it; answers the hosts that the command was refused.
    pub(super) fn end(mut self) -> Vec<String> {
        let mut ended = || -> io::Result<Vec<String>> {
            self.control.shutdown(Shutdown::Write)?;
            self.control.set_read_timeout(Some(LAST))?;
            receive(&mut self.control)
        };
        // Without it the command's end is known all the same.
        let refused = ended().unwrap_or_default();
        drop(self.child.kill());
        drop(self.child.wait());
        refused
    }
}

pub(super) fn run() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let mut control = control()?;
    let network: Network = receive(&mut control)?;
    drop_capabilities().map_err(io::Error::other)?;
    let sockets = receive_descriptors(&control)?;
    let refused = Refused::default();
    let open = Arc::new(AtomicUsize::new(0));
    for socket in sockets {
        let listener = TcpListener::from(socket);
        let target = listener.local_addr()?;
        let (network, refused, open) = (network.clone(), refused.clone(), Arc::clone(&open));
        thread::Builder::new()
            .spawn(move || accept(&listener, &network, (target, &refused), &open))?;
    }
    // The supervisor ends it by closing its end.
    let mut byte = [0];
    while control.read(&mut byte)? > 0 {}
    send(&mut control, &refused.list())
}

fn accept(
    listener: &TcpListener,
    network: &Network,
    (target, refused): (SocketAddr, &Refused),
    open: &Arc<AtomicUsize>,
) {
    while let Ok((connection, _)) = listener.accept() {
        if open.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (network, refused, open) = (network.clone(), refused.clone(), Arc::clone(open));
        let serving = thread::Builder::new().spawn({
            let open = Arc::clone(&open);
            move || {
                // A connection that breaks is the command's to notice.
                serve(connection, &network, target, &refused).ok();
                open.fetch_sub(1, Ordering::Relaxed);
            }
        });
        if serving.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(
    connection: TcpStream,
    network: &Network,
    target: SocketAddr,
    refused: &Refused,
) -> io::Result<()> {
    match network {
        Network::HostLoopback(_) => join(connection, TcpStream::connect_timeout(&target, CONNECT)?),
        Network::Hosts(allowed) => proxy::serve(connection, allowed, refused),
        Network::None | Network::All => Ok(()),
    }
}
