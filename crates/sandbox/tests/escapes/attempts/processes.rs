//! Other processes, and processes that outlive their call.

use super::{expect_refused, python, sh};
use crate::support::{Sandbox, levels, runs_with};
use surety_sandbox::{Exit, Missing};

/// For ctypes: the C library, and calls by number.
const C: &str = "import ctypes,os,struct\nc=ctypes.CDLL(None,use_errno=True)\n";

#[test]
fn other_processes_are_not_touched() {
    expect_refused(&[
        sh("a signal", "kill -CONT @PID@ && echo ESCAPED").open_without(Missing::LandlockScope),
        sh("a deadly signal", "kill -KILL @PID@ && echo ESCAPED").open_without(Missing::LandlockScope),
        sh("a signal to pid 1", "kill -CONT 1 && [ $$ -lt 3 ] && echo ESCAPED").uncontrolled(),
        python("ptrace", "import ctypes,os,signal\nc=ctypes.CDLL(None)\nr=c.ptrace(16,@PID@,0,0)\nprint('ESCAPED' if r==0 else '')\nc.ptrace(17,@PID@,0,0)"),
        python("ptrace of its supervisor", "import ctypes,os\nc=ctypes.CDLL(None)\nprint('ESCAPED' if c.ptrace(16,os.getppid(),0,0)==0 else '')").uncontrolled(),
        python("the memory of its supervisor", "import os\nopen('/proc/%d/mem'%os.getppid(),'rb',0)\nprint('ESCAPED')").uncontrolled(),
        python("the open files of its supervisor", "import os\nd='/proc/%d/fd/'%os.getppid()\nfor f in os.listdir(d): os.readlink(d+f) and print('ESCAPED')").uncontrolled(),
        python("a descriptor that was left open", "import os\nleft=[f for f in os.listdir('/proc/self/fd') if int(f)>2 and os.path.exists('/proc/self/fd/'+f)]\nprint('ESCAPED' if left else '')").uncontrolled(),
        python("a terminal to type into", "open('/dev/tty')\nprint('ESCAPED')").uncontrolled(),
        python("a higher priority", "import os\nos.nice(-5)\nprint('ESCAPED')").for_root(),
        python("a wider limit", "import resource as r\ns,h=r.getrlimit(r.RLIMIT_NOFILE)\nr.setrlimit(r.RLIMIT_NOFILE,(s,h+1))\nprint('ESCAPED')").uncontrolled(),
        sh("to be spared when memory ends", "echo -900 > /proc/self/oom_score_adj && echo ESCAPED").uncontrolled(),
        python("another process's limits", "import resource as r\nl=r.prlimit(@PID@,r.RLIMIT_CORE)\nr.prlimit(@PID@,r.RLIMIT_CORE,l)\nprint('ESCAPED')"),
        python("another process's priority", "import os\nos.setpriority(os.PRIO_PROCESS,@PID@,os.getpriority(os.PRIO_PROCESS,@PID@))\nprint('ESCAPED')"),
        python("another process's processors", "import os\nos.sched_setaffinity(@PID@,os.sched_getaffinity(@PID@))\nprint('ESCAPED')"),
        python("another process's scheduler", "import os\nos.sched_setscheduler(@PID@,os.sched_getscheduler(@PID@),os.sched_param(0))\nprint('ESCAPED')"),
        sh("another process's use of the disk", "command -v ionice > /dev/null || exit 0; ionice -c 2 -n 4 -p @PID@ && echo ESCAPED").uncontrolled(),
        sh("shared memory of others", "command -v ipcmk > /dev/null || exit 0; ipcs -m | grep -q 0x && echo ESCAPED").uncontrolled().open_without(Missing::IpcNamespace),
    ]);
}

#[test]
fn a_command_that_kills_what_it_can_ends_itself_alone() {
    for (level, machine) in levels() {
        // Where signals are not bounded this would end the tests.
        if machine.in_force().missing().contains(&Missing::PidNamespace) {
            continue;
        }
        let sandbox = Sandbox::new(&machine);
        let ran = sandbox.sh("kill -KILL -1; kill -KILL 1; kill -KILL $PPID; exit 7");
        assert_eq!(ran.report.exit, Exit::Code(7), "{level}: {ran:?}");
    }
}

#[test]
fn a_command_schedules_and_limits_itself() {
    let script = "import os,resource as r\n\
                  os.nice(1)\nos.setpriority(os.PRIO_PROCESS,0,2)\n\
                  os.sched_setaffinity(0,os.sched_getaffinity(0))\n\
                  r.setrlimit(r.RLIMIT_CORE,(0,0))\nr.prlimit(os.getpid(),r.RLIMIT_CORE)\n\
                  try: os.setpriority(os.PRIO_USER,0,3); print('account')\n\
                  except PermissionError: print('refused')";
    for (level, machine) in levels() {
        let ran = Sandbox::new(&machine).python(script);
        assert!(ran.succeeded(), "{level}: {ran:?}");
        let is_shared = machine.in_force().missing().contains(&Missing::PidNamespace);
        let expected = if is_shared { "refused\n" } else { "account\n" };
        assert_eq!(ran.stdout, expected, "{level}: {ran:?}");
    }
}

#[test]
fn shared_objects_do_not_outlive_their_call() {
    let script = "import ctypes\nc=ctypes.CDLL(None,use_errno=True)\n\
                  k=0x53000000+%d\nprint(c.shmget(k,4096,0o1600),c.semget(k,1,0o1600),c.msgget(k,0o1600))";
    let made = || {
        let files = ["shm", "sem", "msg"].map(|kind| format!("/proc/sysvipc/{kind}"));
        files.map(|file| std::fs::read_to_string(file).unwrap_or_default()).concat()
    };
    for (level, machine) in levels() {
        let key = 0x5300_0000 + std::process::id();
        let script = script.replace("%d", &std::process::id().to_string());
        let ran = Sandbox::new(&machine).python(&script);
        assert!(ran.succeeded(), "{level}: {ran:?}");
        assert!(!made().contains(&key.to_string()), "{level}: {}", made());
        if machine.in_force().missing().contains(&Missing::IpcNamespace) {
            assert_eq!(ran.stdout, "-1 -1 -1\n", "{level}");
        }
    }
}

#[test]
fn nothing_outlives_its_call() {
    for (level, machine) in levels() {
        for (name, script) in [
            ("a child in the background", "sleep @M@ &"),
            ("setsid", "setsid sleep @M@ &"),
            ("double fork", "(sleep @M@ &) &"),
            ("setsid and double fork", "setsid sh -c '(setsid sleep @M@ &) & exit' & wait"),
            ("nohup", "nohup sleep @M@ > /dev/null 2>&1 &"),
            ("a child deaf to signals", "(trap '' TERM HUP INT QUIT; exec sleep @M@) &"),
            ("an exit handler", "sh -c 'trap \"sleep @M@\" EXIT TERM; sleep @M@' &"),
            ("a stopped child", "sh -c 'kill -STOP $$; exec sleep @M@' x @M@ &"),
            (
                "a daemon that forks again and again",
                "sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep @M@ & done; wait' @M@ &",
            ),
            ("a coprocess that holds the output", "sh -c 'exec sleep @M@' &\necho out"),
        ] {
            let sandbox = Sandbox::new(&machine);
            let marker = format!("98{}.{}", std::process::id(), name.len() * 7 + level.len());
            let ran = sandbox.sh(&script.replace("@M@", &marker));
            assert!(ran.succeeded(), "{level}: {name}: {ran:?}");
            assert!(!runs_with(&marker), "{level}: {name} is still there");
            assert!(!ran.report.left.is_empty(), "{level}: {name} is not reported: {ran:?}");
        }
    }
}

#[test]
fn a_command_cannot_tell_its_own_end() {
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        // Whatever it writes to whatever it finds, the report is the helper's.
        let script = "import os\nfor f in range(3,64):\n  try: os.write(f,b'\\0\\0\\0\\2{}')\n  except OSError: pass\nos._exit(9)";
        let ran = sandbox.python(&format!("{C}{script}"));
        assert_eq!(ran.report.exit, Exit::Code(9), "{level}: {ran:?}");
    }
}
