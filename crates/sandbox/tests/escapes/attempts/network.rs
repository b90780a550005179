//! The network, and sockets of every kind.

use super::{expect_refused, python};

#[test]
fn sockets_of_the_host_are_not_reached() {
    expect_refused(&[
        python("a port of the host's loopback", "import socket\nsocket.create_connection(('127.0.0.1',@PORT@),2)\nprint('ESCAPED')"),
        python("the same by another name of the loopback", "import socket\nsocket.create_connection(('127.9.9.9',@PORT@),2)\nprint('ESCAPED')").uncontrolled(),
        python("the same by IPv6", "import socket\ns=socket.socket(socket.AF_INET6)\ns.connect(('::ffff:127.0.0.1',@PORT@))\nprint('ESCAPED')").uncontrolled(),
        python("the same by 0.0.0.0", "import socket\ns=socket.socket()\ns.settimeout(2)\ns.connect(('0.0.0.0',@PORT@))\nprint('ESCAPED')"),
        python("the database's socket", "import socket\ns=socket.socket(socket.AF_UNIX)\ns.connect('@DATA@/socket')\nprint('ESCAPED')"),
        python("the database's socket by a link", "import socket,os\nos.symlink('@DATA@/socket','s')\ns=socket.socket(socket.AF_UNIX)\ns.connect('s')\nprint('ESCAPED')"),
        python("an abstract socket", "import socket\ns=socket.socket(socket.AF_UNIX)\ns.connect('\\0@ABSTRACT@')\nprint('ESCAPED')"),
        python("another machine", "import socket\ns=socket.socket()\ns.settimeout(2)\ns.connect(('192.0.2.1',80))\nprint('ESCAPED')").uncontrolled(),
        python("another machine by UDP", "import socket\ns=socket.socket(type=socket.SOCK_DGRAM)\ns.sendto(b'x',('192.0.2.1',53))\nprint('ESCAPED')").uncontrolled(),
        python("the name server", "import socket\nsocket.getaddrinfo('example.org',80)\nprint('ESCAPED')").uncontrolled(),
    ]);
}

#[test]
fn sockets_that_no_test_needs_are_not_opened() {
    expect_refused(&[
        python("a raw socket", "import socket\nsocket.socket(socket.AF_INET,socket.SOCK_RAW,1)\nprint('ESCAPED')").for_root(),
        python("a packet socket", "import socket\nsocket.socket(17,socket.SOCK_RAW,0)\nprint('ESCAPED')").for_root(),
        python("a socket to the hypervisor", "import socket\nsocket.socket(40,socket.SOCK_STREAM,0)\nprint('ESCAPED')").uncontrolled(),
        python("a socket of the kernel's ciphers", "import socket\nsocket.socket(38,socket.SOCK_SEQPACKET,0)\nprint('ESCAPED')").uncontrolled(),
        python("a netlink socket of the audit", "import socket\nsocket.socket(16,socket.SOCK_RAW,9)\nprint('ESCAPED')"),
        python("a netlink socket of the kernel's events", "import socket\nsocket.socket(16,socket.SOCK_RAW,15)\nprint('ESCAPED')"),
        python("a pair of internet sockets", "import socket\nsocket.socketpair(socket.AF_INET6,socket.SOCK_STREAM)\nprint('ESCAPED')").uncontrolled(),
        python("a socket of Bluetooth", "import socket\nsocket.socket(31,socket.SOCK_RAW,1)\nprint('ESCAPED')").uncontrolled(),
    ]);
}
