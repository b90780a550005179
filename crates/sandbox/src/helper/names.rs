//! The names that a command asks the machine's name servers for.
//!
//! A network namespace has no way to these servers. Their addresses are given to its loopback, and each question is
//! answered at once with a failure, so that the name is known and no program waits.

use super::loopback;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// The port of name servers.
const PORT: u16 = 53;
/// Servers that are listened for: C libraries ask no more.
const MOST_SERVERS: usize = 3;
/// Names that are kept.
const MOST_NAMES: usize = 16;
/// Questions of one socket that are answered in one go.
const MOST_AT_ONCE: usize = 64;
/// Bytes of the largest question.
const LARGEST: usize = 1232;
/// Bytes of the header of a message.
const HEADER: usize = 12;
/// Bytes of the longest name.
const LONGEST_NAME: usize = 253;
/// A response, with recursion.
const FLAGS: [u8; 2] = [0x81, 0x82];

/// The sockets on which name servers would listen.
#[derive(Debug, Default)]
pub(super) struct Names {
    sockets: Vec<UdpSocket>,
    asked: BTreeSet<String>,
}

impl Names {
    /// Listens in this process's network namespace. Without the right to, no name is known.
    pub(super) fn listen() -> Self {
        let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let open = |server: IpAddr| -> io::Result<UdpSocket> {
            if !server.is_loopback() {
                loopback::add(server)?;
            }
            let socket = UdpSocket::bind((server, PORT))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let sockets = servers(&text).into_iter().filter_map(|server| open(server).ok());
        Self { sockets: sockets.collect(), asked: BTreeSet::new() }
    }

    /// What becomes readable when a name is asked for.
    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Answers what was asked.
    pub(super) fn answer(&mut self) {
        let mut question = [0; LARGEST];
        for socket in &self.sockets {
            for _ in 0..MOST_AT_ONCE {
                let Ok((length, from)) = socket.recv_from(&mut question) else { break };
                let Some((answer, name)) = question.get(..length).and_then(failed) else {
                    continue;
                };
                // A program that went away needs no answer.
                socket.send_to(&answer, from).ok();
                if self.asked.len() < MOST_NAMES && !name.ends_with(".arpa") {
                    self.asked.insert(name);
                }
            }
        }
    }

    /// The names that were asked for.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.iter().cloned().collect()
    }
}

/// The name servers of a resolver's configuration; this machine where it names none.
fn servers(configuration: &str) -> Vec<IpAddr> {
    let named = configuration.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        words.next().filter(|_| is_server)?.parse().ok()
    });
    let servers: Vec<IpAddr> = named.take(MOST_SERVERS).collect();
    if servers.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { servers }
}

/// The answer that no server could be asked, and the name of the question; none for what is no question.
fn failed(question: &[u8]) -> Option<(Vec<u8>, String)> {
    let (header, rest) = question.split_at_checked(HEADER)?;
    let (id, is_question) = (header.get(..2)?, header.get(2)? & 0x80 == 0);
    if !is_question || header.get(4..6)? != [0, 1] {
        return None;
    }
    let (mut labels, mut place) = (Vec::new(), 0);
    loop {
        let length = usize::from(*rest.get(place)?);
        if length == 0 {
            break;
        }
        let label = rest.get(place + 1..place + 1 + length)?;
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if length > 63 || !label.iter().all(is_plain) {
            return None;
        }
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        place += 1 + length;
    }
    let name = labels.join(".");
    if name.is_empty() || name.len() > LONGEST_NAME {
        return None;
    }
    // The name's end, its type and its class.
    let asked = rest.get(..place + 5)?;
    let answer = [id, &FLAGS, &[0, 1, 0, 0, 0, 0, 0, 0], asked].concat();
    Some((answer, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &str) -> Vec<u8> {
        let mut bytes = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        for label in name.split('.') {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.as_bytes());
        }
        bytes.extend([0, 0, 1, 0, 1]);
        // What extends the question is left out of the answer.
        bytes.extend([0, 0, 41, 2, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn a_question_is_answered_with_a_failure_and_its_name_is_known() {
        let asked = question("Registry.npmjs.org");
        let (answer, name) = failed(&asked).unwrap();
        assert_eq!(name, "registry.npmjs.org");
        assert_eq!(answer[..12], [7, 9, 0x81, 0x82, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[12..], asked[12..asked.len() - 11]);
    }

    #[test]
    fn what_is_no_question_is_left_alone() {
        let mut response = question("a.b");
        response[2] |= 0x80;
        let long = vec!["x".repeat(60); 5].join(".");
        let cut = question("example.org");
        for bytes in [&[][..], &[0; 11], &[0; 12], &response, &cut[..20], &question(&long)] {
            assert_eq!(failed(bytes), None, "{bytes:?}");
        }
        assert_eq!(failed(&question("a b.org")), None);
    }

    #[test]
    fn the_servers_are_those_of_the_configuration() {
        let text = "# mine\nsearch a.b\nnameserver 10.0.0.1\n nameserver ::1 \nnameserver none\n";
        let expected: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        assert_eq!(servers(text), expected);
        assert_eq!(servers("options edns0\n"), [IpAddr::from([127, 0, 0, 1])]);
    }
}
