//! The parser of a service, which reads files that a run can write.

use crate::support::{Sandbox, levels};
use std::fs;
use std::os::unix::fs::symlink;
use surety_sandbox::{Exit, LimitHit, Limits};

fn request(files: &[&str]) -> String {
    let files: Vec<String> = files.iter().map(|file| format!("\"{file}\"")).collect();
    format!(
        r#"{{"name":"find","container":null,"role":null,"limit":10,"files":[{}],"time_ms":60000}}"#,
        files.join(",")
    )
}

#[test]
fn a_parser_reads_the_workspace_and_nothing_beside_it() {
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        sandbox.put("a.rs", "fn find() {}\n");
        fs::write(sandbox.root.join("sister/b.rs"), "fn find() {} // sister-secret\n").unwrap();
        symlink("../sister/b.rs", sandbox.workspace.join("out.rs")).unwrap();
        let outside = sandbox.root.join("sister/b.rs");
        let files = ["a.rs", "out.rs", "../sister/b.rs", outside.to_str().unwrap()];
        let mut spec = sandbox.spec(&[]);
        spec.parser_input = Some(request(&files));
        spec.tree.writable.clear();
        spec.limits = Limits { processes: 16, file_bytes: 1 << 20, ..spec.limits };
        let ran = sandbox.run_spec(&spec);
        assert!(ran.succeeded(), "{level}: {ran:?}");
        assert_eq!(ran.stdout.matches(r#""event":"symbol""#).count(), 1, "{level}: {ran:?}");
        assert_eq!(ran.stdout.matches(r#""reason":"outside_workspace""#).count(), 3, "{level}");
        assert!(!ran.stdout.contains("sister-secret"), "{level}");
    }
}

#[test]
fn a_parser_ends_at_its_limit_of_memory() {
    for (level, machine) in levels() {
        let sandbox = Sandbox::new(&machine);
        sandbox.put("a.js", format!("find({}", "[".repeat(2 << 20)));
        let mut spec = sandbox.spec(&[]);
        spec.parser_input = Some(request(&["a.js"]));
        spec.limits = Limits { memory_bytes: 48 << 20, ..spec.limits };
        let ran = sandbox.run_spec(&spec);
        let ended = ran.report.limit == Some(LimitHit::Memory) || ran.report.exit != Exit::Code(0);
        assert!(ended, "{level}: {ran:?}");
        assert!(ran.stdout.starts_with(r#"{"event":"began","path":"a.js"}"#), "{level}: {ran:?}");
    }
}
