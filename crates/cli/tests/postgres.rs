//! The private Postgres, with real servers.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection, PgConnection};
use surety_cli::postgres::{Durability, EmbeddedPostgres, PostgresError};

const DEADLINE: Duration = Duration::from_secs(60);

/// A folder that Postgres can enter even when this test runs as root.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    folder
}

async fn start(data_dir: &Path) -> EmbeddedPostgres {
    EmbeddedPostgres::start(data_dir).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn temporary() -> EmbeddedPostgres {
    let started = EmbeddedPostgres::start_temporary(Durability::Fast, &[]).await;
    started.unwrap_or_else(|error| panic!("{error}"))
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("a connection")
}

async fn write_a_row(url: &str) {
    let sql = "create table kept (n int); insert into kept values (42)";
    sqlx::raw_sql(sql).execute(&mut connect(url).await).await.expect("a row");
}

async fn read_the_row(url: &str) -> i32 {
    let query = sqlx::query_scalar("select n from kept");
    query.fetch_one(&mut connect(url).await).await.expect("the row")
}

async fn setting(url: &str, name: &str) -> String {
    let query = sqlx::query_scalar("select current_setting($1)").bind(name.to_owned());
    query.fetch_one(&mut connect(url).await).await.expect("a setting")
}

/// Whether a process runs; one that ended and waits for its parent does not.
fn runs(pid: u32) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output();
    let state = output.expect("ps").stdout;
    !state.is_empty() && !state.starts_with(b"Z")
}

fn wait_until_gone(pid: u32) {
    let begun = Instant::now();
    while runs(pid) {
        assert!(begun.elapsed() < DEADLINE, "process {pid} stays");
        std::thread::yield_now();
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[tokio::test]
async fn commits_survive_a_stop_and_a_start() {
    let folder = folder();
    let first = start(folder.path()).await;
    write_a_row(&first.url()).await;
    let pid = process_of(&first).await;
    first.stop().await.expect("a stop");
    assert!(!runs(pid), "stop returns when the server has ended");

    let second = start(folder.path()).await;
    assert_eq!(read_the_row(&second.url()).await, 42);
    second.stop().await.expect("a stop");
}

#[tokio::test]
async fn a_server_keeps_every_commit_and_listens_on_no_network() {
    let folder = folder();
    let postgres = start(folder.path()).await;
    let expected = [
        ("listen_addresses", ""),
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("shared_buffers", "128MB"),
        ("max_connections", "200"),
        ("server_encoding", "UTF8"),
        ("lc_collate", "C"),
    ];
    for (name, value) in expected {
        if name == "lc_collate" {
            let sql = "select datcollate from pg_database where datname = current_database()";
            let mut connection = connect(&postgres.url()).await;
            let found: String =
                sqlx::query_scalar(sql).fetch_one(&mut connection).await.expect("a collation");
            assert_eq!(found, value);
        } else {
            assert_eq!(setting(&postgres.url(), name).await, value, "{name}");
        }
    }
    for private in ["cluster", "socket"] {
        let mode = fs::metadata(folder.path().join(private)).expect("a folder").mode();
        assert_eq!(mode & 0o777, 0o700, "{private}");
    }
    postgres.stop().await.expect("a stop");
}

#[tokio::test]
async fn two_servers_run_beside_each_other_and_share_nothing() {
    let (one, other) = (temporary().await, temporary().await);
    write_a_row(&one.url()).await;
    let query = "select to_regclass('kept')::text";
    let found: Option<String> = sqlx::query_scalar(query)
        .fetch_one(&mut connect(&other.url()).await)
        .await
        .expect("an answer");
    assert_eq!(found, None);
}

#[tokio::test]
async fn a_data_folder_in_use_is_refused_and_its_server_is_left_alone() {
    let folder = folder();
    let first = start(folder.path()).await;
    let second = EmbeddedPostgres::start(folder.path()).await.expect_err("a refusal");
    assert!(matches!(second, PostgresError::InUse { .. }), "{second}");
    assert!(second.to_string().contains(&std::process::id().to_string()), "{second}");
    write_a_row(&first.url()).await;
}

#[tokio::test]
async fn no_process_and_no_file_is_left_after_a_drop() {
    let postgres = temporary().await;
    let folder = setting(&postgres.url(), "data_directory").await;
    let pid = process_of(&postgres).await;
    drop(postgres);
    assert!(!runs(pid));
    assert!(!Path::new(&folder).exists());
}

#[tokio::test]
async fn a_data_folder_with_blanks_and_a_long_path_works() {
    let folder = folder();
    let data_dir = folder.path().join("Application Support").join("x".repeat(100));
    let postgres = start(&data_dir).await;
    write_a_row(&postgres.url()).await;
    let socket = PathBuf::from(setting(&postgres.url(), "unix_socket_directories").await);
    postgres.stop().await.expect("a stop");
    fs::remove_dir_all(socket).expect("the socket's folder");
}

#[tokio::test]
async fn a_process_file_with_the_id_of_another_process_does_not_prevent_a_start() {
    let folder = folder();
    let first = start(folder.path()).await;
    write_a_row(&first.url()).await;
    first.stop().await.expect("a stop");
    let text = format!("{}\n{}/cluster\n", std::process::id(), folder.path().display());
    fs::write(folder.path().join("cluster/postmaster.pid"), text).expect("a process file");
    let second = start(folder.path()).await;
    assert_eq!(read_the_row(&second.url()).await, 42);
}

#[tokio::test]
async fn a_server_that_outlived_its_owner_is_stopped_before_the_next_start() {
    let folder = folder();
    let first = start(folder.path()).await;
    write_a_row(&first.url()).await;
    let program = program_of(process_of(&first).await);
    first.stop().await.expect("a stop");

    let mut orphan = start_an_orphan(&program, folder.path());
    let second = start(folder.path()).await;
    assert_eq!(read_the_row(&second.url()).await, 42);
    orphan.wait().expect("the orphan's end");
}

/// A server on the data folder without an owner, once it has its process file.
fn start_an_orphan(program: &Path, data_dir: &Path) -> Child {
    let cluster = data_dir.join("cluster");
    let mut command = Command::new(program);
    command.arg("-D").arg(&cluster).args(["-c", "listen_addresses=", "-c"]);
    command.arg(format!("unix_socket_directories={}", data_dir.join("socket").display()));
    command.current_dir("/").stderr(Stdio::piped());
    if is_root() {
        let owner = fs::metadata(&cluster).expect("a cluster");
        command.uid(owner.uid()).gid(owner.gid());
    }
    let mut orphan = command.spawn().expect("an orphan");
    let log = BufReader::new(orphan.stderr.take().expect("its log"));
    let ready = log.lines().map_while(Result::ok).any(|line| line.contains("ready to accept"));
    assert!(ready, "the orphan ended");
    orphan
}

async fn process_of(postgres: &EmbeddedPostgres) -> u32 {
    let folder = setting(&postgres.url(), "data_directory").await;
    let text = fs::read_to_string(Path::new(&folder).join("postmaster.pid")).expect("its file");
    text.lines().next().and_then(|line| line.parse().ok()).expect("the server's process")
}

#[tokio::test]
async fn a_server_that_is_killed_is_noticed_by_its_owner() {
    let postgres =
        EmbeddedPostgres::start_temporary(Durability::Fast, &[]).await.expect("a server");
    let pid = process_of(&postgres).await.try_into().expect("a process");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the server is killed");
    let ended = tokio::time::timeout(Duration::from_secs(30), postgres.ended()).await;
    let said = ended.expect("its end").to_string();
    assert!(said.contains("ended by itself (signal: 9"), "{said}");
}

fn program_of(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).expect("the server's program")
}

#[tokio::test]
async fn a_server_ends_with_an_owner_that_is_killed_and_the_next_start_has_the_data() {
    let folder = folder();
    let mut owner = this_test("an_owner_that_waits_to_be_killed");
    let mut owner = owner
        .env("SURETY_TEST_DATA_DIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("an owner");
    let lines = BufReader::new(owner.stdout.take().expect("its output")).lines();
    let mut said = lines.map_while(Result::ok);
    let pid = said.find_map(|line| line.strip_prefix("server ")?.parse().ok()).expect("a server");
    owner.kill().expect("a kill");
    owner.wait().expect("its end");
    if Command::new("setpriv").arg("--version").output().is_ok() {
        wait_until_gone(pid);
    }
    let next = start(folder.path()).await;
    assert_eq!(read_the_row(&next.url()).await, 42);
    wait_until_gone(pid);
}

#[tokio::test]
async fn an_owner_that_waits_to_be_killed() {
    let Some(data_dir) = std::env::var_os("SURETY_TEST_DATA_DIR") else {
        return;
    };
    let postgres = start(Path::new(&data_dir)).await;
    write_a_row(&postgres.url()).await;
    // After the line that the test harness begins.
    println!("\nserver {}", process_of(&postgres).await);
    std::future::pending::<()>().await;
}

fn this_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", name, "--nocapture"]);
    command
}

#[test]
fn an_ordinary_user_needs_no_other_user() {
    if !is_root() {
        return; // Every other test has covered it.
    }
    let other = nix::unistd::User::from_name("nobody").ok().flatten().expect("nobody");
    let folder = folder();
    let binary = folder.path().join("test");
    // In another process: one that a concurrent test starts would inherit the file that is written
    // here. A program that is open for writing cannot be started.
    let this = std::env::current_exe().expect("this binary");
    let copied = Command::new("cp").arg(this).arg(&binary).status().expect("cp");
    assert!(copied.success(), "cp: {copied}");
    let output = Command::new(&binary)
        .args(["--exact", "a_data_folder_with_blanks_and_a_long_path_works"])
        .uid(other.uid.as_raw())
        .gid(other.gid.as_raw())
        .current_dir("/")
        .output()
        .expect("a run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn root_gets_an_error_when_the_user_of_postgres_cannot_enter_the_folder() {
    if !is_root() {
        return; // An ordinary user runs Postgres as itself.
    }
    let closed = tempfile::tempdir().expect("a folder");
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).expect("only root's");
    let refused = EmbeddedPostgres::start(&closed.path().join("data")).await;
    let refused = refused.expect_err("a refusal").to_string();
    assert!(refused.contains(&*closed.path().to_string_lossy()), "{refused}");
    assert!(refused.contains("/var/lib/surety"), "{refused}");
}

fn dev_postgres(script: &str) -> std::process::Output {
    let surety = env!("CARGO_BIN_EXE_surety");
    let run = Command::new(surety).args(["dev-postgres", "--", "sh", "-c", script]).output();
    run.expect("surety")
}

#[test]
fn a_command_runs_beside_a_database_and_gives_its_own_exit_code() {
    let script = "psql -X -At \"$DATABASE_URL\" -c 'show data_directory'; exit 7";
    let output = dev_postgres(script);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(folder.contains("surety-pg-") && !Path::new(&folder).exists(), "{output:?}");
    assert_eq!(dev_postgres("kill -9 $$").status.code(), Some(128 + 9));
}

#[test]
fn a_command_s_database_has_the_requested_settings() {
    let run = Command::new(env!("CARGO_BIN_EXE_surety"))
        .args(["dev-postgres", "--setting", "max_connections=7", "--setting", "shared_buffers=2MB"])
        .args(["--", "sh", "-c"])
        .arg("psql -X -At \"$DATABASE_URL\" -c 'show max_connections' -c 'show shared_buffers'")
        .output();
    let output = run.expect("surety");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n2MB\n", "{output:?}");
}

#[test]
fn a_command_s_database_is_in_the_folder_that_is_named() {
    let kept = tempfile::tempdir().expect("a folder");
    fs::set_permissions(kept.path(), fs::Permissions::from_mode(0o711)).expect("its permissions");
    let run = |folder: &Path| {
        let run = Command::new(env!("CARGO_BIN_EXE_surety"))
            .args(["dev-postgres", "--temp-dir"])
            .arg(folder)
            .args(["--", "sh", "-c", "psql -X -At \"$DATABASE_URL\" -c 'show data_directory'"])
            .output();
        run.expect("surety")
    };
    let output = run(kept.path());
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(Path::new(&folder).starts_with(kept.path()), "{output:?}");
    assert_eq!(fs::read_dir(kept.path()).expect("the folder").count(), 0, "it is removed");

    let missing = kept.path().join("missing");
    let output = run(&missing);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&*missing.to_string_lossy()), "{said}");
}

#[test]
fn a_command_that_does_not_exist_is_named() {
    let surety = env!("CARGO_BIN_EXE_surety");
    let run = Command::new(surety).args(["dev-postgres", "--", "/no/such/program"]).output();
    let output = run.expect("surety");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/program"), "{output:?}");
}
