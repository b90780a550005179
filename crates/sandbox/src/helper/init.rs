//! The stage that is pid 1 of the command's namespaces: it makes its mount tree, gives up every right,
//! starts the command, and collects what it leaves. When it ends, the kernel kills all of the rest.

use super::account::{drop_capabilities, user_namespace};
use super::filter::{self, Sockets};
use super::processes::{ProcessTree, all_but_init};
use super::stage::{GO, News, Order, control, drain, signals, unblock_signals};
use super::{limits, loopback, mounts, program};
use crate::message::{KILL, TERMINATE, receive, send};
use crate::spec::{Exit, Network, NotStarted, Spec};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::{Pid, geteuid, sethostname};
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

/// The kernel gives no ids below this one to processes again.
const RESERVED_IDS: u64 = 300;

pub(super) fn run() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let signals = signals()?;
    let mut control = control()?;
    let order: Order = receive(&mut control)?;
    let spec = &order.spec;
    let command = match prepare(&order) {
        Ok(command) => command,
        Err(why) => return send(&mut control, &News::NotStarted(why)),
    };
    send(&mut control, &News::Ready)?;
    let mut go = [0];
    control.read_exact(&mut go)?;
    if go != [GO] {
        return Ok(());
    }
    let own_network = spec.network != Network::All;
    let news = match command.map(|command| start(command, spec)) {
        None => News::Ended { exit: Exit::Code(0), left: Vec::new(), network_refused: None },
        Some(Err(why)) => News::NotStarted(why),
        Some(Ok(main)) => follow(ProcessTree::of(main), &signals, &mut control, own_network)?,
    };
    send(&mut control, &news)
}

/// Makes the namespaces and gives up every right, in the order in which each still can be done.
fn prepare(order: &Order) -> Result<Option<Command>, NotStarted> {
    let spec = &order.spec;
    let input = program::input(spec)?;
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    if spec.network != Network::All {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    unshare(flags | CloneFlags::CLONE_NEWCGROUP)
        .map_err(|error| NotStarted::setup("namespaces", &error.into()))?;
    if spec.network != Network::All {
        loopback::up().map_err(|error| NotStarted::setup("loopback", &error))?;
    }
    // It is the one name that every machine resolves without a network.
    sethostname("localhost").map_err(|error| NotStarted::setup("host name", &error.into()))?;
    mounts::build(order)?;
    if spec.confinement.pid_max {
        bound_ids(spec.limits.processes)?;
    }
    mounts::close()?;
    let root = geteuid().is_root();
    let counted = (!root || order.account.is_some()).then_some(spec.limits.processes);
    let memory_of_each = !spec.confinement.cgroups.iter().any(|group| group.memory);
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
    filter::apply(Sockets::Namespaced)?;
    // The command must not read or change this process, which reports its exit.
    prctl::set_dumpable(false).map_err(|error| NotStarted::setup("dumpable", &error.into()))?;
    Ok(command)
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
    own_network: bool,
) -> io::Result<News> {
    loop {
        let any_left = tree.collect()?;
        let grace_left = tree.grace_left();
        if let Some(exit) = &tree.exit
            && (!any_left || grace_left.is_some_and(|grace_left| grace_left.is_zero()))
        {
            let left = if any_left { all_but_init() } else { Vec::new() };
            let network_refused = if own_network { loopback::refused() } else { None };
            return Ok(News::Ended { exit: exit.clone(), left, network_refused });
        }
        let timeout = grace_left.map_or(PollTimeout::NONE, |grace_left| {
            PollTimeout::try_from(grace_left).unwrap_or(PollTimeout::ZERO)
        });
        let mut wanted = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut wanted, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let requested = wanted.get(1).is_some_and(|fd| fd.any().unwrap_or(true));
        drain(signals)?;
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
