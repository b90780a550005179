//! The loopback interface of a new network namespace, which begins switched off.

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use nix::unistd::{read, write};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
const NLM_F_CREATE: u16 = 0x400;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// An IPv6 address is there at once, without a search for others that have it.
const IFA_F_NODAD: u8 = 2;
const RT_SCOPE_HOST: u8 = 254;
/// Bytes of the header of a message.
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;
/// The loopback is the first interface of every network namespace.
const LOOPBACK: i32 = 1;

/// Switches the loopback on, by one message to the kernel.
pub(super) fn up() -> io::Result<()> {
    // Family and kind of the interface: none is needed.
    let mut body = vec![0; 4];
    body.extend_from_slice(&LOOPBACK.to_ne_bytes());
    body.extend_from_slice(&IFF_UP.to_ne_bytes());
    body.extend_from_slice(&IFF_UP.to_ne_bytes());
    request(RTM_NEWLINK, NLM_F_REQUEST_ACK, &body)
}

/// Gives the loopback one more address.
pub(super) fn add(address: IpAddr) -> io::Result<()> {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    };
    let length = u8::try_from(bytes.len()).unwrap_or_default();
    let mut body = vec![family, length * 8, IFA_F_NODAD, RT_SCOPE_HOST];
    body.extend_from_slice(&LOOPBACK.to_ne_bytes());
    for kind in [IFA_LOCAL, IFA_ADDRESS] {
        body.extend_from_slice(&(u16::from(length) + 4).to_ne_bytes());
        body.extend_from_slice(&kind.to_ne_bytes());
        body.extend_from_slice(&bytes);
    }
    request(RTM_NEWADDR, NLM_F_REQUEST_ACK | NLM_F_CREATE, &body)
}

/// Sends one message to the kernel, and reads its answer.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let length = u32::try_from(body.len() + HEADER).map_err(io::Error::other)?;
    let mut message = Vec::with_capacity(body.len() + HEADER);
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    // Sequence number and sender: none is needed.
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    write(&kernel, &message)?;
    let mut answer = [0; 128];
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

/// Sockets on this port of the loopback; the second one, of IPv6, where the machine has it.
pub(super) fn listen(port: u16) -> io::Result<Vec<TcpListener>> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let second = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).ok();
    Ok([Some(first), second].into_iter().flatten().collect())
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
