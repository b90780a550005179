//! What a command can do inside its sandbox, what limits end it, and what the report says.

use crate::support::{Sandbox, levels, runs_with};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use surety_sandbox::{
    AllowedHost, Exit, InForce, Launch, LimitHit, Missing, Network, PROXY_PORT, Refusal, View,
    Wanted, machine, prepare,
};

#[test]
fn a_command_works_in_its_workspace_and_tells_its_code() {
    for (level, machine) in levels() {
        let sandbox = Sandbox::with_home(&machine);
        sandbox.put("in", "text\n");
        let ran =
            sandbox.sh("cat in && echo made > out && [ -d \"$HOME\" ] && touch ~/f && exit 3");
        assert_eq!(ran.report.exit, Exit::Code(3), "{level}: {ran:?}");
        assert_eq!(ran.stdout, "text\n", "{level}: {ran:?}");
        assert_eq!(sandbox.read("out"), "made\n", "{level}");
        assert!(!sandbox.root.join("home/f").exists(), "{level}: the home is the command's own");
        assert_eq!(&ran.report.in_force, machine.in_force());
        assert_eq!(ran.report.left, []);
        let ran = sandbox.sh("kill -TERM $$");
        assert_eq!(ran.report.exit, Exit::Signal(15), "{level}");
        let left = fs::read_dir(sandbox.root.join("data/scratch")).unwrap().count();
        assert_eq!(left, 0, "{level}: the scratch folder is empty again");
    }
}

#[test]
fn a_program_that_cannot_be_started_is_told_apart_from_one_that_fails() {
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        sandbox.put("text", "no program");
        for (program, refusal) in [
            ("no-such-program-anywhere", Refusal::ProgramNotFound),
            ("./none", Refusal::ProgramNotFound),
            ("./text", Refusal::ProgramUnusable),
        ] {
            match sandbox.run(&[program]).report.exit {
                Exit::NotStarted(why) => assert_eq!(why.refusal, refusal, "{level}: {why:?}"),
                exit @ (Exit::Code(_) | Exit::Signal(_)) => panic!("{level}: {program}: {exit:?}"),
            }
        }
    }
}

#[test]
fn the_loopback_is_the_commands_own_and_a_way_out_is_noticed() {
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        if machine.in_force().missing().contains(&Missing::NetworkNamespace) {
            continue;
        }
        let server = "import socket,threading\ns=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(1)\n\
                      threading.Thread(target=lambda: s.accept()[0].send(b'x')).start()\n\
                      c=socket.create_connection(s.getsockname()); assert c.recv(1)==b'x'";
        let ran = sandbox.python(server);
        assert!(ran.succeeded(), "{level}: {ran:?}");
        assert_eq!(ran.report.network_refused, Some(false), "{level}");
        let out = "import socket\ns=socket.socket()\ns.settimeout(2)\ns.connect(('192.0.2.1',80))";
        let ran = sandbox.python(out);
        assert!(!ran.succeeded(), "{level}");
        assert_eq!(ran.report.network_refused, Some(true), "{level}: {ran:?}");
    }
}

#[test]
fn names_that_are_asked_for_are_known_and_answered_at_once() {
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        if machine.in_force().missing().contains(&Missing::NetworkNamespace) {
            continue;
        }
        let began = Instant::now();
        let asks = "import socket\nsocket.getaddrinfo('registry.example.org',443)";
        let ran = sandbox.python(asks);
        assert!(!ran.succeeded(), "{level}");
        let refused = &ran.report.hosts_refused;
        assert!(refused.iter().any(|name| name == "registry.example.org"), "{level}: {ran:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{level}: {:?}", began.elapsed());
    }
}

/// A server of the host that answers each connection with these bytes, and its port.
fn server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut asked = [0; 1024];
            if connection.read(&mut asked).unwrap() > 0 {
                connection.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    port
}

#[test]
fn a_port_of_the_hosts_loopback_is_reached_and_no_other_one() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        let (open, closed) = (server("from outside"), server("never"));
        sandbox.network = Network::HostLoopback(vec![open]);
        let ask = |port: u16| {
            format!(
                "import socket\nc=socket.create_connection(('127.0.0.1',{port}),5)\nc.sendall(b'x')\n\
                 print(c.recv(99).decode())"
            )
        };
        let ran = sandbox.python(&ask(open));
        if machine.in_force().missing().contains(&Missing::NetworkNamespace) {
            match ran.report.exit {
                Exit::NotStarted(why) => assert_eq!(why.refusal, Refusal::NetworkUnsupported),
                exit @ (Exit::Code(_) | Exit::Signal(_)) => panic!("{level}: {exit:?}"),
            }
            continue;
        }
        assert_eq!(ran.stdout, "from outside\n", "{level}: {ran:?}");
        assert!(!sandbox.python(&ask(closed)).succeeded(), "{level}");
        let out = "import socket\nsocket.create_connection(('192.0.2.1',80),5)";
        assert!(!sandbox.python(out).succeeded(), "{level}");
        // A command that ends with an open connection ends all the same.
        let left = format!("import socket\nc=socket.create_connection(('127.0.0.1',{open}),5)");
        assert!(sandbox.python(&left).succeeded(), "{level}");
    }
}

#[test]
fn a_proxy_leads_to_the_hosts_of_the_list_and_names_the_others() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
        let (listed, other) = (server(answer), server(answer));
        let host = |name: &str, port| AllowedHost { name: name.to_owned(), port: Some(port) };
        sandbox.network = Network::Hosts(vec![host("127.0.0.1", listed), host("localhost", other)]);
        let get = |place: String| {
            format!(
                "import os,urllib.request\nos.environ['no_proxy']=''\n\
                 assert os.environ['HTTPS_PROXY']==os.environ['all_proxy']\n\
                 print(urllib.request.urlopen('http://{place}/x',timeout=5).read().decode())"
            )
        };
        let ran = sandbox.python(&get(format!("127.0.0.1:{listed}")));
        if machine.in_force().missing().contains(&Missing::NetworkNamespace) {
            assert!(matches!(ran.report.exit, Exit::NotStarted(_)), "{level}: {ran:?}");
            continue;
        }
        assert_eq!(ran.stdout, "ok\n", "{level}: {ran:?}");
        assert_eq!(ran.report.hosts_refused, [""; 0], "{level}");
        let tunnel = format!(
            "import socket\nc=socket.create_connection(('127.0.0.1',{PROXY_PORT}),5)\n\
             c.sendall(b'CONNECT 127.0.0.1:{listed} HTTP/1.1\\r\\n\\r\\n')\n\
             assert b' 200 ' in c.recv(999)\nc.sendall(b'x')\nassert b'200 OK' in c.recv(999)"
        );
        assert!(sandbox.python(&tunnel).succeeded(), "{level}");
        for (place, refused) in [
            (format!("127.0.0.1:{other}"), format!("127.0.0.1:{other}")),
            // The name is listed, and its address is private and is not.
            (format!("localhost:{other}"), format!("localhost:{other}")),
            ("169.254.169.254".to_owned(), "169.254.169.254:80".to_owned()),
        ] {
            let ran = sandbox.python(&get(place));
            assert!(!ran.succeeded(), "{level}: {refused}");
            assert!(ran.stderr.contains("403"), "{level}: {ran:?}");
            assert_eq!(ran.report.hosts_refused, [refused], "{level}");
        }
        let direct = "import socket\nsocket.create_connection(('192.0.2.1',80),5)";
        assert!(!sandbox.python(direct).succeeded(), "{level}");
    }
}

#[test]
fn a_policy_that_accepts_the_network_gives_it() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        sandbox.network = Network::All;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("import socket\nsocket.create_connection(('127.0.0.1',{port}),5)");
        let ran = sandbox.python(&script);
        assert!(ran.succeeded(), "{level}: {ran:?}");
    }
}

#[test]
fn processes_are_bounded() {
    for (level, machine) in levels() {
        if machine.in_force().missing().contains(&Missing::ProcessLimit) {
            continue;
        }
        let mut sandbox = Sandbox::new(&machine);
        sandbox.limits.processes = 64;
        let script = "i=0; while [ $i -lt 200 ]; do sleep 30 & i=$((i+1)); done; \
                      n=0; for p in $(jobs -p); do kill -0 $p && n=$((n+1)); done; echo $n > n; exit 0";
        let ran = sandbox.sh(script);
        let started: u32 = sandbox.read("n").trim().parse().unwrap_or(0);
        assert!(started < 100, "{level}: {started} processes: {:?}", ran.report);
        let bomb = "b() { b | b & }; b; sleep 1; exit 0";
        let ran = sandbox.run(&["bash", "-c", bomb]);
        assert!(!matches!(ran.report.exit, Exit::NotStarted(_)), "{level}: {:?}", ran.report);
        // The kernel takes killed processes out of its list a moment later on a busy machine.
        eventually(level, || !runs_with(bomb));
    }
}

#[test]
fn memory_is_bounded() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        sandbox.limits.memory_bytes = 128 << 20;
        let ran = sandbox.python("b=bytearray(512<<20)\nprint(len(b))");
        assert!(!ran.succeeded(), "{level}: {ran:?}");
        if machine.in_force().missing().contains(&Missing::MemoryLimit) {
            continue;
        }
        let refused = ran.stderr.contains("MemoryError");
        assert!(ran.report.limit == Some(LimitHit::Memory) || refused, "{level}: {ran:?}");
        let has_segments = !machine.in_force().missing().contains(&Missing::IpcNamespace);
        for (what, script) in TOO_MUCH {
            if script.contains("shmget") && !has_segments {
                continue;
            }
            let ran = sandbox.python(&format!("{ALLOCATES}{script}\ntime.sleep(60)"));
            assert_eq!(ran.report.limit, Some(LimitHit::Memory), "{level}: {what}: {ran:?}");
        }
        if !machine.in_force().missing().contains(&Missing::MountNamespace) {
            let script = "for p in '/tmp/f','/dev/shm/f':\n  f=open(p,'wb',0)\n  \
                          for _ in range(100): f.write(take(1))\ntime.sleep(60)";
            let ran = sandbox.python(&format!("{ALLOCATES}{script}"));
            assert_eq!(ran.report.limit, Some(LimitHit::Memory), "{level}: {ran:?}");
        }
        let shares = "b=take(60)\nfor _ in range(2): os.fork()\ntime.sleep(0.5)";
        let ran = sandbox.python(&format!("{ALLOCATES}{shares}"));
        assert!(ran.succeeded(), "{level}: what is shared counts once: {ran:?}");
    }
}

/// For scripts about memory, in MiB.
const ALLOCATES: &str = "import ctypes,os,threading,time\nc=ctypes.CDLL(None)\n\
                         take=lambda n: bytearray(n<<20)\n";

/// More than 128 MiB, of which no process has so much for itself.
const TOO_MUCH: [(&str, &str); 6] = [
    ("several processes", "for _ in range(3): os.fork()\nb=take(40)"),
    ("processes that no other one may look into", "c.prctl(4,0)\nos.fork()\nb=take(80)"),
    (
        "processes whose first thread has ended",
        "os.fork()\ndef f():\n  b=take(80)\n  time.sleep(2)\n\
         threading.Thread(target=f).start()\nc.pthread_exit(None)",
    ),
    (
        "files without a name",
        "for i in range(4):\n  f=os.memfd_create('m')\n  for _ in range(50): os.write(f,take(1))",
    ),
    (
        "segments that no process has mapped",
        "c.shmat.restype=ctypes.c_void_p\nfor _ in range(4):\n  s=c.shmget(0,50<<20,0o1600)\n  \
         p=ctypes.c_void_p(c.shmat(s,None,0))\n  c.memset(p,1,50<<20)\n  c.shmdt(p)",
    ),
    (
        "memory that processes share",
        "import mmap\nall=[mmap.mmap(-1,50<<20) for _ in range(4)]\n[m.write(take(50)) for m in all]\nos.fork()",
    ),
];

#[test]
fn the_temporary_folder_and_processor_time_are_bounded() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        sandbox.limits.cpu_s = 1;
        let ran = sandbox.sh("while :; do :; done");
        assert_eq!(ran.report.limit, Some(LimitHit::Cpu), "{level}: {ran:?}");
        if machine.in_force().missing().contains(&Missing::MountNamespace) {
            continue;
        }
        sandbox.limits.tmp_bytes = 1 << 20;
        for folder in ["/tmp", "/dev/shm", "/var/tmp"] {
            let ran = sandbox.sh(&format!("head -c 4000000 /dev/zero > {folder}/f"));
            assert!(!ran.succeeded(), "{level}: {folder}: {ran:?}");
        }
    }
}

#[test]
fn what_package_managers_know_is_shown() {
    let status = "/var/lib/dpkg/status";
    if !std::path::Path::new(status).exists() {
        println!("skipped: this machine has no dpkg");
        return;
    }
    for (level, machine) in levels() {
        let sandbox = Sandbox::with_home(&machine);
        assert!(sandbox.sh("grep -q specs ~/.gem/specs/x").succeeded(), "{level}");
        let ran =
            sandbox.sh("dpkg-query -W dpkg && ! touch /var/lib/dpkg/surety && ls -d /var/tmp");
        assert!(ran.succeeded(), "{level}: {ran:?}");
        assert!(!std::path::Path::new("/var/lib/dpkg/surety").exists(), "{level}");
    }
}

#[test]
fn what_lies_outside_a_write_scope_is_read_only() {
    for (level, machine) in levels() {
        if machine.in_force().missing().contains(&Missing::MountNamespace) {
            continue;
        }
        let mut sandbox = Sandbox::new(&machine);
        sandbox.put("src/a", "a\n");
        sandbox.put("docs/a", "a\n");
        sandbox.protected = vec![PathBuf::from("src")];
        let ran = sandbox.sh("echo b > docs/a; mkdir target; echo t > target/t; echo b > src/a");
        assert!(!ran.succeeded(), "{level}: {ran:?}");
        let texts = ["src/a", "docs/a", "target/t"].map(|path| sandbox.read(path));
        assert_eq!(texts, ["a\n", "b\n", "t\n"], "{level}");
    }
}

#[test]
fn a_command_cannot_tell_views_apart_by_their_folders() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        if !machine.makes_views() {
            continue;
        }
        let mut seen_as = |folder: &str| {
            let upper = sandbox.root.join("data").join(folder);
            fs::create_dir_all(&upper).unwrap();
            sandbox.view = Some(View { upper: Some(upper), ..View::default() });
            // Without the numbers of the mount and of its device, which each mount has of its own.
            let ran = sandbox.sh("grep ' - overlay ' /proc/self/mountinfo | cut -d ' ' -f 4-");
            assert!(ran.stdout.contains("upperdir="), "{level}: {ran:?}");
            ran.stdout
        };
        assert_eq!(seen_as("user,a"), seen_as("single\\b"), "{level}");
    }
}

#[test]
fn a_copy_stands_in_the_place_of_the_workspace_where_mounts_are_the_command_s_own() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        sandbox.put("a", "of the workspace\n");
        let copy = sandbox.root.join("data/copy");
        fs::create_dir_all(&copy).unwrap();
        fs::write(copy.join("a"), "of the copy\n").unwrap();
        sandbox.view = Some(View { copy: Some(copy.clone()), ..View::default() });
        let path = sandbox.workspace.display().to_string();
        let ran = sandbox.sh(&format!("cat a {path}/a && pwd && echo w > {path}/b"));
        if !machine.mounts_copies() {
            let Exit::NotStarted(why) = ran.report.exit else { panic!("{level}: {ran:?}") };
            assert_eq!(why.refusal, Refusal::ViewUnsupported, "{level}");
            continue;
        }
        assert_eq!(ran.stdout, format!("of the copy\nof the copy\n{path}\n"), "{level}: {ran:?}");
        assert_eq!(fs::read_to_string(copy.join("b")).unwrap(), "w\n", "{level}");
        assert_eq!(sandbox.read("b"), "", "{level}: nothing is written to the workspace");
    }
}

#[test]
fn a_view_shows_changes_that_the_workspace_does_not_get() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        for path in ["kept", "changed", "tests/removed", "folder/removed"] {
            sandbox.put(path, "of the workspace\n");
        }
        let original = sandbox.root.join("original");
        fs::write(&original, "original\n").unwrap();
        let closed = sandbox.root.join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o510)).unwrap();
        let upper = sandbox.root.join("data/upper");
        fs::create_dir_all(&upper).unwrap();
        sandbox.view = Some(View {
            copy: None,
            upper: Some(upper),
            below: Vec::new(),
            replace: vec![
                ("changed".into(), original.clone()),
                ("closed".into(), closed),
                ("new/deep/file".into(), original),
            ],
            remove: vec!["tests/removed".into(), "folder".into(), "never-there".into()],
            times: vec![("kept".into(), 7_000_000_001), ("lost".into(), 1)],
        });
        let script = "cat kept changed new/deep/file; ls tests folder; stat -c %a closed; \
                      stat -c %Y kept; pwd; echo w > written";
        let ran = sandbox.sh(script);
        if !machine.makes_views() {
            let Exit::NotStarted(why) = ran.report.exit else { panic!("{level}: {ran:?}") };
            assert_eq!(why.refusal, Refusal::ViewUnsupported, "{level}");
            continue;
        }
        let pwd = sandbox.workspace.display();
        let given = format!("510\n7\n{pwd}\n");
        let expected = format!("of the workspace\noriginal\noriginal\ntests:\n{given}");
        assert_eq!(ran.stdout, expected, "{level}: {ran:?}");
        assert_eq!(sandbox.read("changed"), "of the workspace\n", "{level}");
        assert_eq!(sandbox.read("written"), "", "{level}: a write stays in the view");
        assert!(sandbox.workspace.join("folder/removed").exists(), "{level}");
        let ran = sandbox.sh("cat written");
        assert_eq!(ran.stdout, "w\n", "{level}: the view keeps it: {ran:?}");
        sandbox.view = Some(View::default());
        let ran = sandbox.sh("cat changed; echo gone > written");
        assert_eq!(ran.stdout, "of the workspace\n", "{level}");
        assert_eq!(sandbox.read("written"), "", "{level}");
    }
}

#[test]
fn a_workspace_of_another_account_is_worked_on_by_that_account() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: it needs root");
        return;
    }
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        sandbox.put("f", "text\n");
        sandbox.give_to(12345);
        let ran = sandbox.sh("id -u; cat f && echo new > f && touch made && touch \"$HOME/h\"");
        assert!(ran.succeeded(), "{level}: {ran:?}");
        assert_eq!(ran.stdout, "12345\ntext\n", "{level}");
        let made = fs::metadata(sandbox.workspace.join("made")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), 12345, "{level}");
        let ran = sandbox
            .sh("cat /etc/shadow || touch /etc/surety-escape || mount -t tmpfs n . || kill -0 1");
        assert!(!ran.succeeded() || !ran.stdout.contains("root:"), "{level}: {ran:?}");
    }
}

#[test]
fn everything_ends_when_the_service_is_gone() {
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        let marker = format!("97{}.{}", std::process::id(), level.len());
        let script = format!("setsid sleep {marker} & echo up > up; sleep {marker}");
        let spec = sandbox.spec(&["sh", "-c", &script]);
        let Launch { mut command, mut control, spec } = prepare(&spec).unwrap();
        let mut helper = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        drop(command);
        std::io::Write::write_all(&mut control, &spec).unwrap();
        eventually(level, || sandbox.read("up") == "up\n" && runs_with(&marker));
        drop(control);
        helper.wait().unwrap();
        assert!(!runs_with(&marker), "{level}");
    }
}

#[test]
fn a_level_that_is_missing_is_an_error_with_its_reason() {
    let scratch = std::env::temp_dir();
    assert_eq!(machine(Wanted::None, &scratch).unwrap().in_force(), &InForce::None);
    match machine(Wanted::Full, &scratch) {
        Ok(full) => assert_eq!(full.in_force(), &InForce::Full),
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("`full`") && said.contains("SURETY_SANDBOX"), "{said}");
        }
    }
}

/// Waits until something holds; a deadline says when it never will.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
