//! The stage that is pid 1 of the command's namespaces: it makes its mount tree, gives up every right,
//! starts the command, and collects what it leaves. When it ends, the kernel kills all of the rest.

use super::account::{drop_capabilities, user_namespace};
use super::filter::{self, Sockets};
use super::memory::Memory;
use super::names::Names;
use super::passing::send_descriptors;
use super::processes::{ProcessTree, all_but_init};
use super::stage::{GO, News, Order, control, drain, signals, unblock_signals};
use super::{limits, loopback, mounts, ports, program};
use crate::message::{KILL, TERMINATE, receive, send};
use crate::spec::{Exit, Left, LimitHit, Network, NotStarted, PROXY_PORT, Spec};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::{Pid, geteuid, sethostname};
use std::fs;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

/// The kernel gives no ids below this one to processes again.
const RESERVED_IDS: u64 = 300;

pub(super) fn run() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let signals = signals()?;
    let mut control = control()?;
    let order: Order = receive(&mut control)?;
    let spec = &order.spec;
    let Prepared { command, listeners, mut names } = match prepare(&order, &control) {
        Ok(prepared) => prepared,
        Err(why) => return send(&mut control, &News::NotStarted(why)),
    };
    send(&mut control, &News::Ready)?;
    if spec.network.is_bridged() {
        send_descriptors(&control, &listeners)?;
    }
    drop(listeners);
    let mut go = [0];
    control.read_exact(&mut go)?;
    if go != [GO] {
        return Ok(());
    }
    let memory = memory(spec);
    let news = match command.map(|command| start(command, spec)) {
        None => ended(Exit::Code(0), Vec::new(), None, None),
        Some(Err(why)) => News::NotStarted(why),
        Some(Ok(main)) => {
            let bounds = (names.as_mut(), memory);
            follow(ProcessTree::of(main), &signals, &mut control, bounds)?
        }
    };
    send(&mut control, &news)
}

/// What is ready for the command's start.
struct Prepared {
    command: Option<Command>,
    /// Sockets of its loopback that lead to the host's network.
    listeners: Vec<TcpListener>,
    /// The names that it asks for; none where it has the host's network.
    names: Option<Names>,
}

fn ended(exit: Exit, left: Vec<Left>, limit: Option<LimitHit>, names: Option<&Names>) -> News {
    let network_refused = names.and_then(|_| loopback::refused());
    let hosts_refused = names.map(Names::asked).unwrap_or_default();
    News::Ended { exit, left, limit, network_refused, hosts_refused }
}

/// Whether the memory of all processes together is bounded by a control group.
fn is_grouped(spec: &Spec) -> bool {
    spec.confinement.cgroups.iter().any(|group| group.memory)
}

/// What bounds it where no control group does.
fn memory(spec: &Spec) -> Option<Memory> {
    (!is_grouped(spec)).then(|| Memory::new(spec.limits.memory_bytes, mounts::in_memory(spec)))
}

/// The sockets of the command's own loopback that lead to the host's network.
fn listen(network: &Network) -> io::Result<Vec<TcpListener>> {
    let ports = match network {
        Network::HostLoopback(ports) => ports.as_slice(),
        Network::Hosts(_) => &[PROXY_PORT],
        Network::None | Network::All => &[],
    };
    let mut listeners = Vec::new();
    for port in ports {
        listeners.extend(loopback::listen(*port)?);
    }
    Ok(listeners)
}

/// Makes the namespaces and gives up every right, in the order in which each still can be done.
fn prepare(order: &Order, control: &UnixStream) -> Result<Prepared, NotStarted> {
    let spec = &order.spec;
    let input = program::input(spec, control)?;
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    if spec.network != Network::All {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    unshare(flags | CloneFlags::CLONE_NEWCGROUP)
        .map_err(|error| NotStarted::setup("namespaces", &error.into()))?;
    let names = match spec.network != Network::All {
        true => {
            loopback::up().map_err(|error| NotStarted::setup("loopback", &error))?;
            Some(Names::listen())
        }
        false => None,
    };
    let listeners =
        listen(&spec.network).map_err(|error| NotStarted::setup("loopback ports", &error))?;
    // It is the one name that every machine resolves without a network.
    sethostname("localhost").map_err(|error| NotStarted::setup("host name", &error.into()))?;
    mounts::build(order)?;
    if spec.confinement.pid_max {
        bound_ids(spec.limits.processes)?;
    }
    mounts::close()?;
    let root = geteuid().is_root();
    let counted = (!root || order.account.is_some()).then_some(spec.limits.processes);
    let memory_of_each = !is_grouped(spec);
    if let Some(account) = order.account {
        account.become_it()?;
    }
    if root {
        // Any other account is in one already, which its other namespaces need.
        user_namespace(CloneFlags::empty())?;
    }
    limits::apply(&spec.limits, counted, memory_of_each)?;
    drop_capabilities()?;
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| NotStarted::setup("parent's death signal", &error.into()))?;
    let command = program::command(spec)?.map(|mut command| {
        command.stdin(input);
        command
    });
    ports::close(&spec.closed_ports)?;
    filter::apply(Sockets::Namespaced, spec.parser_input.is_some())?;
    // The command must not read or change this process, which reports its exit.
    prctl::set_dumpable(false).map_err(|error| NotStarted::setup("dumpable", &error.into()))?;
    Ok(Prepared { command, listeners, names })
}

/// Bounds the number of processes by the ids that this namespace has to give.
fn bound_ids(processes: u64) -> Result<(), NotStarted> {
    let write = |file: &str, number: u64| {
        fs::write(file, number.to_string()).map_err(|error| NotStarted::setup(file, &error))
    };
    write("/proc/sys/kernel/pid_max", RESERVED_IDS + 1 + processes)?;
    // The ids up to the reserved ones are given once only. They are skipped where the kernel lets us;
    // where it does not, that many processes more can run.
    drop(fs::write("/proc/sys/kernel/ns_last_pid", RESERVED_IDS.to_string()));
    Ok(())
}

fn start(mut command: Command, spec: &Spec) -> Result<Pid, NotStarted> {
    let program = spec.argv.first().map_or("", String::as_str);
    let failed = |error: io::Error| NotStarted::setup("signals", &error);
    unblock_signals().map_err(failed)?;
    let started = command.spawn();
    // A child that ended meanwhile is found by the first collection.
    signals().map_err(failed)?;
    let child = started.map_err(|error| program::not_started(program, &error))?;
    Ok(Pid::from_raw(child.id().cast_signed()))
}

fn follow(
    mut tree: ProcessTree,
    signals: &SignalFd,
    control: &mut UnixStream,
    (mut names, mut memory): (Option<&mut Names>, Option<Memory>),
) -> io::Result<News> {
    loop {
        let any_left = tree.collect()?;
        let grace_left = tree.grace_left();
        if let Some(exit) = &tree.exit
            && (!any_left || grace_left.is_some_and(|grace_left| grace_left.is_zero()))
        {
            let left = if any_left { all_but_init() } else { Vec::new() };
            return Ok(ended(exit.clone(), left, None, names.as_deref()));
        }
        if memory.as_mut().is_some_and(Memory::is_exceeded) {
            // Every process ends with this one.
            let exit = Exit::Signal(Signal::SIGKILL as i32);
            return Ok(ended(exit, Vec::new(), Some(LimitHit::Memory), names.as_deref()));
        }
        let due = [grace_left, memory.as_ref().map(Memory::due_in)].into_iter().flatten().min();
        let timeout = due.map_or(PollTimeout::NONE, |due| {
            // One millisecond longer, so that it is due then.
            PollTimeout::try_from(due + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let requested = {
            let watched = [signals.as_fd(), control.as_fd()].into_iter();
            let asked = names.as_deref().into_iter().flat_map(Names::sockets);
            let mut wanted: Vec<_> =
                watched.chain(asked).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            match poll(&mut wanted, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            wanted.get(1).is_some_and(|fd| fd.any().unwrap_or(true))
        };
        drain(signals)?;
        if let Some(names) = &mut names {
            names.answer();
        }
        if requested {
            let mut byte = [0];
            match control.read(&mut byte)? {
                1 if byte == [TERMINATE] => {
                    // Every process but this one; there may be none left.
                    kill(Pid::from_raw(-1), Signal::SIGTERM).ok();
                }
                1 if byte != [KILL] => {}
                // Killed by the kernel with this process.
                _ => return Err(io::Error::other("the supervisor is gone")),
            }
        }
    }
}
