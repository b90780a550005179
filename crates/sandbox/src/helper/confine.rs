//! The stage that confines itself without namespaces, and then becomes the command.

use super::account::{Account, bound_capabilities, drop_capabilities};
use super::filter::{self, Sockets};
use super::scratch::{HOME, TMP};
use super::stage::{News, Order, control, unblock_signals};
use super::{files, limits, program};
use crate::launch::own_program;
use crate::level::Level;
use crate::message::{receive, send};
use crate::spec::{Exit, NotStarted, Refusal, Spec};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

pub(super) fn run() -> io::Result<()> {
    let mut control = control()?;
    let mut order: Order = receive(&mut control)?;
    let command = match prepare(&mut order, &control) {
        Ok(command) => command,
        Err(why) => return send(&mut control, &News::NotStarted(why)),
    };
    send(&mut control, &News::Ready)?;
    let mut go = [0];
    io::Read::read_exact(&mut control, &mut go)?;
    let Some(mut command) = command else {
        let exit = Exit::Code(0);
        let (left, hosts_refused) = (Vec::new(), Vec::new());
        return send(
            &mut control,
            &News::Ended { exit, left, limit: None, network_refused: None, hosts_refused },
        );
    };
    unblock_signals()?;
    let program = order.spec.argv.first().map_or("", String::as_str);
    // It comes back only when it failed.
    let why = program::not_started(program, &command.exec());
    send(&mut control, &News::NotStarted(why))
}

fn prepare(order: &mut Order, control: &UnixStream) -> Result<Option<Command>, NotStarted> {
    let account = order.account;
    let spec = &mut order.spec;
    let input = program::input(spec, control)?;
    let processes = account
        .map(|account| account.uid)
        .or_else(|| Some(geteuid().as_raw()).filter(|uid| *uid != 0))
        .map(|uid| limits::processes_of(uid).saturating_add(spec.limits.processes));
    let memory_of_each = !spec.confinement.cgroups.iter().any(|group| group.memory);
    limits::apply(&spec.limits, processes, memory_of_each)?;
    refuse_what_needs_namespaces(spec)?;
    if let Some(scratch) = &order.scratch {
        folders_of_its_own(spec, scratch, account)?;
    }
    let confines = spec.confinement.level == Level::Landlock;
    if let Some(account) = account.filter(|_| confines) {
        // The other account may not.
        bound_capabilities()?;
        account.become_it()?;
    }
    // A change of the account takes it back.
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| NotStarted::setup("parent's death signal", &error.into()))?;
    if spec.parser_input.is_some() {
        let program = own_program().map_err(|error| NotStarted::setup("the parser", &error))?;
        spec.tree.read_only.push(program);
    }
    if confines {
        drop_capabilities()?;
        files::restrict(&spec.tree, order.scratch.as_deref())?;
    }
    let command = program::command(spec)?.map(|mut command| {
        command.stdin(input);
        command
    });
    if confines {
        filter::apply(Sockets::without_namespaces(&spec.network), spec.parser_input.is_some())?;
    }
    Ok(command)
}

/// A home and a temporary folder that go away with the command, in place of those that a private mount
/// tree would have at their own paths. What the tree shows below a home is linked.
fn folders_of_its_own(
    spec: &mut Spec,
    scratch: &Path,
    account: Option<Account>,
) -> Result<(), NotStarted> {
    let mut set = |name: &str, folder: &Path| {
        spec.environment.retain(|(key, _)| key != name);
        spec.environment.push((name.into(), folder.as_os_str().to_owned()));
    };
    set("TMPDIR", &scratch.join(TMP));
    let Some(home) = spec.tree.private.first() else { return Ok(()) };
    let own = scratch.join(HOME);
    set("HOME", &own);
    let made = |error: io::Error| NotStarted::setup(own.display(), &error);
    let place = |path: &Path| path.strip_prefix(home).ok().map(|inside| own.join(inside));
    for path in spec.tree.read_only.iter().chain(&spec.tree.caches) {
        if let Some(place) = place(path) {
            link(path, &place, &own, account).map_err(made)?;
        }
    }
    for (path, text) in &spec.tree.files {
        if let Some(place) = place(path) {
            fs::write(&place, text)
                .and_then(|()| account.map_or(Ok(()), |account| account.own(&place)))
                .map_err(made)?;
        }
    }
    Ok(())
}

/// Links a path, and gives the folders on the way to the account.
fn link(path: &Path, place: &Path, home: &Path, account: Option<Account>) -> io::Result<()> {
    let above = place.ancestors().skip(1).take_while(|folder| *folder != home);
    let missing: Vec<_> = above.filter(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        fs::create_dir(folder)?;
        account.map_or(Ok(()), |account| account.own(folder))?;
    }
    match symlink(path, place) {
        // A part of a folder that is linked already.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

fn refuse_what_needs_namespaces(spec: &Spec) -> Result<(), NotStarted> {
    if spec.view.is_some() {
        let message = "a view needs a mount namespace, which this level lacks; make a copy";
        return Err(NotStarted::new(Refusal::ViewUnsupported, message));
    }
    if spec.network.is_bridged() {
        let message = "policy.network host_loopback and hosts need a network namespace, which this level \
                       lacks; use none or all";
        return Err(NotStarted::new(Refusal::NetworkUnsupported, message));
    }
    Ok(())
}
