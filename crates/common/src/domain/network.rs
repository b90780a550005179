//! The parts of a network that a policy opens for commands.

use super::problem::{Code, Problem};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// The most ports and the most hosts of a policy.
const MOST: usize = 32;

/// A host that commands reach: its name or its address, and its port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedHost {
    /// The name, or an address.
    pub name: String,
    /// The port; none is 80 and 443.
    pub port: Option<u16>,
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.port, self.name.contains(':')) {
            (Some(port), true) => write!(f, "[{}]:{port}", self.name),
            (Some(port), false) => write!(f, "{}:{port}", self.name),
            (None, _) => f.write_str(&self.name),
        }
    }
}

/// Reads ports of the executor's loopback.
///
/// # Errors
/// `type_mismatch` without any, and for one that is no port; `too_large`.
pub fn read_ports(field: &str, ports: &[u32]) -> Result<Vec<u16>, Problem> {
    check_length(field, ports.len(), "name the ports, such as [5432]")?;
    let read = |(place, port): (usize, &u32)| {
        let known = u16::try_from(*port).ok().filter(|port| *port > 0);
        known.ok_or_else(|| {
            let message = format!("{port} is no TCP port; use 1 to 65535");
            Problem::at(Code::TypeMismatch, format!("{field}[{place}]"), message)
        })
    };
    let mut ports = ports.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

/// Reads hosts, each `name`, `name:port`, an IPv4 address with or without a port, an IPv6 address, or one in
/// brackets with a port.
///
/// # Errors
/// `type_mismatch` without any, and for one that does not read; `too_large`.
pub fn read_hosts(field: &str, hosts: &[String]) -> Result<Vec<AllowedHost>, Problem> {
    check_length(field, hosts.len(), "name the hosts, such as [registry.npmjs.org]")?;
    let read = |(place, text): (usize, &String)| {
        read_host(text.trim()).ok_or_else(|| {
            let message = format!(
                "{text:?} is no host; write a name or an address, with a port where it is neither 80 nor 443"
            );
            Problem::at(Code::TypeMismatch, format!("{field}[{place}]"), message)
        })
    };
    hosts.iter().enumerate().map(read).collect()
}

fn check_length(field: &str, length: usize, advice: &str) -> Result<(), Problem> {
    if length == 0 {
        return Err(Problem::at(Code::TypeMismatch, field, format!("names none; {advice}")));
    }
    if length > MOST {
        let message = format!("has more than {MOST} entries; leave some out");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    Ok(())
}

fn read_host(text: &str) -> Option<AllowedHost> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(AllowedHost { name: address.to_string(), port: None });
    }
    let port_of = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        let name = address.parse::<IpAddr>().ok()?.to_string();
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port_of(port)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        return Some(AllowedHost { name, port });
    }
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port_of(port)?)),
        None => (text, None),
    };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    (name.len() <= 253 && name.split('.').all(is_label)).then_some(AllowedHost { name, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_a_port_or_without() {
        for (text, expected) in [
            ("Registry.npmjs.org", Some("registry.npmjs.org")),
            ("a.b.:8080", Some("a.b:8080")),
            ("localhost:3000", Some("localhost:3000")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("10.0.0.1:5432", Some("10.0.0.1:5432")),
            ("::1", Some("::1")),
            ("[::1]:80", Some("[::1]:80")),
            ("https://a.org", None),
            ("a.org/x", None),
            ("a.org:", None),
            ("a.org:0", None),
            ("a.org:70000", None),
            ("*.a.org", None),
            ("a..org", None),
            ("[a.org]:80", None),
            ("", None),
        ] {
            let read = read_hosts("policy.network", &[text.to_owned()]);
            let found = read.ok().map(|hosts| hosts[0].to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ports_and_hosts_are_named_and_not_too_many() {
        assert_eq!(read_ports("p", &[443, 80, 443]), Ok(vec![80, 443]));
        for bad in [&[][..], &[0], &[65_536], &[1; 33]] {
            assert!(read_ports("p", bad).is_err(), "{bad:?}");
        }
        assert!(read_hosts("h", &[]).is_err());
        assert!(read_hosts("h", &vec!["a".to_owned(); 33]).is_err());
    }
}
