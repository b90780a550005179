//! The helper where there are no namespaces: sandbox-exec of macOS, else no confinement. It ends the
//! command's process group with the service's socket; what left the group is not found.

use crate::launch::{HELPER_NAME, PARSE, own_program};
use crate::level::Level;
use crate::message::{KILL, TERMINATE, receive, send};
use crate::spec::{Exit, Network, NotStarted, Refusal, Report, Spec};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, setsid};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Runs the one stage that there is here; answers the process's exit code.
pub(crate) fn run(stage: &OsStr) -> i32 {
    let ended = if stage == crate::launch::SUPERVISE {
        supervise()
    } else {
        Err(io::Error::other("no such stage"))
    };
    if ended.is_ok() { 0 } else { 70 }
}

fn supervise() -> io::Result<()> {
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let spec: Spec = receive(&mut control)?;
    if !spec.attached {
        setsid()?;
    }
    let exit = match start(&spec) {
        Ok(None) => Exit::Code(0),
        Ok(Some(child)) => follow(child, &control, !spec.attached)?,
        Err(why) => Exit::NotStarted(why),
    };
    let in_force = spec.confinement.in_force;
    let (left, hosts_refused) = (Vec::new(), Vec::new());
    let report = Report { in_force, exit, left, limit: None, network_refused: None, hosts_refused };
    send(&mut control, &report)
}

/// Starts the command in a group of its own; a trial without a command runs `true`.
fn start(spec: &Spec) -> Result<Option<Child>, NotStarted> {
    if spec.view.is_some() {
        let message = "a view needs a mount namespace, which this system lacks; make a copy";
        return Err(NotStarted::new(Refusal::ViewUnsupported, message));
    }
    let confines = spec.confinement.level == Level::SandboxExec;
    if spec.network.is_bridged() {
        let message = "policy.network host_loopback and hosts are not supported on this system; use none or all";
        return Err(NotStarted::new(Refusal::NetworkUnsupported, message));
    }
    let parser = parser(spec)?;
    let line: Vec<&str> = match &parser {
        Some(parser) => parser.iter().map(String::as_str).collect(),
        None => spec.argv.iter().map(String::as_str).collect(),
    };
    let line = match (line.as_slice(), confines) {
        ([], true) => &["/usr/bin/true"],
        ([], false) => return Ok(None),
        (line, _) => line,
    };
    let mut command = if confines {
        let mut command = Command::new("/usr/bin/sandbox-exec");
        command.args(["-p", &profile(spec)]).args(line);
        command
    } else {
        let Some((program, arguments)) = line.split_first() else { return Ok(None) };
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    command
        .current_dir(&spec.cwd)
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)));
    if let Some(text) = &spec.parser_input {
        let input = unnamed(text, &spec.tree.scratch);
        command.stdin(input.map_err(|error| NotStarted {
            refusal: Refusal::Setup,
            message: format!("sandbox: the parser's input: {error}"),
            errno: error.raw_os_error().unwrap_or(0),
        })?);
        command.process_group(0);
        return spawned(command, &line.join(" "));
    }
    let input = spec.input.as_deref().and_then(|path| File::open(path).ok());
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    if !spec.attached {
        // One that is attached stays in the process group that the terminal's signals reach.
        command.process_group(0);
    }
    spawned(command, &line.join(" "))
}

/// This program once more, as the parser: its path and its arguments.
fn parser(spec: &Spec) -> Result<Option<[String; 3]>, NotStarted> {
    if spec.parser_input.is_none() {
        return Ok(None);
    }
    let unusable =
        |why: String| NotStarted::new(Refusal::Setup, format!("sandbox: the parser: {why}"));
    let program = own_program().map_err(|error| unusable(error.to_string()))?;
    let program = program.into_os_string().into_string();
    let program = program.map_err(|_| unusable("its path is not UTF-8".to_owned()))?;
    Ok(Some([program, HELPER_NAME.to_owned(), PARSE.to_owned()]))
}

/// A text to be read, in a file that has no name any more.
fn unnamed(text: &str, folder: &Path) -> io::Result<File> {
    let path = folder.join(format!("parser-{}", std::process::id()));
    std::fs::write(&path, text)?;
    let file = File::open(&path);
    std::fs::remove_file(&path)?;
    file
}

fn spawned(mut command: Command, line: &str) -> Result<Option<Child>, NotStarted> {
    command.spawn().map(Some).map_err(|error| {
        let refusal = if error.kind() == io::ErrorKind::NotFound {
            Refusal::ProgramNotFound
        } else {
            Refusal::ProgramUnusable
        };
        let errno = error.raw_os_error().unwrap_or(0);
        NotStarted { refusal, message: format!("{line}: {error}"), errno }
    })
}

/// What sandbox-exec lets the command do.
fn profile(spec: &Spec) -> String {
    let tree = &spec.tree;
    let mut rules = vec![
        "(version 1)".to_owned(),
        "(deny default)".to_owned(),
        "(import \"bsd.sb\")".to_owned(),
        "(allow process*) (allow sysctl-read) (allow mach-lookup) (allow ipc-posix*)".to_owned(),
        "(allow file-read-metadata)".to_owned(),
        "(allow file* (subpath \"/private/tmp\") (subpath \"/private/var/folders\"))".to_owned(),
        "(allow file-read* (subpath \"/System\") (subpath \"/Library\") (subpath \"/usr\") (subpath \
         \"/bin\") (subpath \"/sbin\") (subpath \"/private/etc\") (subpath \"/dev\"))"
            .to_owned(),
    ];
    let parser = own_program().ok().filter(|_| spec.parser_input.is_some());
    let read = tree.read_only.iter().chain(&tree.caches).chain([&tree.workspace]);
    for path in read.chain(&parser) {
        rules.push(format!("(allow file-read* {})", below(path)));
    }
    for path in &tree.writable {
        rules.push(format!("(allow file* {})", below(path)));
    }
    for path in &tree.hidden {
        if !tree.workspace.starts_with(path) {
            rules.push(format!("(deny file* {})", below(path)));
        }
    }
    let network = match spec.network {
        Network::All => "(allow network*)",
        Network::None | Network::HostLoopback(_) | Network::Hosts(_) => "(deny network*)",
    };
    rules.push(network.to_owned());
    rules.join("\n")
}

fn below(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("(subpath \"{text}\")")
}

fn follow(mut child: Child, control: &UnixStream, has_group: bool) -> io::Result<Exit> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let signal_all = move |signal| if has_group { killpg(pid, signal) } else { kill(pid, signal) };
    let mut asked = control.try_clone()?;
    // It ends with this process, which follows the command's end.
    std::thread::spawn(move || {
        let mut byte = [0];
        loop {
            let signal = match asked.read(&mut byte) {
                Ok(1) if byte == [TERMINATE] => Signal::SIGTERM,
                Ok(1) if byte != [KILL] => continue,
                Ok(_) | Err(_) => Signal::SIGKILL,
            };
            // The group may be gone.
            signal_all(signal).ok();
            if signal == Signal::SIGKILL {
                return;
            }
        }
    });
    let status = child.wait()?;
    if has_group {
        killpg(pid, Signal::SIGKILL).ok();
    }
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(Signal::SIGKILL as i32)),
    })
}
