//! A port that leads to one of several processes, as a load balancer in front of them.

use anyhow::Result;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A port of its own. Connections that are open stay where they lead.
pub struct Relay {
    address: String,
    target: Arc<watch::Sender<String>>,
    accepting: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Relay {
    /// Leads new connections to the process at `target`, as host and port.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(target: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let target = Arc::new(watch::Sender::new(target.to_owned()));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&target)));
        Ok(Self { address, target, accepting })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Leads new connections to another process.
    pub fn lead_to(&self, target: &str) {
        self.target.send_replace(target.to_owned());
    }
}

async fn accept(listener: TcpListener, target: Arc<watch::Sender<String>>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let target = target.borrow().clone();
        tokio::spawn(async move {
            // A connection that breaks is what its ends have to bear.
            if let Ok(mut server) = TcpStream::connect(&target).await {
                copy_bidirectional(&mut client, &mut server).await.ok();
            }
        });
    }
}
