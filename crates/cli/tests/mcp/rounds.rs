//! Long rounds: progress, cancellation, tasks, and an agent that goes on writing.

use crate::client::{Called, Client};
use crate::flow::plan;
use crate::support::Home;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// A check that shows that it began, and then takes longer than any test.
const LONG: &str = "verify:\n  - {id: quick, kind: command_success, target: \"true\"}\n  - {id: long, kind: \
                    command_success, target: sleep 900}\n";

fn long() -> Home {
    Home::with(&[(".surety/checks.yaml", LONG), ("product.txt", "one\n")])
}

fn begin(client: &mut Client, tool: &str) -> i64 {
    client
        .send("tools/call", json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "t"}}))
}

/// Waits until the long check is at work.
fn at_work(client: &mut Client) {
    loop {
        let told = client.notified("notifications/progress");
        if told["params"]["message"].as_str().unwrap().contains("long") {
            return;
        }
    }
}

#[track_caller]
fn assert_grows(notifications: &[Value]) {
    let told: Vec<f64> =
        notifications.iter().map(|it| it["params"]["progress"].as_f64().unwrap()).collect();
    assert!(told.len() > 1 && told.windows(2).all(|pair| pair[0] < pair[1]), "{told:?}");
    for told in notifications {
        assert_eq!(told["params"]["progressToken"], "t");
        if let Some(total) = told["params"]["total"].as_f64() {
            assert!(total >= told["params"]["progress"].as_f64().unwrap(), "{told}");
        }
    }
}

fn sleepers(home: &Home) -> usize {
    let name = home.workspace.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let folder = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
        line.starts_with(b"sleep\x00900") && folder.to_string_lossy().contains(&name)
    });
    processes.count()
}

/// Waits until no process of the long check is left.
#[track_caller]
fn assert_ended(home: &Home) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while sleepers(home) > 0 {
        assert!(Instant::now() < deadline, "the check goes on");
        std::thread::yield_now();
    }
}

#[test]
fn a_round_tells_how_far_it_is_and_a_cancelled_one_is_killed() {
    let home = long();
    let mut client = Client::open(&home, &[]);
    let id = begin(&mut client, "surety_verdict");
    at_work(&mut client);
    assert_grows(&client.notifications);
    // A second round would share the workspace.
    client.call("surety_check", json!({})).fails("round_running", "cancel it");
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    // Another request has its answer, and the round is over.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let status = client.call("surety_status", json!({})).ok();
        let probe = begin(&mut client, "surety_check");
        let is_free = loop {
            let message = client.receive();
            if message["method"] == "notifications/progress" {
                if message["params"]["message"].as_str().unwrap().contains("long") {
                    client.notify("notifications/cancelled", json!({"requestId": probe}));
                    break true;
                }
            } else if message["id"] == probe {
                assert_eq!(
                    message["result"]["structuredContent"]["error"]["code"],
                    "round_running"
                );
                break false;
            }
        };
        assert_eq!(status.value["rounds"], 0, "a cancelled round is none");
        if is_free {
            break;
        }
        assert!(Instant::now() < deadline, "the cancelled round goes on");
    }
    assert_ended(&home);
    assert!(!home.verdict_file().exists(), "a cancelled round writes no verdict");
}

#[test]
fn a_round_ends_with_the_connection_and_with_a_signal() {
    let home = long();
    let mut client = Client::open(&home, &[]);
    begin(&mut client, "surety_check");
    at_work(&mut client);
    let errors = client.end_at_work();
    assert!(errors.contains("without a verdict"), "{errors}");
    assert_ended(&home);

    let mut client = Client::open(&home, &[]);
    begin(&mut client, "surety_check");
    at_work(&mut client);
    kill(Pid::from_raw(client.process()), Signal::SIGTERM).unwrap();
    let errors = client.end_at_work();
    assert!(errors.contains("without a verdict"), "{errors}");
    assert_ended(&home);
}

#[test]
fn a_client_that_takes_tasks_gets_one_and_can_cancel_it() {
    let home = long();
    let mut client = Client::start(&home, &[]);
    let info = client.initialize(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    assert!(info["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    let made = client.request("tools/call", json!({"name": "surety_check", "arguments": {}}));
    let task = made["taskId"].as_str().unwrap().to_owned();
    assert_eq!(made["status"], "working");
    let get = |client: &mut Client| client.request("tasks/get", json!({"taskId": task}));
    assert_eq!(get(&mut client)["status"], "working");
    client.request("tasks/cancel", json!({"taskId": task}));
    until(&mut client, &get, "cancelled");
    assert_ended(&home);

    let quick = "verify: [{id: quick, kind: command_success, target: \"true\"}]\n";
    let other = Home::with(&[(".surety/checks.yaml", quick)]);
    let mut client = Client::start(&other, &[]);
    client.initialize(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let made = client.request("tools/call", json!({"name": "surety_verdict", "arguments": {}}));
    let task = made["taskId"].as_str().unwrap().to_owned();
    let get = |client: &mut Client| client.request("tasks/get", json!({"taskId": task}));
    let done = until(&mut client, &get, "completed");
    assert_eq!(Called::of(&done["result"]).value["accepted"], true, "{done}");
    assert!(other.verdict_file().exists());
    client.end();
}

fn until(client: &mut Client, get: &dyn Fn(&mut Client) -> Value, status: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = get(client);
        if found["status"] == status {
            return found;
        }
        assert_eq!(found["status"], "working", "{found}");
        assert!(Instant::now() < deadline, "the task stays {found}");
    }
}

#[test]
fn a_workspace_that_the_agent_goes_on_writing_to_is_refused() {
    let home = Home::with(&[
        (".surety/checks.yaml", "verify: [{id: slow, kind: command_success, target: sleep 1}]\n"),
        ("product.txt", "one\n"),
    ]);
    let mut client = Client::open(&home, &[]);
    let workspace = home.workspace.clone();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        // Each content is another one, in one call: two readers of an emptied file would see the same.
        let product = OpenOptions::new().write(true).open(workspace.join("product.txt")).unwrap();
        let mut count = 0_u64;
        while stopped.recv_timeout(Duration::from_millis(5)).is_err() {
            count += 1;
            product.write_all_at(format!("{count:020}\n").as_bytes(), 0).unwrap();
        }
    });
    let verdict = client.call("surety_verdict", json!({})).ok();
    stop.send(()).unwrap();
    writer.join().unwrap();
    assert_eq!(verdict.value["accepted"], false, "{verdict:#?}");
    assert!(verdict.text.contains("workspace_changed_during_verification"), "{verdict:#?}");
    assert_eq!(verdict.value["round"], 2);
    let verdict = client.call("surety_verdict", json!({})).ok();
    assert_eq!(verdict.value["accepted"], true, "{verdict:#?}");
    client.end();
}

/// A check that shows that it began, and ends by itself some time later.
const SLOW: &str = "verify:\n  - {id: quick, kind: command_success, target: \"true\"}\n  - {id: long, kind: \
                    command_success, target: sleep 5}\n";

#[test]
fn a_round_is_no_verdict_of_a_contract_that_was_opened_meanwhile() {
    let home = Home::with(&[(".surety/checks.yaml", SLOW), ("product.txt", "one\n")]);
    let mut client = Client::open(&home, &[]);
    let id = begin(&mut client, "surety_verdict");
    at_work(&mut client);
    // What the round is about stays: another plan could drop its checks.
    let proposed = plan(json!(["product.txt"]));
    client.call("surety_propose_plan", proposed).fails("round_running", "cancel it");
    // A person closes the contract and opens the next one.
    let contracts = std::fs::read_dir(home.home.join(".local/share/surety/contracts")).unwrap();
    let contract = contracts.flatten().next().unwrap().path().join("contract.json");
    std::fs::rename(&contract, contract.with_file_name("closed.json")).unwrap();
    let opened = home.command(&["contract", "new"]).output().unwrap();
    assert!(opened.status.success(), "{opened:?}");
    let answer = client.answer(id);
    Called::of(&answer["result"]).fails("contract_missing", "again");
    assert!(!home.verdict_file().exists(), "it is the verdict of no contract");
    let status = client.call("surety_status", json!({})).ok();
    assert_eq!((&status.value["rounds"], &status.value["verdict"]), (&json!(0), &Value::Null));
    client.end();
}
