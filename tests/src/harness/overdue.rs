//! Ends a test process in which a test hangs, and says which one and what it waits for. Without it, the whole run of the
//! checks would wait until it is killed from outside, and say nothing.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection, PgConnection, Row};
use std::collections::HashMap;
use std::io::Write;
use std::process::Command;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The longest that a test may take: several times what the longest takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(600);
const LOOKING_EVERY: Duration = Duration::from_secs(5);
/// How long the database has to say what its connections wait for.
const SAYING: Duration = Duration::from_secs(10);
/// The exit code of what was ended because of its time, as `timeout` has it.
const TIMED_OUT: i32 = 124;
/// What each line begins with. scripts/test.sh shows these lines again at the end.
const MARK: &str = "HANGS:";

static RUNNING: Mutex<Option<HashMap<Uuid, (String, Instant)>>> = Mutex::new(None);
static WATCHING: Once = Once::new();

fn running<T>(change: impl FnOnce(&mut HashMap<Uuid, (String, Instant)>) -> T) -> T {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    change(running.get_or_insert_default())
}

/// The time of the test that holds this value.
pub(super) struct Watched {
    id: Option<Uuid>,
}

impl Watched {
    /// Begins the time of the test on this thread. A benchmark, which may take long, is on the main thread.
    pub(super) fn begin(database: &str) -> Self {
        let thread = thread::current();
        let Some(test) = thread.name().filter(|name| *name != "main") else {
            return Self { id: None };
        };
        WATCHING.call_once(|| drop(thread::spawn(watch)));
        let id = Uuid::now_v7();
        let name = format!("{test} ({database})");
        running(|all| all.insert(id, (name, Instant::now())));
        Self { id: Some(id) }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            running(|all| all.remove(&id));
        }
    }
}

fn watch() {
    loop {
        thread::sleep(LOOKING_EVERY);
        let late = |(name, since): &(String, Instant)| {
            let took = since.elapsed();
            (took > LIMIT).then(|| format!("{name} has not ended in {} s", took.as_secs()))
        };
        let overdue: Vec<String> = running(|all| all.values().filter_map(late).collect());
        if !overdue.is_empty() {
            let (children, processes) = processes();
            let found = [overdue, processes, connections()].concat();
            // Past the capture of the tests. If it cannot be written, the exit code has to do.
            let mut errors = std::io::stderr().lock();
            let written = found.iter().try_for_each(|line| writeln!(errors, "{MARK} {line}"));
            drop((written, errors));
            // The values that end them are not dropped by an exit. One that is gone needs no end.
            children.into_iter().for_each(|pid| kill(pid, Signal::SIGKILL).unwrap_or_default());
            std::process::exit(TIMED_OUT);
        }
    }
}

/// The processes below this one, each shown with the kernel's function that it waits in.
fn processes() -> (Vec<Pid>, Vec<String>) {
    let listed = Command::new("ps").args(["-eo", "pid,ppid,etime,stat,wchan:20,args"]).output();
    let listed = match listed {
        Ok(listed) => String::from_utf8_lossy(&listed.stdout).into_owned(),
        Err(error) => return (Vec::new(), vec![format!("ps: {error}")]),
    };
    let this = Pid::this();
    let (mut children, mut shown) = (Vec::new(), Vec::new());
    // A child may be listed before its parent, once process ids began again; it is left out then.
    for line in listed.lines() {
        let mut words = line.split_whitespace().map(|word| word.parse().map(Pid::from_raw));
        let (Some(Ok(pid)), Some(Ok(parent))) = (words.next(), words.next()) else { continue };
        if parent == this || children.contains(&parent) {
            children.push(pid);
            shown.push(line.chars().take(200).collect());
        }
    }
    (children, shown)
}

/// What the connections to the server of the tests wait for.
fn connections() -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = runtime
        .map(|runtime| runtime.block_on(async { tokio::time::timeout(SAYING, waiting()).await }));
    match asked {
        Ok(Ok(Ok(lines))) => lines,
        other => vec![format!("the database did not say what its connections wait for: {other:?}")],
    }
}

async fn waiting() -> anyhow::Result<Vec<String>> {
    let mut connection = PgConnection::connect(&super::database::cluster()?).await?;
    let rows = sqlx::query(
        "select format('%s %s %s %s/%s blocked by %s: %s', pid, datname, state, wait_event_type, wait_event,
                       pg_blocking_pids(pid), left(regexp_replace(query, '\\s+', ' ', 'g'), 120))
         from pg_stat_activity
         where pid <> pg_backend_pid() and backend_type = 'client backend'
           and (state <> 'idle' or cardinality(pg_blocking_pids(pid)) > 0)",
    )
    .fetch_all(&mut connection)
    .await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}
