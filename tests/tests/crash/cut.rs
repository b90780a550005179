//! A network that silently drops all packets between an executor and the database: neither side is
//! notified, and connections stay half open.

use super::{QUICK, skip};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;
use surety_common::wire::v1;
use surety_e2e::audit::audit_at_rest;
use surety_e2e::harness::{Cluster, Database, Deployment, Process, Service, WRAPPER, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};
use tokio::net::{TcpListener, UnixStream};

/// A network namespace, and the cable to it, which can be cut.
struct Cable {
    namespace: String,
    near: String,
    address: String,
}

fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split_whitespace()).output()?;
    ensure!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

impl Cable {
    /// Lays one; none where the machine does not let us.
    fn lay() -> Result<Self, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("only root may make network namespaces".to_owned());
        }
        let number = std::process::id();
        let cable = Self {
            namespace: format!("surety-{number}"),
            near: format!("sv{number}"),
            address: format!("10.213.{}", number % 250),
        };
        cable.connect().map_err(|error| format!("{error:#}"))?;
        Ok(cable)
    }

    fn connect(&self) -> Result<()> {
        let Self { namespace, near, address } = self;
        let far = format!("{near}f");
        ip(&format!("netns add {namespace}"))?;
        ip(&format!("link add {near} type veth peer name {far}"))?;
        ip(&format!("link set {far} netns {namespace}"))?;
        ip(&format!("addr add {address}.1/24 dev {near}"))?;
        ip(&format!("link set {near} up"))?;
        ip(&format!("-n {namespace} addr add {address}.2/24 dev {far}"))?;
        ip(&format!("-n {namespace} link set {far} up"))?;
        ip(&format!("-n {namespace} link set lo up"))
    }

    fn cut(&self) -> Result<()> {
        ip(&format!("link set {} down", self.near))
    }

    fn mend(&self) -> Result<()> {
        ip(&format!("link set {} up", self.near))
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // What was never laid needs no removal.
        for words in [format!("link del {}", self.near), format!("netns del {}", self.namespace)] {
            if let Err(error) = ip(&words) {
                println!("{error:#}");
            }
        }
    }
}

/// Leads from a port at the cable's near end to the database's socket.
async fn lead_to(socket: PathBuf, address: &str) -> Result<String> {
    let listener = TcpListener::bind((address, 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut far, _)) = listener.accept().await {
            let socket = socket.clone();
            tokio::spawn(async move {
                if let Ok(mut near) = UnixStream::connect(socket).await {
                    // Either side may break it.
                    tokio::io::copy_bidirectional(&mut far, &mut near).await.ok();
                }
            });
        }
    });
    Ok(format!("postgres://surety@{address}:{port}/surety?sslmode=disable"))
}

/// An executor and its gate behind the cable.
async fn remote(deployment: &mut Deployment, cable: &Cable, url: &str) -> Result<Process> {
    let wrapper = format!("ip netns exec {}", cable.namespace);
    let mut environment = vec![QUICK[0], QUICK[1], (WRAPPER, wrapper.as_str())];
    let gate = Process::start_on(Service::Gate, "127.0.0.1:0", url, &environment).await?;
    let gate_url = gate.url();
    let data_dir = deployment.data_dir().to_string_lossy().into_owned();
    environment.push(("SURETY_GATE_URL", &gate_url));
    environment.push(("SURETY_EXECUTOR_DATA_DIR", &data_dir));
    let executor = Process::start_on(Service::Executor, "127.0.0.1:0", url, &environment).await?;
    deployment.executors.push(executor);
    Ok(gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_behind_a_cut_network_loses_its_runs_and_comes_back() -> Result<()> {
    let cable = match Cable::lay() {
        Ok(cable) => cable,
        Err(why) => {
            skip("a network that is cut", &why);
            return Ok(());
        }
    };
    let mut cluster = Cluster::start().await?;
    let database = Database::at(&cluster.url()?)?;
    let mut deployment = Deployment::start_idle(database, &QUICK).await?;
    let socket = cluster.socket_folder().join(".s.PGSQL.5432");
    let url = lead_to(socket, &format!("{}.1", cable.address)).await?;
    let _gate = remote(&mut deployment, &cable, &url).await?;
    let trail = Trail::new()?;
    let steps = [step("only", &[], &[shell(&trail.mark_and_wait("began"))])];
    let request = script::repeatable(script::request(&plan(&steps), ""));
    let run = deployment.create_run(request).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    cable.cut()?;
    deployment.add_executor(&[]).await?;
    wait_until("the near one took it up", || trail.marks("began") == 2).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    // No packet reports it, and the kernel would wait for a quarter of an hour.
    let remote = deployment.executors.first().context("the remote one")?;
    remote.wait_for_line(|line| line.contains("the heartbeat was not written")).await?;
    deployment.executors.remove(1).kill().await?;
    cable.mend()?;
    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    audit_at_rest(&deployment.database.pool().await?).await?;
    drop(deployment);
    cluster.stop().await
}
