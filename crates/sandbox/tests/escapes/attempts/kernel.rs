//! System calls that change the machine or widen what can be reached.

use super::{expect_refused, python, sh};
use crate::support::{Sandbox, levels};

#[test]
fn the_kernel_is_not_asked_for_more() {
    expect_refused(&[
        sh("a mount", "mkdir m; mount -t tmpfs none m && echo ESCAPED; umount m").for_root(),
        sh("a bind mount", "mkdir m; mount --bind @DATA@ m && grep -q token-secret m/token && echo ESCAPED; umount m").for_root(),
        sh("an unmount", "umount -l /proc && echo ESCAPED").uncontrolled(),
        sh("a remount", "mount -o remount,rw / && echo ESCAPED").uncontrolled(),
        sh("a user namespace", "unshare -Ur true && echo ESCAPED").uncontrolled(),
        sh("a mount namespace", "unshare -m true && echo ESCAPED").for_root(),
        sh("a network namespace", "unshare -n true && echo ESCAPED").for_root(),
        sh("another process's namespaces", "nsenter -t @PID@ -m -n -p true && echo ESCAPED").for_root(),
        python("a change of the root", "import os\nos.chroot('/usr')\nprint('ESCAPED')").for_root(),
        python("a clone into a user namespace", "import ctypes,os\nc=ctypes.CDLL(None)\nr=c.syscall(56,0x10000000|17,0,0,0,0)\nif r==0: os._exit(0)\nprint('ESCAPED' if r>0 else '')").uncontrolled(),
        python("input to a terminal", "import pty,fcntl,os\nm,s=pty.openpty()\nfcntl.ioctl(s,0x5412,b'x')\nprint('ESCAPED')").for_root(),
        python("the clock", "import time\ntime.clock_settime(time.CLOCK_REALTIME,time.time())\nprint('ESCAPED')").for_root(),
        python("the host's name", "import socket\nsocket.sethostname(socket.gethostname())\nprint('ESCAPED')").for_root(),
        sh("the kernel's log", "dmesg > /dev/null 2>&1 && echo ESCAPED").uncontrolled(),
        python("the memory of itself by another call", "import ctypes,os\nc=ctypes.CDLL(None)\nclass V(ctypes.Structure): _fields_=[('b',ctypes.c_void_p),('l',ctypes.c_size_t)]\na=ctypes.create_string_buffer(b'ab');b=ctypes.create_string_buffer(2)\nx=V(ctypes.addressof(a),2);y=V(ctypes.addressof(b),2)\nr=c.process_vm_readv(os.getpid(),ctypes.byref(y),1,ctypes.byref(x),1,0)\nprint('ESCAPED' if r==2 else '')"),
    ]);
}

/// System calls by number, each with arguments that do nothing where it is allowed.
#[cfg(target_arch = "x86_64")]
const CALLS: [(&str, u32); 42] = [
    ("add_key", 248),
    ("request_key", 249),
    ("keyctl", 250),
    ("bpf", 321),
    ("perf_event_open", 298),
    ("userfaultfd", 323),
    ("io_uring_setup", 425),
    ("io_uring_enter", 426),
    ("io_uring_register", 427),
    ("setns", 308),
    ("unshare", 272),
    ("mount", 165),
    ("umount2", 166),
    ("pivot_root", 155),
    ("chroot", 161),
    ("fsopen", 430),
    ("fsconfig", 431),
    ("fsmount", 432),
    ("fspick", 433),
    ("open_tree", 428),
    ("move_mount", 429),
    ("mount_setattr", 442),
    ("open_by_handle_at", 304),
    ("kexec_load", 246),
    ("init_module", 175),
    ("finit_module", 313),
    ("delete_module", 176),
    ("swapon", 167),
    ("syslog", 103),
    ("acct", 163),
    ("quotactl", 179),
    ("clock_settime", 227),
    ("clock_adjtime", 305),
    ("process_vm_readv", 310),
    ("process_vm_writev", 311),
    ("process_madvise", 440),
    ("kcmp", 312),
    ("pidfd_getfd", 438),
    ("fanotify_init", 300),
    ("iopl", 172),
    ("ioperm", 173),
    ("lookup_dcookie", 212),
];

#[cfg(target_arch = "x86_64")]
#[test]
fn each_refused_system_call_is_refused_by_name() {
    let calls: Vec<_> = CALLS.iter().map(|(name, number)| format!("('{name}',{number})")).collect();
    let script = format!(
        "import ctypes\nc=ctypes.CDLL(None,use_errno=True)\nfor n,i in [{}]:\n  r=c.syscall(i,-1,-1,-1,-1,-1,-1)\n  print(n,r,ctypes.get_errno())\n  r=c.syscall(i|0x40000000,-1,-1,-1,-1,-1,-1)\n  print('x32-'+n,r,ctypes.get_errno())\nr=c.syscall(435,0,0)\nprint('clone3',r,ctypes.get_errno())",
        calls.join(",")
    );
    for (level, machine) in levels() {
        let ran = Sandbox::new(&machine).python(&script);
        assert!(ran.succeeded(), "{level}: {ran:?}");
        for (name, _) in CALLS {
            assert!(
                ran.stdout.contains(&format!("\n{name} -1 1\n"))
                    || ran.stdout.starts_with(&format!("{name} -1 1\n")),
                "{level}: {name}: {}",
                ran.stdout
            );
            assert!(ran.stdout.contains(&format!("x32-{name} -1 1\n")), "{level}: x32 {name}");
        }
        assert!(ran.stdout.ends_with("clone3 -1 38\n"), "{level}: {}", ran.stdout);
    }
}
