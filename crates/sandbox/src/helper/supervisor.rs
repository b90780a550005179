//! The first stage: it stays outside of what confines the command, so that nothing the command does
//! can prevent the end of all processes and the report.

use super::account::{Account, keep_capabilities, user_namespace};
use super::bridge::Bridge;
use super::cgroup::Groups;
use super::passing::send_descriptors;
use super::processes::{ProcessTree, kill_descendants, signal_descendants};
use super::program;
use super::scratch::{HOME, Scratch, TMP};
use super::stage::{CONFINE, GO, INIT, News, Order, control, drain, signals};
use super::watchdog::Watchdog;
use crate::launch::{own_program, stage};
use crate::level::{InForce, Level};
use crate::message::{KILL, TERMINATE, receive, send};
use crate::spec::{Exit, Left, LimitHit, NotStarted, Overlay, Report, Spec};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, geteuid, setsid};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// How a command ended, before it is known what was in force.
#[derive(Debug, Default)]
struct Ended {
    exit: Option<Exit>,
    left: Vec<Left>,
    limit: Option<LimitHit>,
    network_refused: Option<bool>,
    hosts_refused: Vec<String>,
}

/// Everything around one command that goes away with it.
struct Call {
    order: Order,
    scratch: Option<Scratch>,
    groups: Groups,
}

pub(super) fn run() -> io::Result<()> {
    close_inherited()?;
    let mut control = control()?;
    let signals = signals()?;
    let spec: Spec = receive(&mut control)?;
    if !spec.attached {
        // A session of its own has no terminal that the command could type into.
        setsid()?;
    }
    let in_force = spec.confinement.in_force.clone();
    let ended = match Call::set_up(spec) {
        Ok(call) => {
            let ended = call.carry_out(&mut control, &signals);
            call.clean_up();
            ended?
        }
        Err(why) => not_started(why),
    };
    send(&mut control, &report(ended, in_force))
}

fn report(ended: Ended, in_force: InForce) -> Report {
    let Ended { exit, left, limit, network_refused, hosts_refused } = ended;
    // This stage ended it, so no other stage reported an exit.
    let exit = exit.unwrap_or(Exit::Signal(Signal::SIGKILL as i32));
    let limit = limit.or(match &exit {
        Exit::Signal(signal) if *signal == Signal::SIGXCPU as i32 => Some(LimitHit::Cpu),
        Exit::Signal(signal) if *signal == Signal::SIGXFSZ as i32 => Some(LimitHit::FileSize),
        Exit::Signal(_) | Exit::Code(_) | Exit::NotStarted(_) => None,
    });
    Report { in_force, exit, left, limit, network_refused, hosts_refused }
}

fn not_started(why: NotStarted) -> Ended {
    Ended { exit: Some(Exit::NotStarted(why)), ..Ended::default() }
}

/// Closes what a service may have left open for every process that it starts.
fn close_inherited() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        // The one that read the folder is closed already.
        nix::unistd::close(number).ok();
    }
    Ok(())
}

impl Call {
    fn set_up(spec: Spec) -> Result<Self, NotStarted> {
        let namespaces = spec.confinement.level == Level::Namespaces;
        let confines = spec.confinement.level != Level::None;
        let account = Account::to_become(&spec.tree.workspace)
            .map_err(|error| NotStarted::setup(spec.tree.workspace.display(), &error))?
            .filter(|_| confines);
        let scratch = if needs_scratch(&spec) {
            Some(
                make_scratch(&spec, account)
                    .map_err(|error| NotStarted::setup(spec.tree.scratch.display(), &error))?,
            )
        } else {
            None
        };
        let counts_itself = !geteuid().is_root() || account.is_some();
        let count_processes = !(counts_itself || namespaces && spec.confinement.pid_max);
        let groups = Groups::make(&spec.confinement.cgroups, &spec.limits, count_processes);
        let groups = groups.inspect_err(|_| {
            drop(scratch.as_ref().map(Scratch::remove));
        })?;
        let folder = scratch.as_ref().map(|scratch| scratch.path().to_owned());
        Ok(Self { order: Order { spec, account, scratch: folder }, scratch, groups })
    }

    /// Carries the command out, with a bridge to the host's network where its policy opens a part of that.
    fn carry_out(&self, control: &mut UnixStream, signals: &SignalFd) -> io::Result<Ended> {
        let network = &self.order.spec.network;
        let namespaces = self.order.spec.confinement.level == Level::Namespaces;
        // It begins before this process leaves the host's namespaces.
        let bridge = match network.is_bridged() && namespaces {
            true => match Bridge::start(network) {
                Ok(bridge) => Some(bridge),
                Err(why) => return Ok(not_started(why)),
            },
            false => None,
        };
        let ended = self.carry_out_with(control, signals, bridge.as_ref());
        let refused = bridge.map(Bridge::end).unwrap_or_default();
        ended.map(|mut ended| {
            ended.hosts_refused.extend(refused);
            ended
        })
    }

    fn carry_out_with(
        &self,
        control: &mut UnixStream,
        signals: &SignalFd,
        bridge: Option<&Bridge>,
    ) -> io::Result<Ended> {
        let namespaces = self.order.spec.confinement.level == Level::Namespaces;
        let input = match program::open_input(&self.order.spec) {
            Ok(input) => input,
            Err(why) => return Ok(not_started(why)),
        };
        let made = if namespaces { make_namespaces() } else { become_subreaper() };
        if let Err(why) = made {
            return Ok(not_started(why));
        }
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut command = stage(&own_program()?, if namespaces { INIT } else { CONFINE });
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        // Its end of the socket must not stay open here.
        drop(command);
        let pid = Pid::from_raw(child.id().cast_signed());
        send(&mut ours, &self.order)?;
        if let Some(input) = &input {
            send_descriptors(&ours, std::slice::from_ref(input))?;
        }
        // The kernel takes its time, in which the next stage sets everything up.
        let taken = self.groups.take(child.id());
        let news = receive(&mut ours).unwrap_or_else(|error| {
            News::NotStarted(NotStarted::setup("the next stage ended early", &error))
        });
        let why = match (taken, news) {
            (Err(why), _) | (Ok(()), News::NotStarted(why)) => Some(why),
            (Ok(()), News::Ready) => bridge.and_then(|bridge| bridge.pass(&ours).err()),
            (Ok(()), News::Ended { .. }) => None,
        };
        if let Some(why) = why {
            kill(pid, Signal::SIGKILL).ok();
            drop(ours);
            waitpid(pid, None)?;
            return Ok(not_started(why));
        }
        ours.write_all(&[GO])?;
        let following = Following {
            control,
            stage: &mut ours,
            signals,
            watchdog: self.watchdog(),
            ended: Ended::default(),
        };
        let ended = if namespaces { following.init(pid) } else { following.descendants(pid) }?;
        if self.groups.ran_out_of_memory() {
            return Ok(Ended { limit: Some(LimitHit::Memory), ..ended });
        }
        Ok(ended)
    }

    fn watchdog(&self) -> Watchdog {
        let spec = &self.order.spec;
        let mut folders = spec.tree.writable.clone();
        folders.extend(self.order.scratch.clone());
        let view = spec.view.iter().flat_map(|view| [view.copy.clone(), view.upper.clone()]);
        folders.extend(view.flatten());
        Watchdog::new(folders, spec.limits)
    }

    fn clean_up(&self) {
        self.groups.remove();
        if let Some(scratch) = &self.scratch {
            // The next start of the service removes what could not be removed now.
            drop(scratch.remove());
        }
    }
}

fn needs_scratch(spec: &Spec) -> bool {
    let on_disk = spec.confinement.overlay == Overlay::Disk;
    let view = spec.view.as_ref().is_some_and(|view| view.upper.is_none() && view.copy.is_none());
    match spec.confinement.level {
        Level::Namespaces => on_disk && (view || !spec.tree.caches.is_empty()),
        Level::Landlock | Level::SandboxExec => true,
        Level::None => false,
    }
}

fn make_scratch(spec: &Spec, account: Option<Account>) -> io::Result<Scratch> {
    let scratch = Scratch::make(&spec.tree.scratch, account)?;
    if spec.confinement.level != Level::Namespaces {
        scratch.folder(TMP, account)?;
        scratch.folder(HOME, account)?;
    }
    Ok(scratch)
}

/// Puts the next stage into a new PID namespace; an account other than root needs a user namespace first.
fn make_namespaces() -> Result<(), NotStarted> {
    let flags = CloneFlags::CLONE_NEWPID;
    if !geteuid().is_root() {
        user_namespace(flags)?;
        return keep_capabilities();
    }
    unshare(flags).map_err(|error| NotStarted::setup("PID namespace", &error.into()))
}

/// Makes this process the parent of every process of the command that loses its own.
fn become_subreaper() -> Result<(), NotStarted> {
    prctl::set_child_subreaper(true).map_err(|error| NotStarted::setup("subreaper", &error.into()))
}

/// Waits for the end of the command, a request of the service, or a limit.
struct Following<'c> {
    control: &'c mut UnixStream,
    stage: &'c mut UnixStream,
    signals: &'c SignalFd,
    watchdog: Watchdog,
    ended: Ended,
}

/// A request of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Nothing,
    Terminate,
    Kill,
}

impl Following<'_> {
    /// Follows the stage that follows the command.
    fn init(mut self, pid: Pid) -> io::Result<Ended> {
        loop {
            let (request, readable) = self.wait(self.watchdog.due_in())?;
            if readable {
                if let Ok(news) = receive(self.stage) {
                    self.note(news);
                }
                break;
            }
            match request {
                Request::Nothing => {}
                // It fails when the stage has ended meanwhile; its report follows.
                Request::Terminate => drop(self.stage.write_all(&[TERMINATE])),
                Request::Kill => break,
            }
        }
        kill(pid, Signal::SIGKILL).ok();
        // The kernel answers only when every process of the namespace is gone.
        waitpid(pid, None)?;
        Ok(self.ended)
    }

    fn note(&mut self, news: News) {
        match news {
            News::Ready => {}
            News::NotStarted(why) => self.ended.exit = Some(Exit::NotStarted(why)),
            News::Ended { exit, left, limit, network_refused, hosts_refused } => {
                self.ended.hosts_refused = hosts_refused;
                self.ended.exit = Some(exit);
                self.ended.left = left;
                self.ended.limit = limit;
                self.ended.network_refused = network_refused;
            }
        }
    }

    /// Follows the command itself, and all that descends from it.
    fn descendants(mut self, main: Pid) -> io::Result<Ended> {
        let mut tree = ProcessTree::of(main);
        let mut open = true;
        loop {
            let any_left = tree.collect()?;
            let grace_left = tree.grace_left();
            if !any_left || grace_left.is_some_and(|grace_left| grace_left.is_zero()) {
                break;
            }
            let due = grace_left.map_or(self.watchdog.due_in(), |grace_left| {
                grace_left.min(self.watchdog.due_in())
            });
            let (request, readable) = self.wait_unless(due, open)?;
            if readable {
                // The start of the command closes it.
                open = false;
                if let Ok(news) = receive(self.stage) {
                    self.note(news);
                }
            }
            match request {
                Request::Nothing => {}
                Request::Terminate => signal_descendants(Signal::SIGTERM),
                Request::Kill => break,
            }
        }
        if open && tree.exit.is_some() {
            // It may have reported why it did not become the command, just before it ended.
            if let Ok(news) = receive(self.stage) {
                self.note(news);
            }
        }
        self.ended.left = kill_descendants(&mut tree)?;
        self.ended.exit = self.ended.exit.or(tree.exit);
        Ok(self.ended)
    }

    fn wait(&mut self, at_most: std::time::Duration) -> io::Result<(Request, bool)> {
        self.wait_unless(at_most, true)
    }

    /// Waits for an event; returns the request, and whether the stage sent something.
    fn wait_unless(
        &mut self,
        at_most: std::time::Duration,
        stage_open: bool,
    ) -> io::Result<(Request, bool)> {
        // One millisecond longer, so that the timer has expired.
        let at_most = at_most + std::time::Duration::from_millis(1);
        let timeout = PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX);
        let (request, readable) = {
            let mut wanted = vec![
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
            ];
            if stage_open {
                wanted.push(PollFd::new(self.stage.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut wanted, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let any = |index: usize| wanted.get(index).is_some_and(|fd| fd.any().unwrap_or(true));
            (any(1), any(2))
        };
        drain(self.signals)?;
        if let Some(limit) = self.watchdog.check() {
            self.ended.limit = Some(limit);
            return Ok((Request::Kill, readable));
        }
        Ok((if request { self.read_request()? } else { Request::Nothing }, readable))
    }

    fn read_request(&mut self) -> io::Result<Request> {
        let mut byte = [0];
        let length = self.control.read(&mut byte).unwrap_or(0);
        Ok(match (length, byte) {
            (1, [TERMINATE]) => Request::Terminate,
            (1, [KILL]) => Request::Kill,
            (1, _) => Request::Nothing,
            // The service is gone.
            _ => Request::Kill,
        })
    }
}
