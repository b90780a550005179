//! The loopback interface of a new network namespace, which begins switched off.

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use nix::unistd::{read, write};
use std::fs;
use std::io;

const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;
/// The loopback is the first interface of every network namespace.
const LOOPBACK: i32 = 1;

/// Switches the loopback on, by one message to the kernel.
pub(super) fn up() -> io::Result<()> {
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let mut message = Vec::with_capacity(32);
    message.extend_from_slice(&32_u32.to_ne_bytes());
    message.extend_from_slice(&RTM_NEWLINK.to_ne_bytes());
    message.extend_from_slice(&NLM_F_REQUEST_ACK.to_ne_bytes());
    // Sequence number and sender, then family and kind of the interface: none is needed.
    message.extend_from_slice(&[0; 12]);
    message.extend_from_slice(&LOOPBACK.to_ne_bytes());
    message.extend_from_slice(&IFF_UP.to_ne_bytes());
    message.extend_from_slice(&IFF_UP.to_ne_bytes());
    write(&kernel, &message)?;
    let mut answer = [0; 64];
    let length = read(&kernel, &mut answer)?;
    match answer.get(..20).filter(|_| length >= 20) {
        Some([_, _, _, _, a, b, _, _, _, _, _, _, _, _, _, _, code @ ..])
            if u16::from_ne_bytes([*a, *b]) == NLMSG_ERROR =>
        {
            let code = code.try_into().map_or(0, i32::from_ne_bytes);
            if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
        }
        Some(_) | None => Err(io::Error::other("the kernel's answer does not read")),
    }
}

/// Whether a connection or a datagram found no route: the namespace's counters begin at 0.
pub(super) fn refused() -> Option<bool> {
    let four = fs::read_to_string("/proc/self/net/snmp").ok()?;
    let mut lines = four.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let no_route = names
        .split(' ')
        .zip(values.split(' '))
        .find_map(|(name, value)| (name == "OutNoRoutes").then_some(value))?;
    let six = fs::read_to_string("/proc/self/net/snmp6").unwrap_or_default();
    let no_route_6 = six.lines().find_map(|line| line.strip_prefix("Ip6OutNoRoutes"));
    Some(no_route != "0" || no_route_6.is_some_and(|count| count.trim() != "0"))
}
