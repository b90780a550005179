//! The transport over HTTP.

use crate::client::VERSION;
use crate::flow::broken;
use crate::support::{Ended, Home};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A server on a port of its own.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(&[&["mcp", "--listen", "127.0.0.1:0"], arguments].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let line = lines.find(|line| line.contains("serving MCP at")).unwrap();
        // What follows is read, so that the server never waits for it.
        std::thread::spawn(move || lines.for_each(drop));
        let address = line.split("http://").nth(1).unwrap().trim_end_matches("/mcp").to_owned();
        Self { child, address }
    }

    /// The status, the headers and the body of a request.
    fn post(&self, headers: &[(&str, &str)], message: &Value) -> Answer {
        self.send("POST", headers, &message.to_string())
    }

    fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut head = format!(
            "{method} /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, \
             text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn session(&self) -> String {
        let line = self.head.lines().find_map(|line| line.strip_prefix("mcp-session-id:"));
        line.unwrap().trim().to_owned()
    }

    /// The answer to a request, of a body or of a stream of events.
    fn message(&self) -> Value {
        let of_line = |line: &str| {
            let text = line.strip_prefix("data:").unwrap_or(line).trim();
            let value: Value = serde_json::from_str(text).ok()?;
            value.get("id").is_some().then_some(value)
        };
        self.body.lines().find_map(of_line).unwrap_or_else(|| panic!("no message: {self:#?}"))
    }
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "strict", "version": "1"}}})
}

fn call(tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

/// A session, and the result of a tool in it.
fn called(server: &Server, headers: &[(&str, &str)], tool: &str) -> Value {
    let opened = server.post(headers, &initialize());
    assert_eq!(opened.status, 200, "{opened:#?}");
    let session = opened.session();
    let mut headers = headers.to_vec();
    headers.push(("Mcp-Session-Id", &session));
    headers.push(("MCP-Protocol-Version", VERSION));
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.post(&headers, &ready).status, 202);
    server.post(&headers, &call(tool)).message()["result"].clone()
}

#[test]
fn this_machine_needs_no_token_and_pages_of_a_browser_get_nothing() {
    let home = broken();
    let server = Server::start(&home, &[]);
    let result = called(&server, &[], "surety_check");
    assert_eq!(result["structuredContent"]["accepted"], false, "{result}");
    for (name, value) in [("Origin", "http://evil.example"), ("Host", "evil.example")] {
        let answer = server.post(&[(name, value)], &initialize());
        assert!((400..500).contains(&answer.status), "{name}: {answer:#?}");
    }
}

#[test]
fn a_token_is_asked_for_where_one_is_set() {
    let home = broken();
    let file = home.home.join("token");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    let mut permissions = std::fs::metadata(&file).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    std::fs::set_permissions(&file, permissions).unwrap();
    let server = Server::start(&home, &["--listen-token-file", file.to_str().unwrap()]);
    for headers in [
        vec![],
        vec![("Authorization", "Bearer wrong")],
        vec![("Authorization", "0123456789abcdef0123456789abcdef")],
        vec![("Authorization", "Bearer ")],
    ] {
        let answer = server.post(&headers, &initialize());
        assert_eq!(answer.status, 401, "{answer:#?}");
        assert!(answer.head.contains("www-authenticate: bearer"), "{answer:#?}");
        assert!(!answer.body.contains("0123456789"), "{answer:#?}");
    }
    let bearer = [("Authorization", "Bearer 0123456789abcdef0123456789abcdef")];
    let result = called(&server, &bearer, "surety_status");
    assert_eq!(result["isError"], false, "{result}");
}

#[test]
fn other_machines_are_served_with_a_token_only() {
    let home = broken();
    let ended = Ended::of(&home.command(&["mcp", "--listen", "0.0.0.0:0"]).output().unwrap());
    ended.is(1, "error[setting_invalid]").is(1, "--listen-token-file");
    let ended = Ended::of(&home.command(&["mcp", "--listen-token-file", "t"]).output().unwrap());
    ended.is(1, "error[usage]");
}

/// A session that is ready for calls.
fn session(server: &Server) -> String {
    let opened = server.post(&[], &initialize());
    assert_eq!(opened.status, 200, "{opened:#?}");
    let session = opened.session();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.post(&[("Mcp-Session-Id", &session)], &ready).status, 202);
    session
}

#[test]
fn sessions_are_counted_and_one_too_many_is_refused_until_another_ends() {
    let home = broken();
    let server = Server::start(&home, &["--mcp-sessions", "2"]);
    let (first, second) = (session(&server), session(&server));
    for message in [initialize(), json!([initialize()])] {
        let refused = server.post(&[], &message);
        assert_eq!(refused.status, 503, "{refused:#?}");
        assert!(refused.head.contains("retry-after: "), "{refused:#?}");
        assert!(refused.body.contains("2 sessions are open, which is the most"), "{refused:#?}");
    }
    for open in [&first, &second] {
        let status = server.post(&[("Mcp-Session-Id", open)], &call("surety_status"));
        assert_eq!(status.message()["result"]["isError"], false, "{status:#?}");
    }
    let ended = server.send("DELETE", &[("Mcp-Session-Id", &first)], "");
    assert!((200..300).contains(&ended.status), "{ended:#?}");
    session(&server);
    assert_eq!(server.post(&[], &initialize()).status, 503);
}

#[test]
fn a_session_without_messages_expires_and_makes_place() {
    let home = broken();
    let server = Server::start(&home, &["--mcp-sessions", "1", "--mcp-session-idle-s", "1"]);
    let expired = session(&server);
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.post(&[], &initialize()).status == 503 {
        assert!(Instant::now() < deadline, "the session does not expire");
    }
    let late = server.post(&[("Mcp-Session-Id", &expired)], &call("surety_status"));
    assert_eq!(late.status, 404, "{late:#?}");
}

#[test]
fn the_end_of_the_last_session_without_a_verdict_stands_in_the_lists() {
    let home = broken();
    let server = Server::start(&home, &[]);
    let (first, second) = (session(&server), session(&server));
    let of = |session: &str| [("Mcp-Session-Id", session.to_owned())];
    let post = |session: &str, message: &Value| {
        let headers = of(session);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        server.post(&headers, message)
    };
    let checked = post(&first, &call("surety_check")).message()["result"].clone();
    assert_eq!(checked["structuredContent"]["accepted"], false, "{checked}");
    let listed = || Ended::of(&home.command(&["contract", "list"]).output().unwrap());
    let end = |session: &str| {
        let ended = server.send("DELETE", &[("Mcp-Session-Id", session)], "");
        assert!((200..300).contains(&ended.status), "{ended:#?}");
    };
    // Another session goes on with the same work.
    end(&first);
    let status = post(&second, &call("surety_status")).message();
    assert_eq!(status["result"]["isError"], false, "{status}");
    assert!(!listed().stdout.contains("the agent stopped"));
    end(&second);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !listed().stdout.contains("no verdict: the agent stopped") {
        assert!(Instant::now() < deadline, "the end is not said: {:#?}", listed());
    }
}

#[test]
fn a_round_is_a_task_over_http_which_further_requests_ask_for() {
    let quick = "verify: [{id: quick, kind: command_success, target: \"true\"}]\n";
    let home = Home::with(&[(".surety/checks.yaml", quick)]);
    let server = Server::start(&home, &[]);
    let mut opening = initialize();
    opening["params"]["capabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let opened = server.post(&[], &opening);
    let extensions = &opened.message()["result"]["capabilities"]["extensions"];
    assert!(extensions["io.modelcontextprotocol/tasks"].is_object(), "{opened:#?}");
    let session = opened.session();
    let headers = [("Mcp-Session-Id", session.as_str())];
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.post(&headers, &ready).status, 202);
    let made = server.post(&headers, &call("surety_verdict")).message()["result"].clone();
    assert_eq!(made["status"], "working", "{made}");
    let params = json!({"taskId": made["taskId"]});
    let get = json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": params});
    let deadline = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        let found = server.post(&headers, &get).message()["result"].clone();
        if found["status"] != "working" {
            break found;
        }
        assert!(Instant::now() < deadline, "{found}");
    };
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"]["accepted"], true, "{ended}");
    assert!(home.verdict_file().exists());
}
