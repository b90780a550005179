//! What a command may write to disk, and that nothing of it stays.

use crate::support::{Sandbox, levels};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use surety_sandbox::LimitHit;

#[test]
fn files_and_the_disk_are_bounded() {
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::new(&machine);
        sandbox.limits.file_bytes = 1 << 20;
        let ran = sandbox.run(&["dd", "if=/dev/zero", "of=f", "bs=64k", "count=64"]);
        assert_eq!(ran.report.limit, Some(LimitHit::FileSize), "{level}: {ran:?}");
        assert!(fs::metadata(sandbox.workspace.join("f")).unwrap().len() <= 1 << 20, "{level}");

        let mut sandbox = Sandbox::new(&machine);
        sandbox.limits.disk_bytes = 64 << 20;
        let flood = "i=0; while [ $i -lt 400 ]; do dd if=/dev/zero of=f$i bs=1M count=4 conv=fsync \
                     2> /dev/null; i=$((i+1)); sleep 0.05; done";
        assert_eq!(sandbox.sh(flood).report.limit, Some(LimitHit::Disk), "{level}");

        let mut sandbox = Sandbox::new(&machine);
        sandbox.limits.disk_files = 500;
        let many = "import time\nfor i in range(100000):\n  open('f%d'%i,'w').close()\n  time.sleep(0.001)";
        assert_eq!(sandbox.python(many).report.limit, Some(LimitHit::DiskFiles), "{level}");
    }
}

/// Writes 400 MiB where a walk by path over the workspace does not find it.
const OUT_OF_SIGHT: [(&str, &str); 4] = [
    ("files without a name", "f=open('f','wb',0); os.unlink('f')"),
    (
        "files without a name that a process closed to others has",
        "f=open('f','wb',0); os.unlink('f'); ctypes.CDLL(None).prctl(4,0)",
    ),
    (
        "a path that is longer than any call takes",
        "for i in range(30): n='d'*200; os.mkdir(n); os.chdir(n)\nf=open('f','wb',0)",
    ),
    ("a closed folder", "os.mkdir('d'); f=open('d/f','wb',0); os.chmod('d',0)"),
];

#[test]
fn what_is_written_out_of_sight_counts_too() {
    for (level, machine) in levels() {
        for (what, script) in OUT_OF_SIGHT {
            let mut sandbox = Sandbox::new(&machine);
            sandbox.limits.disk_bytes = 64 << 20;
            let writes = "b=os.urandom(1<<20)\nfor _ in range(400): f.write(b); time.sleep(0.02)";
            let ran = sandbox.python(&format!("import ctypes,os,time\n{script}\n{writes}"));
            assert_eq!(ran.report.limit, Some(LimitHit::Disk), "{level}: {what}: {ran:?}");
            let closed = sandbox.workspace.join("d");
            fs::set_permissions(closed, Permissions::from_mode(0o700)).ok();
        }
    }
}

#[test]
fn what_a_command_leaves_behind_is_removed_however_deep_and_closed_it_is() {
    let script = "import os,sys\n\
                  for top in os.environ['TOPS'].split(':'):\n  \
                  try: os.chdir(top)\n  \
                  except OSError: continue\n  \
                  os.makedirs('closed/below')\n  os.chmod('closed/below',0)\n  os.chmod('closed',0o500)\n  \
                  for _ in range(3000): os.mkdir('d'); os.chdir('d')";
    for (level, machine) in levels() {
        let mut sandbox = Sandbox::with_home(&machine);
        let tops = match machine.makes_views() {
            true => sandbox.root.join("home/.cargo/registry").display().to_string(),
            false => "tmp".to_owned(),
        };
        sandbox.set("TOPS", &tops);
        let ran = match machine.makes_views() {
            true => sandbox.python(script),
            false => sandbox.sh(&format!("cd \"$TMPDIR\" && mkdir tmp && python3 -c \"{script}\"")),
        };
        assert!(ran.succeeded(), "{level}: {ran:?}");
        let scratch = sandbox.root.join("data/scratch");
        assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "{level}");
    }
}
