//! Files outside the workspace.

use super::{expect_refused, python, sh};
use crate::support::{Sandbox, levels};
use surety_sandbox::Missing;

#[test]
fn the_services_own_files_are_not_reached() {
    expect_refused(&[
        sh("read the token file", "grep -q token-secret @DATA@/token && echo ESCAPED"),
        sh("list the data folder", "ls @DATA@ | grep -q token && echo ESCAPED"),
        sh("write into the data folder", "echo x > @DATA@/new && cp @DATA@/new @ROOT@/trace")
            .uncontrolled(),
        sh(
            "symlink to the token file",
            "ln -s @DATA@/token l && grep -q token-secret l && echo ESCAPED",
        ),
        sh(
            "hard link to the token file",
            "ln @DATA@/token l && grep -q token-secret l && echo ESCAPED",
        ),
        sh("the token by a relative path", "grep -q token-secret ../data/token && echo ESCAPED"),
        sh(
            "the token by /proc/self/root",
            "grep -q token-secret /proc/self/root@DATA@/token && echo ESCAPED",
        ),
        sh(
            "the token by /proc/self/cwd",
            "grep -q token-secret /proc/self/cwd/../data/token && echo ESCAPED",
        ),
        sh(
            "the token by /proc/1/root",
            "grep -q token-secret /proc/1/root@DATA@/token && echo ESCAPED",
        )
        .uncontrolled(),
        python(
            "the token by openat2 and a folder's descriptor",
            "import os\nd=os.open('..',os.O_RDONLY)\nf=os.open('data/token',os.O_RDONLY,dir_fd=d)\nprint('ESCAPED' if b'secret' in os.read(f,99) else '')",
        ),
    ]);
}

#[test]
fn files_of_the_person_and_of_other_runs_are_not_reached() {
    expect_refused(&[
        sh("read another workspace", "grep -q secret @ROOT@/sister/secret && echo ESCAPED"),
        sh(
            "write into another workspace",
            "echo x > @ROOT@/sister/new && ls @ROOT@/sister/secret && cp @ROOT@/sister/new @ROOT@/trace",
        ),
        sh("read beside the workspace", "grep -q secret ../beside && echo ESCAPED"),
        sh("write beside the workspace", "echo x > ../trace"),
        sh("write beside it by a link", "ln -s @ROOT@/trace l; echo x > l"),
        sh("move the workspace's file out", "echo x > f; mv f ../trace"),
        sh("read a private key", "grep -q key-secret ~/.ssh/id_ed25519 && echo ESCAPED"),
        sh("read npm's token", "grep -q npm-secret ~/.npmrc && echo ESCAPED"),
        sh("read cargo's token", "grep -q cargo-secret ~/.cargo/credentials.toml && echo ESCAPED"),
        sh("read RubyGems' token", "grep -q gem-secret ~/.gem/credentials && echo ESCAPED"),
        sh(
            "read a token among models",
            "cat ~/.cache/huggingface/* | grep -q hub-secret && echo ESCAPED",
        ),
        sh(
            "read a token of git's configuration",
            "git config --global http.extraheader | grep -q git-secret && echo ESCAPED",
        ),
        sh(
            "change the shell's start file",
            "echo evil >> @ROOT@/home/.bashrc; cp @ROOT@/home/.bashrc @ROOT@/trace",
        ),
        sh(
            "change a toolchain",
            "echo evil > @ROOT@/home/.cargo/bin/tool && cp @ROOT@/home/.cargo/bin/tool @ROOT@/trace",
        ),
        sh(
            "poison a cache",
            "echo evil > @ROOT@/home/.cargo/registry/index && cp @ROOT@/home/.cargo/registry/index @ROOT@/trace",
        ),
    ]);
}

#[test]
fn the_machines_files_are_not_reached() {
    expect_refused(&[
        sh("read /etc/shadow", "[ -n \"$(cat /etc/shadow)\" ] && echo ESCAPED").for_root(),
        sh("open /etc/shadow", "head -c 0 /etc/shadow && echo ESCAPED").for_root(),
        sh("hard link to /etc/shadow", "ln /etc/shadow s && [ -n \"$(cat s)\" ] && echo ESCAPED").uncontrolled(),
        sh("write into /etc", "touch /etc/surety-escape && echo ESCAPED; rm -f /etc/surety-escape").for_root(),
        sh("write into /usr/bin", "touch /usr/bin/surety-escape && echo ESCAPED; rm -f /usr/bin/surety-escape").for_root(),
        sh("read the host's /tmp", "ls /tmp | grep -q . && [ \"$(ls /tmp | wc -l)\" -gt 1 ] && echo ESCAPED").uncontrolled(),
        sh("leave a file in the host's /tmp", "n=surety-$$; touch /tmp/$n && ln /tmp/$n @ROOT@/trace").uncontrolled(),
        sh("read the machine's memory or log", "for d in /dev/mem /dev/kmsg /dev/port; do head -c 1 $d > /dev/null 2>&1 && echo ESCAPED; done").uncontrolled(),
        sh("read a disk", "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/xvda; do [ -b $d ] && head -c 1 $d > /dev/null && echo ESCAPED; done").uncontrolled(),
        sh("make a device", "mknod d b 254 0 && head -c 1 d && echo ESCAPED").uncontrolled(),
        sh("set a kernel parameter", "f=/proc/sys/kernel/printk_ratelimit; v=$(cat $f) && echo $v > $f && echo ESCAPED").for_root(),
        sh("set the program for core dumps", "f=/proc/sys/kernel/core_pattern; v=$(cat $f) && printf '%s' \"$v\" > $f && echo ESCAPED").for_root(),
        sh("press the system request key", "echo h > /proc/sysrq-trigger && echo ESCAPED").uncontrolled(),
        sh("leave its control group", "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do echo $$ > $f && echo ESCAPED; done").uncontrolled(),
        sh("write below /sys", "for f in /sys/kernel/mm/ksm/run /sys/power/pm_async /sys/kernel/profiling; do [ -e $f ] && v=$(cat $f) && echo $v > $f && echo ESCAPED; done").uncontrolled(),
        sh("a file of the host's /dev/shm", "echo x > /dev/shm/surety-$$ && ln /dev/shm/surety-$$ /dev/shm/x && [ \"$(ls /dev/shm | wc -l)\" -gt 2 ] && echo ESCAPED").uncontrolled(),
        sh("a FIFO in the host's /tmp", "mkfifo @ROOT@/trace"),
    ]);
}

#[test]
fn attributes_of_the_machines_devices_are_not_changed() {
    // The mode and the times that they have: nothing is changed where it succeeds.
    let paths = "import os\nfor p in '/dev/null','/dev/full','/dev/urandom','/proc/kcore','/proc/keys','/proc/key-users':\n  if not os.path.exists(p): continue\n  s=os.stat(p)\n";
    let change = |call: &str| {
        format!("{paths}  try: {call}; print('ESCAPED',p)\n  except OSError as e: print(e)")
    };
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        if machine.in_force().missing().contains(&Missing::FileAttributes) {
            println!("{level}: attributes are not guarded");
            continue;
        }
        for call in ["os.chmod(p,s.st_mode&0o7777)", "os.utime(p,ns=(s.st_atime_ns,s.st_mtime_ns))"]
        {
            let ran = sandbox.python(&change(call));
            assert!(ran.succeeded() && !ran.stdout.contains("ESCAPED"), "{level}: {call}: {ran:?}");
        }
        let ran =
            sandbox.sh("echo x > /dev/null && head -c 9 /dev/zero | wc -c && ! echo x > /dev/full");
        assert!(ran.succeeded() && ran.stdout.trim() == "9", "{level}: they still work: {ran:?}");
    }
}

/// Each makes a file `s` with a bit that starts it under the account, or group, of its owner.
const SETS_ID: [(&str, &str); 11] = [
    ("chmod", "w();os.chmod('s',0o4755)"),
    ("fchmod", "os.fchmod(w().fileno(),0o6711)"),
    ("fchmodat", "w();os.chmod('s',0o4755,dir_fd=os.open('.',0))"),
    ("fchmodat2", "w();c.syscall(452,-100,b's',0o4755,0)"),
    ("the shell's chmod", "w();os.system('chmod u+s s')"),
    ("open", "os.open('s',os.O_CREAT|os.O_WRONLY,0o4755)"),
    ("open for a group", "os.open('s',os.O_CREAT|os.O_WRONLY,0o2755)"),
    ("the older open", "c.syscall(2,b's',0o101,0o4755)"),
    ("creat", "c.creat(b's',0o4755)"),
    ("mknod", "os.mknod('s',0o104755)"),
    (
        "openat2",
        "h=struct.pack('QQQ',os.O_CREAT|os.O_WRONLY,0o4755,0);c.syscall(437,-100,b's',h,len(h))",
    ),
];

#[test]
fn no_file_with_a_set_id_bit_is_left() {
    for (level, machine) in levels() {
        for (name, call) in SETS_ID {
            let sandbox = Sandbox::new(&machine);
            let script = format!(
                "import ctypes,os,struct\nc=ctypes.CDLL(None)\nos.umask(0)\nw=lambda: open('s','w')\n\
                 try: {call}\nexcept PermissionError as e: print(e)"
            );
            let ran = sandbox.python(&script);
            assert!(ran.succeeded(), "{level}: {name}: {ran:?}");
            let found = std::fs::metadata(sandbox.workspace.join("s"));
            let mode = found.map_or(0, |found| std::os::unix::fs::MetadataExt::mode(&found));
            assert_eq!(mode & 0o6000, 0, "{level}: {name} left a file of mode {mode:o}");
        }
    }
}

#[test]
fn folders_may_pass_their_group_on_and_files_are_made_with_common_modes() {
    let script = "mkdir d && chmod 2775 d && [ -g d ] && git init -q --shared repo && [ -g repo/.git ] && \
                  printf 'x' > f && chmod 755 f && cp -p f g && install -m 644 f d/f && \
                  tar -cf a.tar f d && mkdir t && tar -xf a.tar -C t && [ -x t/f ] && chmod +t d";
    for (level, machine) in levels() {
        let ran = Sandbox::new(&machine).sh(script);
        assert!(ran.succeeded(), "{level}: {ran:?}");
    }
}

#[test]
fn what_starts_programs_starts_them_inside() {
    let hook = "git init -q . && printf '#!/bin/sh\\ngrep -q token-secret @DATA@/token && echo ESCAPED\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -m a 2>&1";
    let monitor = "git init -q . && printf '#!/bin/sh\\ngrep -q token-secret @DATA@/token && echo ESCAPED >&2\\n' > m && chmod +x m && git -c core.fsmonitor=./m status 2>&1";
    expect_refused(&[
        sh("a git hook", hook),
        sh("git's fsmonitor", monitor),
        sh("a package manager's script", "command -v npm > /dev/null || exit 0; echo '{\"name\":\"a\",\"scripts\":{\"t\":\"grep -q token-secret @DATA@/token && echo ESCAPED\"}}' > package.json; npm run -s t").uncontrolled(),
        sh("a program named like a tool", "printf '#!/bin/sh\\necho ESCAPED\\n' > git; chmod +x git; git --version").uncontrolled(),
        python(
            "a program in memory",
            "import os\nf=os.memfd_create('x',0)\nos.write(f,b'#!/bin/sh\\ngrep -q token-secret @DATA@/token && echo ESCAPED\\n')\nos.set_inheritable(f,True)\nos.execv('/proc/self/fd/%d'%f,['x'])",
        ),
        sh("a preloaded library", "cat > e.c <<'C'\n#include <stdio.h>\n__attribute__((constructor)) static void f(void){FILE*t=fopen(\"@DATA@/token\",\"r\");if(t)puts(\"ESCAPED\");}\nC\ncommand -v cc > /dev/null || exit 0; cc -shared -fPIC -o e.so e.c && LD_PRELOAD=$PWD/e.so ls"),
        sh("a program with the setuid bit", "grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED"),
        sh("rights of root", "grep -q 'CapEff:.0000000000000000' /proc/self/status || echo ESCAPED").for_root(),
        sh("rights to be had by a program", "grep -q 'CapBnd:.0000000000000000' /proc/self/status || grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED"),
        sh("a core dump", "[ \"$(ulimit -c)\" = unlimited ] && echo ESCAPED; true").uncontrolled(),
    ]);
}

#[test]
fn other_processes_are_not_looked_into() {
    expect_refused(&[
        sh(
            "their environment",
            "for e in /proc/[0-9]*/environ; do grep -qa victim-secret $e && echo ESCAPED; done",
        ),
        sh(
            "their root",
            "for r in /proc/[0-9]*/root; do grep -q token-secret $r@DATA@/token && echo ESCAPED; done",
        ),
        sh(
            "their folder",
            "for r in /proc/[0-9]*/cwd; do grep -q token-secret $r/token && echo ESCAPED; done",
        ),
        sh(
            "their open files",
            "for f in /proc/[0-9]*/fd/0; do case $(readlink $f) in */token) grep -q token-secret $f && echo ESCAPED;; esac; done",
        ),
        python("their memory", "open('/proc/@PID@/mem','rb',0)\nprint('ESCAPED')"),
        python("their memory maps", "print('ESCAPED' if open('/proc/@PID@/maps').read() else '')"),
        sh(
            "their names",
            "for c in /proc/[0-9]*/cmdline; do grep -qa 'slee[p].1000' $c && echo ESCAPED; done",
        )
        .open_without(Missing::PidNamespace),
    ]);
}
