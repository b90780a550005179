//! The process in the sandbox: it reads a request from its standard input and prints one JSON object a line.

use crate::language::Language;
use crate::message::{Line, Reason, Request, Role};
use crate::names::Name;
use crate::parse::{Found, Parser, Room, Stopped};
use crate::source;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The exit code of a process that a file kept busy for too long, beyond the control of the parser library.
pub const STUCK: i32 = 75;

/// How long one file may take.
const FILE_TIME: Duration = Duration::from_secs(3);

/// How long it may take where the library does not come back to look at the clock.
const STUCK_AFTER: Duration = Duration::from_secs(6);

/// Carries out one request; answers the process's exit code. The working directory is the workspace.
pub fn serve() -> i32 {
    let done = read(io::stdin()).and_then(|request| answer(&request, io::stdout().lock()));
    match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("symbols: {error}");
            1
        }
    }
}

fn read(mut input: impl Read) -> io::Result<Request> {
    let mut text = String::new();
    input.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

fn answer(request: &Request, output: impl Write) -> io::Result<()> {
    let began = Instant::now();
    let deadline = began + Duration::from_millis(request.time_ms);
    let name = Name { last: request.name.clone(), container: request.container.clone() };
    let mut parser = Parser::new(name);
    let mut output = BufWriter::new(output);
    let room =
        |role| if request.role.is_none_or(|wanted| wanted == role) { request.limit } else { 0 };
    let mut room = Room { definitions: room(Role::Definition), uses: room(Role::Use) };
    let watch = Watch::start(began);
    for path in &request.files {
        if Instant::now() >= deadline {
            let path = path.clone();
            print(&mut output, &Line::NotParsed { path, reason: Reason::NotReached })?;
            continue;
        }
        print(&mut output, &Line::Began { path: path.clone() })?;
        output.flush()?;
        watch.file_begins(began);
        let found = parse(&mut parser, path, room);
        watch.file_ends();
        match found {
            Err(reason) => {
                print(&mut output, &Line::NotParsed { path: path.clone(), reason })?;
            }
            Ok(Found { symbols, definitions, uses }) => {
                for symbol in symbols {
                    match symbol.role {
                        Role::Definition => room.definitions -= 1,
                        Role::Use => room.uses -= 1,
                    }
                    print(&mut output, &Line::Symbol(symbol))?;
                }
                print(&mut output, &Line::Parsed { path: path.clone(), definitions, uses })?;
            }
        }
    }
    output.flush()
}

fn parse(parser: &mut Parser, path: &str, room: Room) -> Result<Found, Reason> {
    let language = Language::of(Path::new(path)).ok_or(Reason::NotAFile)?;
    let source = source::read(path)?;
    let deadline = Instant::now() + FILE_TIME;
    parser.parse((path, language), &source, room, deadline).map_err(|stopped| match stopped {
        Stopped::TooSlow => Reason::TooSlow,
        Stopped::Grammar => Reason::Crashed,
    })
}

fn print(output: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *output, line)?;
    output.write_all(b"\n")
}

/// Ends the process where a file keeps it busy: the library looks at the clock between its steps, and a defect
/// may keep it in one.
struct Watch(Arc<AtomicU64>);

impl Watch {
    /// No file is being parsed.
    const IDLE: u64 = u64::MAX;

    fn start(began: Instant) -> Self {
        let at = Arc::new(AtomicU64::new(Self::IDLE));
        let watched = Arc::clone(&at);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(STUCK_AFTER / 10);
                let (file, now) = (watched.load(Ordering::Relaxed), millis(began));
                if file != Self::IDLE && now.saturating_sub(file) > as_millis(STUCK_AFTER) {
                    std::process::exit(STUCK);
                }
            }
        });
        Self(at)
    }

    fn file_begins(&self, began: Instant) {
        self.0.store(millis(began), Ordering::Relaxed);
    }

    fn file_ends(&self) {
        self.0.store(Self::IDLE, Ordering::Relaxed);
    }
}

fn millis(since: Instant) -> u64 {
    as_millis(since.elapsed())
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX - 1)
}
