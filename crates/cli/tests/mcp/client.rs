//! A strict client of the protocol: it accepts only what JSON-RPC 2.0 and MCP allow a server to send.

use crate::support::Home;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long one message may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const VERSION: &str = "2025-06-18";

/// A running server.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    next_id: i64,
    /// Notifications that arrived, in order.
    pub(crate) notifications: Vec<Value>,
    /// Requests of the server that were not answered.
    pub(crate) requests: VecDeque<Value>,
}

impl Client {
    /// Starts a server in the home's workspace, without the handshake.
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(&[&["mcp"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut errors = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        let input = child.stdin.take();
        Self {
            child,
            input,
            lines,
            errors: Some(errors),
            next_id: 1,
            notifications: Vec::new(),
            requests: VecDeque::new(),
        }
    }

    /// Starts a server, and shakes hands without any capability.
    pub(crate) fn open(home: &Home, arguments: &[&str]) -> Self {
        let mut client = Self::start(home, arguments);
        client.initialize(json!({}));
        client
    }

    pub(crate) fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": VERSION,
            "capabilities": capabilities,
            "clientInfo": {"name": "strict", "version": "1"},
        });
        let result = self.request("initialize", params);
        assert_eq!(result["protocolVersion"], VERSION);
        assert_eq!(result["serverInfo"]["name"], "surety");
        self.notify("notifications/initialized", json!({}));
        result
    }

    /// Sends one line as it is.
    pub(crate) fn raw(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.raw(message.to_string().as_bytes());
    }

    /// Sends a request. Answers its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.raw(message.to_string().as_bytes());
        id
    }

    /// Answers a request of the server.
    pub(crate) fn reply(&mut self, request: &Value, result: Value) {
        let message = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.raw(message.to_string().as_bytes());
    }

    /// The next message of the server, which has to be one.
    pub(crate) fn receive(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("the server sends a message in time");
        let message: Value = serde_json::from_str(&line).expect("a line is one message");
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        let has = |key: &str| message.get(key).is_some();
        match (has("method"), has("id")) {
            (true, _) => assert!(!has("result") && !has("error"), "{message}"),
            (false, true) => assert!(has("result") != has("error"), "{message}"),
            (false, false) => panic!("neither request, notification nor answer: {message}"),
        }
        message
    }

    /// The whole answer with an id. What arrives before it is kept.
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.receive();
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "an answer to another request: {message}");
                return message;
            }
            self.keep(message);
        }
    }

    fn keep(&mut self, message: Value) {
        if message.get("id").is_some() {
            self.requests.push_back(message);
        } else {
            self.notifications.push(message);
        }
    }

    /// The next request of the server.
    pub(crate) fn asked(&mut self) -> Value {
        while self.requests.is_empty() {
            let message = self.receive();
            assert!(message.get("method").is_some(), "an answer before a request: {message}");
            self.keep(message);
        }
        self.requests.pop_front().unwrap()
    }

    /// The next notification of a method.
    pub(crate) fn notified(&mut self, method: &str) -> Value {
        loop {
            let message = self.receive();
            if message["method"] == method {
                self.notifications.push(message.clone());
                return message;
            }
            assert!(message.get("method").is_some(), "an answer before {method}: {message}");
            self.keep(message);
        }
    }

    /// The result of a request.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code and the message of the error of a request.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.send(method, params);
        let answer = self.answer(id);
        let error = &answer["error"];
        assert!(error["code"].is_i64() && error["message"].is_string(), "{method}: {answer}");
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// The result of a tool, with its text and its value.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Called {
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        Called::of(&result)
    }

    /// Closes the input, and waits for the end of the server. Answers what it wrote to its standard error.
    pub(crate) fn end(mut self) -> String {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        let errors = self.errors.take().unwrap().join().unwrap();
        assert!(status.success(), "{status}: {errors}");
        assert_eq!(self.lines.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
        errors
    }

    /// As [`Self::end`], while a request has no answer yet.
    pub(crate) fn end_at_work(mut self) -> String {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        let errors = self.errors.take().unwrap().join().unwrap();
        assert!(status.success(), "{status}: {errors}");
        errors
    }

    pub(crate) fn process(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.input.is_some() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

/// The result of a tool.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) text: String,
    pub(crate) value: Value,
    pub(crate) is_error: bool,
}

impl Called {
    #[track_caller]
    pub(crate) fn of(result: &Value) -> Self {
        let content = result["content"].as_array().expect("a result has content");
        assert_eq!(content.len(), 1, "{result}");
        assert_eq!(content[0]["type"], "text", "{result}");
        Self {
            text: content[0]["text"].as_str().unwrap().to_owned(),
            value: result["structuredContent"].clone(),
            is_error: result["isError"].as_bool().unwrap_or_default(),
        }
    }

    /// Asserts that it is no error.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(!self.is_error, "{self:#?}");
        self
    }

    /// Asserts the code of its error, and a part of the text.
    #[track_caller]
    pub(crate) fn fails(self, code: &str, part: &str) {
        assert!(self.is_error, "{self:#?}");
        assert_eq!(self.value["error"]["code"], code, "{self:#?}");
        assert!(self.text.contains(part), "no {part:?}: {self:#?}");
    }

    /// The names of the failed results.
    pub(crate) fn failed(&self) -> Vec<&str> {
        let failed = self.value["failed"].as_array().expect("a round has results").iter();
        failed.map(|result| result["name"].as_str().unwrap()).collect()
    }

    pub(crate) fn caution_codes(&self) -> Vec<&str> {
        let cautions = self.value["cautions"].as_array().unwrap().iter();
        cautions.map(|caution| caution["code"].as_str().unwrap()).collect()
    }
}
