//! Small projects are built and tested inside, offline, with the caches of the machine.

use crate::support::{Sandbox, levels};
use std::process::{Command, Stdio};
use surety_sandbox::Missing;

/// The lock file of this repository. cargo takes the versions from it, and drops what the project does not need.
const LOCKED: &str = include_str!("../../../../Cargo.lock");

/// A project of one ecosystem.
struct Project {
    name: &'static str,
    /// The program without which it is skipped, with an argument that only asks for its version.
    needs: [&'static str; 2],
    files: &'static [(&'static str, &'static str)],
    script: &'static str,
    /// Whether its tools talk to each other over the loopback.
    needs_loopback: bool,
}

const PROJECTS: [Project; 7] = [
    Project {
        name: "Rust",
        needs: ["cargo", "--version"],
        files: &[
            ("Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            (
                "src/lib.rs",
                "pub fn add(a: u8, b: u8) -> u8 { a + b }\n#[test]\nfn adds() { assert_eq!(add(1, 2), 3); }\n",
            ),
        ],
        script: "cargo test --offline && cargo build --offline",
        needs_loopback: false,
    },
    // Its dependency lies in the cache of cargo, because this repository has it as well.
    Project {
        name: "Rust with a dependency",
        needs: ["cargo", "--version"],
        files: &[
            (
                "Cargo.toml",
                "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n",
            ),
            ("Cargo.lock", LOCKED),
            (
                "src/lib.rs",
                "#[test]\nfn shows() { assert_eq!(itoa::Buffer::new().format(7), \"7\"); }\n",
            ),
        ],
        script: "cargo test --offline && cargo build --offline",
        needs_loopback: false,
    },
    Project {
        name: "Python",
        needs: ["python3", "--version"],
        files: &[
            ("add.py", "def add(a, b):\n    return a + b\n"),
            (
                "test_add.py",
                "import unittest, tempfile, multiprocessing\nfrom add import add\nclass T(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1, 2), 3)\n    def test_tmp(self):\n        with tempfile.TemporaryFile() as f: f.write(b'x')\n",
            ),
        ],
        script: "python3 -m unittest && python3 -m compileall -q .",
        needs_loopback: false,
    },
    Project {
        name: "Node",
        needs: ["npm", "--version"],
        files: &[
            (
                "package.json",
                "{\"name\":\"p\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node test.js\"}}",
            ),
            (
                "test.js",
                "const a = require('assert'); const { spawnSync } = require('child_process'); a.strictEqual(1 + 2, 3); a.strictEqual(spawnSync('true').status, 0); require('fs').writeFileSync('out', 'x');\n",
            ),
        ],
        script: "npm test && npm install --offline --no-audit",
        needs_loopback: false,
    },
    Project {
        name: "C",
        needs: ["cc", "--version"],
        files: &[
            ("Makefile", "test: add\n\t./add\nadd: add.c\n\t$(CC) -o $@ $<\n"),
            ("add.c", "#include <assert.h>\nint main(void) { assert(1 + 2 == 3); return 0; }\n"),
        ],
        script: "make test CC=cc",
        needs_loopback: false,
    },
    Project {
        name: "Go",
        needs: ["go", "version"],
        files: &[
            ("go.mod", "module p\n\ngo 1.20\n"),
            ("add.go", "package p\n\nfunc add(a, b int) int { return a + b }\n"),
            (
                "add_test.go",
                "package p\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
            ),
        ],
        script: "go test ./... && go build ./...",
        needs_loopback: false,
    },
    Project {
        name: "Java",
        needs: ["javac", "-version"],
        files: &[(
            "T.java",
            "import java.net.*;\npublic class T { public static void main(String[] a) throws Exception { if (1 + 2 != 3) System.exit(1); ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress()); new Socket(s.getInetAddress(), s.getLocalPort()).close(); } }\n",
        )],
        script: "javac T.java && java T",
        needs_loopback: true,
    },
];

#[test]
fn projects_are_built_and_tested_offline() {
    let mut wrong = Vec::new();
    for (level, machine) in levels() {
        for project in &PROJECTS {
            let [program, argument] = project.needs;
            let asked = Command::new(program)
                .arg(argument)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if !asked.is_ok_and(|status| status.success()) {
                println!("skipped: {} is not here", project.name);
                continue;
            }
            let no_loopback = machine.in_force().missing().contains(&Missing::NetworkNamespace);
            if project.needs_loopback && no_loopback {
                println!("{level}: {} needs a loopback, which this level lacks", project.name);
                continue;
            }
            let sandbox = Sandbox::new(&machine);
            project.files.iter().for_each(|(path, text)| sandbox.put(path, text));
            let ran = sandbox.sh(project.script);
            if !ran.succeeded() {
                wrong.push(format!("{level}: {}: {ran:?}", project.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
