//! `http_get` against a server on this machine.

use super::*;
use crate::tool::Secrets;
use crate::tool::builtin::http_get::HttpGet;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use surety_common::config::{NamedSecret, SecretSource};

/// A server that answers each path with these answers, and its `host:port`.
fn server(answers: &[(&'static str, String)]) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let answers = answers.to_vec();
    let (asked, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            for line in lines.by_ref() {
                if line.unwrap().is_empty() {
                    break;
                }
            }
            let path = first.split(' ').nth(1).unwrap().to_owned();
            let known = answers.iter().find(|(known, _)| *known == path);
            let answer = known.map_or("HTTP/1.1 404 Not Found\r\n\r\n", |(_, answer)| answer);
            stream.write_all(answer.as_bytes()).unwrap();
            if asked.send(path).is_err() {
                return;
            }
        }
    });
    (place, requests)
}

fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn moved(target: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
}

async fn get(allowed: &str, url: &str) -> ToolOutcome {
    let tool = HttpGet::new(Some(allowed)).unwrap();
    let fixture = ToolFixture::new();
    tool.call(&fixture.ctx, &value(&json!({"url": url}))).await
}

#[tokio::test]
async fn an_allowed_address_is_read_and_its_redirects_are_followed() {
    let (place, _requests) = server(&[("/a?token=secret", moved("/b")), ("/b", ok("the body"))]);
    let outcome = get(&place, &format!("http://{place}/a?token=secret")).await;
    assert!(outcome.success, "{}", outcome.summary);
    assert_eq!(output(&outcome), "the body");
    assert_eq!(outcome.summary, format!("http://{place}/b: 200 OK, 8 bytes, text/plain"));
    let missing = get(&place, &format!("http://{place}/none?token=secret")).await;
    assert_eq!(missing.error_code, Some(ErrorCode::AddressFailed));
    assert!(missing.summary.contains("404") && !missing.summary.contains("secret"));
}

#[tokio::test]
async fn no_other_address_is_called_by_name_by_redirect_or_by_a_private_name() {
    let (inner, requests) = server(&[("/", ok("inner"))]);
    let (port, local) = (inner.rsplit(':').next().unwrap(), "localhost");
    let (place, _redirects) = server(&[("/", moved(&format!("http://{inner}/")))]);
    for (allowed, url) in [
        ("", format!("http://{inner}/")),
        ("example.org:443", format!("http://{inner}/")),
        (&*place, format!("http://{place}/")),
        (&*format!("{local}:{port}"), format!("http://{local}:{port}/")),
        (&*inner, format!("ftp://{inner}/")),
        (&*inner, "file:///etc/passwd".to_owned()),
    ] {
        let outcome = get(allowed, &url).await;
        let code = Some(ErrorCode::AddressNotAllowed);
        assert_eq!(outcome.error_code, code, "{allowed} {url}: {}", outcome.summary);
    }
    assert!(requests.try_recv().is_err(), "the inner server was called");
}

#[tokio::test]
async fn a_loop_of_redirects_and_a_silent_server_end() {
    let (place, _requests) = server(&[("/", moved("/"))]);
    let outcome = get(&place, &format!("http://{place}/")).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::AddressFailed));
    assert!(outcome.summary.contains("redirects"), "{}", outcome.summary);
    // It accepts connections and answers nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = silent.local_addr().unwrap().to_string();
    let tool = HttpGet::new(Some(&place)).unwrap();
    let mut fixture = ToolFixture::new();
    fixture.ctx.deadline = Instant::now() + Duration::from_millis(200);
    let args = value(&json!({"url": format!("http://{place}/")}));
    let outcome = tool.call(&fixture.ctx, &args).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::Timeout));
}

/// A server that answers each request with its head.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let lines = lines.map(Result::unwrap).take_while(|line| !line.is_empty());
            let head = lines.collect::<Vec<_>>().join("\n");
            stream.write_all(ok(&head).as_bytes()).unwrap();
        }
    });
    place
}

#[tokio::test]
async fn headers_have_secrets_and_go_to_the_first_host_alone() {
    let mut fixture = ToolFixture::new();
    let file = fixture.outside.join("secret.txt");
    fs::write(&file, "a value of 23 characters").unwrap();
    let source = SecretSource::File(file);
    let listed = [NamedSecret { name: "api".to_owned(), namespaces: None, source }];
    let secrets = Secrets::load(&listed).unwrap().of_run("default", &["api".to_owned()]);
    fixture.ctx.secrets = Arc::new(secrets);
    let inner = echo();
    let (outer, _requests) = server(&[("/", moved(&format!("http://{inner}/")))]);
    let tool = HttpGet::new(Some(&format!("{inner},{outer}"))).unwrap();
    let get = async |place: &str, headers: serde_json::Value| {
        let args = json!({"url": format!("http://{place}/"), "headers": headers});
        tool.call(&fixture.ctx, &value(&args)).await
    };
    let bearer = json!({"Authorization": "Bearer secret:api", "X-Plain": "as it is"});
    let sent = output(&get(&inner, bearer.clone()).await).to_ascii_lowercase();
    assert!(sent.contains("authorization: bearer a value of 23 characters"), "{sent}");
    assert!(sent.contains("x-plain: as it is"), "{sent}");
    let elsewhere = output(&get(&outer, bearer).await).to_ascii_lowercase();
    assert!(elsewhere.starts_with("get /"), "{elsewhere}");
    for header in ["authorization", "a value of", "x-plain"] {
        assert!(!elsewhere.contains(header), "{elsewhere}");
    }
    for (headers, code) in [
        (json!({"Authorization": "secret:other"}), ErrorCode::SecretUnavailable),
        (json!({"Host": "a.org"}), ErrorCode::ArgumentsInvalid),
        (json!({"a b": "c"}), ErrorCode::ArgumentsInvalid),
        (json!({"X-A": "a\nb"}), ErrorCode::ArgumentsInvalid),
    ] {
        let refused = get(&inner, headers.clone()).await;
        assert_eq!(refused.error_code, Some(code), "{headers}");
    }
}
