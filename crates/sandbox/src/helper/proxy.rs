//! The HTTP proxy of commands that may reach some hosts: CONNECT, and plain requests with a whole address.
//!
//! It resolves names itself, and refuses a name that leads to a private address: such an address has to be listed.

use super::relay::{CONNECT, Refused, join};
use crate::address::is_public;
use crate::spec::AllowedHost;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Bytes of the longest head of a request.
const LONGEST_HEAD: usize = 32 << 10;
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(60);
/// The ports of a host that is listed without one.
const WEB: [u16; 2] = [80, 443];
/// Headers that are about the connection to a proxy.
const OF_CONNECTION: [&str; 4] =
    ["connection", "proxy-connection", "proxy-authorization", "keep-alive"];

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    host: String,
    port: u16,
    /// What goes to the host first; nothing for a tunnel.
    head: Option<String>,
}

/// Serves one connection.
pub(super) fn serve(
    mut client: TcpStream,
    allowed: &[AllowedHost],
    refused: &Refused,
) -> io::Result<()> {
    client.set_read_timeout(Some(HEAD))?;
    let Some((head, rest)) = read_head(&mut client)? else { return Ok(()) };
    client.set_read_timeout(None)?;
    let Some(Request { host, port, head }) = read(&head) else {
        return answer(&mut client, "400 Bad Request", "the request does not read");
    };
    let mut server = match connect(&host, port, allowed) {
        Ok(server) => server,
        Err(Failure::Refused) => {
            let name = place(&host, port);
            let why = format!("policy.network does not allow {name}");
            refused.add(name);
            return answer(&mut client, "403 Forbidden", &why);
        }
        Err(Failure::Unreachable(error)) => {
            let why = format!("{} cannot be reached: {error}", place(&host, port));
            return answer(&mut client, "502 Bad Gateway", &why);
        }
    };
    match head {
        Some(head) => server.write_all(head.as_bytes())?,
        None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
    }
    server.write_all(&rest)?;
    join(client, server)
}

fn answer(client: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(format!("{head}{why}\n").as_bytes())
}

/// The head of a request, and what came after it; none for a connection that was closed.
fn read_head(client: &mut TcpStream) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = client.read(&mut part)?;
        if length == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(part.get(..length).unwrap_or_default());
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), rest)));
        }
        if bytes.len() > LONGEST_HEAD {
            return Err(io::Error::other("the head of the request is too long"));
        }
    }
}

/// Reads the head of a request; none for one that no proxy serves.
fn read(head: &str) -> Option<Request> {
    let (line, headers) = head.split_once("\r\n")?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    if method == "CONNECT" {
        let (host, port) = split(target, None)?;
        return Some(Request { host, port, head: None });
    }
    let rest = target
        .get(7..)
        .filter(|_| target.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://")))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let (host, port) = split(authority, Some(80))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let kept = headers.split("\r\n").filter(|header| {
        let name = header.split(':').next().unwrap_or_default().trim();
        !header.is_empty() && !OF_CONNECTION.iter().any(|own| name.eq_ignore_ascii_case(own))
    });
    // One request a connection: the next one may be for another host.
    let lines = kept.chain(["Connection: close"]).collect::<Vec<_>>().join("\r\n");
    let head = format!("{method} {slash}{path} {version}\r\n{lines}\r\n\r\n");
    Some(Request { host, port, head: Some(head) })
}

/// The host and the port of `host:port`. An IPv6 address stands in brackets.
fn split(authority: &str, default: Option<u16>) -> Option<(String, u16)> {
    // A name and a password in front are not for a proxy.
    let authority = authority.rsplit('@').next()?;
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => default?,
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    let is_valid = !host.is_empty() && host.len() <= 253 && host.chars().all(is_plain);
    is_valid.then_some((host, port))
}

/// Why there is no connection to a host.
#[derive(Debug)]
enum Failure {
    Refused,
    Unreachable(io::Error),
}

fn connect(host: &str, port: u16, allowed: &[AllowedHost]) -> Result<TcpStream, Failure> {
    if !is_listed(host, port, allowed) {
        return Err(Failure::Refused);
    }
    let found = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => (host, port).to_socket_addrs().map_err(Failure::Unreachable)?.collect(),
    };
    let may_be = |found: &SocketAddr| {
        let address = found.ip();
        is_public(address) || is_listed(&address.to_string(), port, allowed)
    };
    let mut last = None;
    for address in found.into_iter().filter(may_be) {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(server) => return Ok(server),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or(Failure::Refused, Failure::Unreachable))
}

fn is_listed(host: &str, port: u16, allowed: &[AllowedHost]) -> bool {
    allowed.iter().any(|it| {
        let has_port = it.port.map_or(WEB.contains(&port), |listed| listed == port);
        let same_address = match (it.name.parse::<IpAddr>(), host.parse::<IpAddr>()) {
            (Ok(listed), Ok(asked)) => listed == asked,
            (_, _) => false,
        };
        has_port && (it.name.eq_ignore_ascii_case(host) || same_address)
    })
}

fn place(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(list: &[&str]) -> Vec<AllowedHost> {
        let read = |text: &&str| {
            let (name, port) = match text.rsplit_once('=') {
                Some((name, port)) => (name, port.parse().ok()),
                None => (*text, None),
            };
            AllowedHost { name: name.to_owned(), port }
        };
        list.iter().map(read).collect()
    }

    #[test]
    fn a_request_names_its_host_and_loses_what_is_for_the_proxy() {
        let tunnel = read("CONNECT Example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!((tunnel.host.as_str(), tunnel.port, tunnel.head), ("example.org", 443, None));
        let plain = "GET http://u:p@a.org:81/x?y HTTP/1.1\r\nHost: a.org\r\nProxy-Connection: keep-alive\r\n\
                     Connection: keep-alive\r\nAccept: */*\r\n\r\n";
        let Request { host, port, head } = read(plain).unwrap();
        assert_eq!((host.as_str(), port), ("a.org", 81));
        let expected =
            "GET /x?y HTTP/1.1\r\nHost: a.org\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(head.as_deref(), Some(expected));
        let six = read("CONNECT [2001:db8::1]:443 HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!((six.host.as_str(), six.port), ("2001:db8::1", 443));
        for bad in [
            "GET /local HTTP/1.1\r\n\r\n",
            "GET ftp://a.org/ HTTP/1.1\r\n\r\n",
            "CONNECT a.org HTTP/1.1\r\n\r\n",
            "CONNECT a.org:99999 HTTP/1.1\r\n\r\n",
            "CONNECT a\u{e9}.org:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.org:443 SPDY\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_host_is_listed_with_its_port_or_for_the_web() {
        let allowed = hosts(&["a.org", "b.org=8080", "::1=9", "10.0.0.1=80"]);
        for (host, port, expected) in [
            ("a.org", 443, true),
            ("A.org", 80, true),
            ("a.org", 8080, false),
            ("b.org", 8080, true),
            ("b.org", 443, false),
            ("c.org", 443, false),
            ("sub.a.org", 443, false),
            ("0:0:0:0:0:0:0:1", 9, true),
            ("10.0.0.1", 80, true),
        ] {
            assert_eq!(is_listed(host, port, &allowed), expected, "{host}:{port}");
        }
    }
}
