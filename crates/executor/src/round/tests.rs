//! Rounds on real folders, with real commands in the sandbox.

mod left;
mod prepare;
mod repository;
mod start;

use super::*;
use crate::snapshot::Snapshots;
use crate::tool::Workspace;
use std::fs::{self, FileTimes};
use std::path::PathBuf;
use surety_common::config::SandboxConfig;
use surety_common::domain::check::FileType;
use surety_common::domain::check_inputs::{CheckRun, Failure, rule};
use surety_common::domain::json;
use surety_common::domain::receipt::{EvidenceReceipt, Fact, read_receipt};
use tempfile::TempDir;

/// A workspace that a run changes.
struct Case {
    _folder: TempDir,
    root: PathBuf,
    sandbox: Sandbox,
    rules: InputRules,
    counted: Vec<String>,
    copies: bool,
    before: Option<(Start, Arc<Originals>)>,
}

impl Case {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::with_sandbox(files, "auto")
    }

    fn with_sandbox(files: &[(&str, &str)], level: &str) -> Self {
        Self::with_operator(files, (level, false))
    }

    /// With what the operator of the executor sets: the level, and whether runs may ask for none.
    fn with_operator(files: &[(&str, &str)], (level, sandbox_allow_none): (&str, bool)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("work");
        fs::create_dir(&root).unwrap();
        let config = SandboxConfig {
            sandbox: level.to_owned(),
            sandbox_allow_none,
            sandbox_read_only: None,
            sandbox_writable: None,
            sandbox_processes: None,
            sandbox_memory_mib: None,
            sandbox_disk_mib: 1024,
        };
        let sandbox = Sandbox::probe(&config, &base.join("data"), Vec::new()).unwrap();
        let rules = InputRules::default();
        let counted = Vec::new();
        let (copies, before) = (false, None);
        let case = Self { _folder: folder, root, sandbox, rules, counted, copies, before };
        files.iter().for_each(|(path, text)| case.put(path, text));
        case
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).unwrap();
    }

    /// Runs a command in the workspace itself, as a step or a person does.
    fn run(&self, line: &str) {
        let mut command = std::process::Command::new("sh");
        let ran = command.args(["-c", line]).current_dir(&self.root).output().unwrap();
        assert!(ran.status.success(), "{line}: {ran:?}");
    }

    /// The run begins.
    fn begin(mut self, line: &str) -> Self {
        let workspace = Workspace::open(&self.root).unwrap();
        let (snapshots, manifest) =
            Snapshots::begin(&workspace, &self.counted, &|| Ok(())).unwrap();
        let check = || Ok(());
        let reading = Reading { rules: &self.rules, lines: &[line], revision_of: None };
        let read = StartFacts::read(&workspace, &manifest, reading, &check);
        let (facts, originals) = read.unwrap();
        let originals = Arc::new(originals);
        let start = Start {
            snapshots: Arc::new(snapshots),
            manifest: Arc::new(manifest),
            facts: Arc::new(facts),
            originals: Arc::clone(&originals),
            revision: None,
        };
        self.before = Some((start, originals));
        self
    }

    async fn round(&self, probes: &[Probe]) -> Arc<Round> {
        let (start, originals) = self.before.clone().unzip();
        let round = self.unopened(start);
        if round.open(probes).await.unwrap() {
            round.give(originals.unwrap()).await.unwrap();
        }
        round
    }

    fn unopened(&self, start: Option<Start>) -> Arc<Round> {
        let folder = Folder::given(self.root.clone());
        if let Some(folders) = start.as_ref().and_then(|start: &Start| start.facts.folders_of_git())
        {
            folder.keep_git(folders);
        }
        Round::new(Setup {
            folder: Arc::new(folder),
            environment: Arc::new(Environment::of_process()),
            sandbox: Arc::new(self.sandbox.clone()),
            secrets: Arc::default(),
            start: Ok(start),
            latest: None,
            rules: self.rules.clone(),
            additions: Additions::default(),
            time_limit: Duration::from_secs(300),
            copies: self.copies,
            span: tracing::Span::none(),
            cancel: CancellationToken::new(),
            kill: CancellationToken::new(),
        })
    }

    /// What a user's check comes to: the reason why it does not hold, and the codes of its cautions.
    async fn check(&self, line: &str) -> (String, Vec<&'static str>) {
        let probe = command(line, Owner::User);
        let round = self.round(std::slice::from_ref(&probe)).await;
        let before = self.files();
        let runs = runs_of(&round, &probe).await;
        assert_eq!(self.files(), before, "no check changes the workspace");
        let run = |wanted: Inputs| {
            let (_, receipt) = runs.iter().rev().find(|(inputs, _)| *inputs == wanted)?;
            let result = if receipt.success { Ok(()) } else { Err("failed") };
            Some(CheckRun { receipt, result })
        };
        let original = run(Inputs::Original).unwrap();
        let ruling = rule(original, run(Inputs::OriginalWithIgnored), run(Inputs::AsLeft));
        let reason = match ruling.result {
            Ok(()) => String::new(),
            Err(Failure::OfRun(_)) => format!("failed: {}", original.receipt.summary),
            Err(Failure::OfInputs { reason, .. }) => reason,
        };
        (reason, ruling.cautions.into_iter().map(|(code, _)| code).collect())
    }

    fn files(&self) -> Vec<(PathBuf, std::time::SystemTime)> {
        let walk = ignore::WalkBuilder::new(&self.root).standard_filters(false).build();
        let mut files: Vec<_> = walk
            .map(Result::unwrap)
            .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
            .map(|entry| (entry.path().to_owned(), entry.metadata().unwrap().modified().unwrap()))
            .collect();
        files.sort();
        files
    }
}

fn command(line: &str, owner: Owner) -> Probe {
    let observation = Observation::Command(line.to_owned());
    Probe {
        check_id: line.to_owned(),
        owner,
        observation,
        overlay: String::new(),
        unconfined: false,
    }
}

async fn runs_of(round: &Arc<Round>, probe: &Probe) -> Vec<(Inputs, EvidenceReceipt)> {
    let text = r#"{"step_index": 0, "source": "probe", "success": true}"#;
    let empty = read_receipt(&json::parse(text).unwrap().value).unwrap();
    let (mut runs, mut so_far) = (Vec::new(), Vec::new());
    while let Some(inputs) = round.next_inputs(probe, &so_far) {
        let outcome = round.probe(probe, inputs, &so_far, Uuid::now_v7()).await;
        so_far.push((inputs, outcome.success));
        let output = String::from_utf8_lossy(&outcome.output).into_owned();
        let summary = format!("{} {output}", outcome.summary);
        let receipt = EvidenceReceipt {
            success: outcome.success,
            summary,
            facts: outcome.facts,
            ..empty.clone()
        };
        runs.push((inputs, receipt));
    }
    runs
}

const CALC: &str = "def add(a, b):\n    return a - b\n";
const FIXED: &str = "def add(a, b):\n    return a + b\n";
const TEST: &str = "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    \
                    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n";
const TRIVIAL: &str =
    "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass\n";
const UNITTEST: &str = "python3 -m unittest";

fn python() -> Case {
    Case::new(&[("calc.py", CALC), ("test_calc.py", TEST)]).begin(UNITTEST)
}

#[tokio::test]
async fn an_honest_change_passes_and_a_changed_test_decides_nothing() {
    let case = python();
    case.put("calc.py", FIXED);
    assert_eq!(case.check(UNITTEST).await, (String::new(), vec![]));
    case.put("test_more.py", TRIVIAL);
    assert_eq!(case.check(UNITTEST).await, (String::new(), vec!["check_inputs_differ"]));
    let case = python();
    case.put("test_calc.py", TRIVIAL);
    let (reason, cautions) = case.check(UNITTEST).await;
    assert_eq!(reason, "check_inputs_changed: changed test_calc.py (test)");
    assert_eq!(cautions, ["check_inputs_changed"]);
    case.remove("test_calc.py");
    case.put("test_other.py", TRIVIAL);
    let (reason, _) = case.check(UNITTEST).await;
    assert!(reason.starts_with("check_inputs_changed: removed test_calc.py"), "{reason}");
    case.put("calc.py", FIXED);
    assert_eq!(case.check(UNITTEST).await, (String::new(), vec!["check_inputs_differ"]));
}

#[tokio::test]
async fn what_shadows_a_module_is_taken_out_and_a_broken_new_test_fails() {
    let case = python();
    case.put("unittest.py", "import sys\nsys.exit(0)\n");
    let (reason, _) = case.check(UNITTEST).await;
    assert_eq!(reason, "check_inputs_changed: added unittest.py (shadow)");
    case.remove("unittest.py");
    case.put("sitecustomize.py", "import os\nos._exit(0)\n");
    let (reason, _) = case.check("PYTHONPATH=. python3 -m unittest").await;
    assert_eq!(reason, "check_inputs_changed: added sitecustomize.py (shadow)");
    let case = python();
    case.put("calc.py", FIXED);
    case.put("test_new.py", &TRIVIAL.replace("pass", "self.fail()"));
    let (reason, _) = case.check(UNITTEST).await;
    assert!(reason.starts_with("failed"), "{reason}");
}

#[tokio::test]
async fn a_recipe_is_the_one_of_the_start() {
    let recipe = "test:\n\tgrep -q done state\n";
    let case = Case::new(&[("Makefile", recipe), ("state", "open\n")]).begin("make test");
    case.put("Makefile", "test:\n\ttrue\n");
    let (reason, _) = case.check("make test").await;
    assert_eq!(reason, "check_inputs_changed: changed Makefile (configuration)");
    case.put("Makefile", recipe);
    case.put("GNUmakefile", "test:\n\ttrue\n");
    let (reason, _) = case.check("make test").await;
    assert_eq!(reason, "check_inputs_changed: added GNUmakefile (configuration)");
    case.put("state", "done\n");
    assert_eq!(case.check("make test").await, (String::new(), vec!["check_inputs_differ"]));
}

#[tokio::test]
async fn a_manifest_has_the_test_keys_of_the_start_and_the_other_keys_of_the_run() {
    let script = |test: &str, more: &str| {
        format!("{{\"name\": \"a\", \"scripts\": {{\"test\": \"{test}\"}}{more}}}\n")
    };
    let honest = script("node check.js", ", \"dependencies\": {}");
    let package = script("node check.js", "");
    let check = "require('fs').readFileSync('state', 'utf8') === 'done' || process.exit(1)\n";
    let line = "npm test";
    let files = [("package.json", package.as_str()), ("check.js", check), ("state", "open")];
    let case = Case::new(&files).begin(line);
    case.put("package.json", &script("true", ""));
    let (reason, _) = case.check(line).await;
    assert_eq!(reason, "check_inputs_changed: changed package.json (test keys)");
    case.put("package.json", &honest);
    case.put("state", "done");
    assert_eq!(case.check(line).await, (String::new(), vec![]));
}

#[tokio::test]
async fn a_build_file_has_the_test_parts_of_the_start_where_these_have_a_place() {
    let pom = "<project><properties><java>17</java></properties></project>\n";
    let gradle = "test {\n    useJUnitPlatform()\n}\n";
    // A line of a program: one that only reads has manifests as the run left them.
    let line = "python3 -c 'import sys; sys.exit(\"skipTests\" not in open(\"pom.xml\").read())'";
    let of_java = line.replace("skipTests", "21");
    let case = Case::new(&[("pom.xml", pom), ("build.gradle", gradle)]).begin(line);
    case.put("pom.xml", &pom.replace("</java>", "</java><skipTests>true</skipTests>"));
    assert_eq!(case.check(line).await.0, "check_inputs_changed: changed pom.xml (test keys)");
    case.put("pom.xml", &pom.replace("17", "21"));
    assert_eq!(case.check(&of_java).await, (String::new(), vec![]));
    // A statement outside of a block has no place of its own.
    case.put("build.gradle", &format!("{gradle}test.enabled = false\n"));
    let of_gradle = line.replace("skipTests", "enabled").replace("pom.xml", "build.gradle");
    let (reason, _) = case.check(&of_gradle).await;
    assert_eq!(reason, "check_inputs_changed: changed build.gradle (test keys)");
}

/// A library in one file with its tests, as `cargo test` would take it; the script plays the runner.
const LIBRARY: &str = "\
pub fn add(a: u8, b: u8) -> u8 { a - b }

#[cfg(test)]
mod tests {
    #[test]
    fn adds() { assert_eq!(super::add(1, 2), 3); }
}
";

#[tokio::test]
async fn tests_inside_source_files_are_those_of_the_start() {
    let line = "rustc --test --edition 2021 -o lib.bin lib.rs && ./lib.bin";
    let good = LIBRARY.replace("a - b", "a + b");
    let case = Case::new(&[("lib.rs", LIBRARY)]).begin(line);
    case.put("lib.rs", &LIBRARY.replace("(1, 2), 3", "(2, 1), 1"));
    let (reason, _) = case.check(line).await;
    assert_eq!(reason, "check_inputs_changed: changed lib.rs: tests (test)");
    case.put("lib.rs", &LIBRARY.replace("#[test]", ""));
    let (reason, _) = case.check(line).await;
    assert!(reason.starts_with("check_inputs_changed: changed lib.rs: tests (test)"), "{reason}");
    case.put("lib.rs", "pub fn add(a: u8, b: u8) -> u8 { a - b }\n");
    assert_eq!(case.check(line).await.0, "check_inputs_changed: changed lib.rs: tests (test)");
    case.put("lib.rs", &good);
    assert_eq!(case.check(line).await, (String::new(), vec![]));
    let more = "    #[test]\n    fn more() { assert_eq!(super::add(0, 0), 0); }\n}\n";
    let added = format!("{}{more}", good.trim_end().trim_end_matches('}'));
    case.put("lib.rs", &added);
    assert_eq!(case.check(line).await, (String::new(), vec![]));
    case.put("lib.rs", &good.replace("fn adds()", "fn adds_small_numbers()"));
    assert_eq!(case.check(line).await, (String::new(), vec!["check_inputs_differ"]));
    let two = "#[cfg(test)] pub fn add(a: u8, b: u8) -> u8 { a + b }\n#[cfg(not(test))]";
    case.put("lib.rs", &LIBRARY.replacen("pub fn", &format!("{two} pub fn"), 1));
    assert_eq!(case.check(line).await, (String::new(), vec!["check_inputs_differ"]));
}

#[tokio::test]
async fn doctests_of_python_are_those_of_the_start() {
    let app = "def add(a, b):\n    \"\"\"Adds.\n\n    >>> add(1, 2)\n    3\n    \"\"\"\n    return a - b\n";
    let line = "python3 -m doctest app.py";
    let case = Case::new(&[("app.py", app)]).begin(line);
    case.put("app.py", &app.replace("    3\n", "    -1\n"));
    let (reason, _) = case.check(line).await;
    assert_eq!(reason, "check_inputs_changed: changed app.py: the doctests of add (test)");
    case.put("app.py", &app.replace("a - b", "a + b").replace("Adds.", "Adds two."));
    assert_eq!(case.check(line).await, (String::new(), vec![]));
}

#[tokio::test]
async fn operands_and_products_are_what_the_run_made_of_them() {
    let files =
        [("CHANGELOG.md", "open\n"), ("app.py", "raise SystemExit(1)\n"), ("app", "exit 1\n")];
    let case = Case::new(&files);
    case.run("chmod +x app");
    let case = case.begin("grep -q fixed CHANGELOG.md");
    case.put("CHANGELOG.md", "fixed\n");
    assert_eq!(case.check("grep -q fixed CHANGELOG.md").await, (String::new(), vec![]));
    case.put("app.py", "print('ok')\n");
    assert_eq!(case.check("python3 app.py").await, (String::new(), vec![]));
    case.put("app", "#!/bin/sh\nexit 0\n");
    let expected = (String::new(), vec!["program_from_workspace"]);
    assert_eq!(case.check("./app").await, expected);
    let case = Case::new(&[("src/run.sh", "#!/bin/sh\ntrue\n")]).begin("./src/run.sh");
    case.run("chmod +x src/run.sh");
    assert_eq!(case.check("./src/run.sh").await, (String::new(), vec![]), "its text is the same");
    case.put("src/run.sh", "#!/bin/sh\nexit 0\n");
    let expected = (String::new(), vec!["program_from_workspace"]);
    assert_eq!(case.check("./src/run.sh").await, expected);
}

#[tokio::test]
async fn a_script_is_the_one_of_the_start_unless_the_policy_says_otherwise() {
    let line = "sh verify.sh";
    let files = [("verify.sh", "grep -q done state\n"), ("state", "open\n")];
    let case = Case::new(&files).begin(line);
    case.put("verify.sh", "true\n");
    let (reason, _) = case.check(line).await;
    assert_eq!(reason, "check_inputs_changed: changed verify.sh (script)");
    let mut case = Case::new(&files);
    case.rules = InputRules::new(&[], &["*.sh".to_owned()]).unwrap();
    let case = case.begin(line);
    case.put("verify.sh", "true\n");
    assert_eq!(case.check(line).await.0, "");
}

#[tokio::test]
async fn a_stale_byte_code_cache_answers_for_no_older_text() {
    let case = Case::new(&[("calc.py", FIXED), ("test_calc.py", TEST)]);
    case.run("python3 -m unittest");
    let case = case.begin(UNITTEST);
    let path = case.root.join("calc.py");
    let times = fs::metadata(&path).unwrap();
    // The size is the same, and the time is set back.
    case.put("calc.py", CALC);
    let times = FileTimes::new().set_modified(times.modified().unwrap());
    fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let (reason, _) = case.check(UNITTEST).await;
    assert!(reason.starts_with("failed"), "{reason}");
}

#[tokio::test]
async fn a_warm_build_folder_answers_for_no_older_source() {
    let line = "cargo test --offline";
    let lib = "pub fn add(a: u8, b: u8) -> u8 { a + b }\n";
    let test = "#[test]\nfn adds() { assert_eq!(p::add(2, 3), 5); }\n";
    let case = Case::new(&[
        ("Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", lib),
        ("tests/it.rs", test),
        (".gitignore", "target\n"),
    ]);
    case.run("unset CARGO_TARGET_DIR; cargo test --offline -q");
    let case = case.begin(line);
    let path = case.root.join("src/lib.rs");
    let times = fs::metadata(&path).unwrap();
    case.put("src/lib.rs", &lib.replace("a + b", "a - b"));
    let times = FileTimes::new().set_modified(times.modified().unwrap());
    fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let (reason, _) = case.check(line).await;
    assert!(reason.starts_with("failed"), "{reason}");
    case.put("src/lib.rs", &lib.replace("a + b", "b + a"));
    assert_eq!(case.check(line).await, (String::new(), vec![]));
}

#[tokio::test]
async fn ignored_files_of_steps_prove_nothing_unless_a_dependency_was_added() {
    let line = "sh -c 'test -f node_modules/dep/index.js'";
    let files = [(".gitignore", "node_modules\n"), ("package.json", "{}\n")];
    let case = Case::new(&files).begin(line);
    case.put("node_modules/dep/index.js", "");
    let (reason, cautions) = case.check(line).await;
    assert_eq!(reason, "ignored_inputs_changed: node_modules");
    assert_eq!(cautions, ["ignored_inputs_changed"]);
    case.put("package.json", "{\"dependencies\": {\"dep\": \"1\"}}\n");
    assert_eq!(case.check(line).await, (String::new(), vec!["ignored_inputs_changed"]));
}

#[tokio::test]
async fn writes_of_checks_are_dropped_and_seen_by_checks_of_no_more_trust() {
    for level in ["auto", "partial"] {
        let case = Case::with_sandbox(&[(".gitignore", "out\n")], level).begin("");
        let make = "mkdir -p out && echo made > report.txt && echo built > out/app";
        let user = command(make, Owner::User);
        let later = command("test -f out/app && ! test -e report.txt", Owner::User);
        let plan = command("test -e out/app", Owner::Plan);
        let file = |path: &str, owner| Probe {
            check_id: path.to_owned(),
            owner,
            observation: Observation::File { path: path.to_owned(), file_type: FileType::File },
            overlay: String::new(),
            unconfined: false,
        };
        let probes = [
            (plan.clone(), false),
            (user, true),
            (later, true),
            (plan, false),
            (file("report.txt", Owner::User), true),
            (file("out/app", Owner::Plan), true),
            (file("none", Owner::Plan), false),
        ];
        let all: Vec<_> = probes.iter().map(|(probe, _)| probe.clone()).collect();
        let round = case.round(&all).await;
        for (probe, expected) in probes {
            let runs = runs_of(&round, &probe).await;
            let (_, last) = runs.last().unwrap();
            let held = match last.facts.first() {
                Some(Fact::FileObserved { exists, .. }) => *exists,
                _ => last.success,
            };
            assert_eq!(held, expected, "{level}: {probe:?}: {last:?}");
        }
        assert!(!case.root.join("report.txt").exists(), "{level}");
        drop(round);
        let left = fs::read_dir(case.sandbox.scratch()).unwrap().count();
        assert_eq!(left, 0, "{level}: the folder of the views is gone");
    }
}

#[tokio::test]
async fn a_folder_that_became_a_link_is_a_folder_again() {
    let files = [("tests/test_a.py", TEST), ("calc.py", CALC), ("other/test_a.py", TRIVIAL)];
    let line = "cd tests && PYTHONPATH=.. python3 -m unittest test_a";
    let case = Case::new(&files).begin(line);
    fs::remove_dir_all(case.root.join("tests")).unwrap();
    std::os::unix::fs::symlink("other", case.root.join("tests")).unwrap();
    let (reason, _) = case.check(line).await;
    assert!(reason.starts_with("check_inputs_changed"), "{reason}");
    assert_eq!(case.text("other/test_a.py"), TRIVIAL);
}

#[tokio::test]
async fn a_copy_stands_where_the_workspace_is() {
    let mut case = Case::new(&[("top/pkg/a.sh", "echo one\n"), ("top/pkg/test.sh", "exit 1\n")]);
    case.run("cd top && git init -q && git add -A");
    case.root.push("top/pkg");
    case.copies = true;
    let whole = case.root.display().to_string();
    let lie = format!("sh {whole}/test.sh");
    let honest = format!("sh {whole}/a.sh && git ls-files --error-unmatch a.sh");
    let case = case.begin(&lie);
    case.put("test.sh", "exit 0\n");
    if !case.sandbox.mounts_copies() {
        return;
    }
    assert_eq!(case.check(&honest).await.0, "");
    let (reason, _) = case.check(&lie).await;
    assert!(reason.starts_with("check_inputs_changed"), "{reason}");
}

#[tokio::test]
async fn a_check_without_a_sandbox_runs_in_a_copy_where_the_operator_lets_it() {
    for allowed in [false, true] {
        let case = Case::with_operator(&[("a.txt", "one\n")], ("auto", allowed)).begin("");
        let outside = case.root.with_extension("outside");
        let line = format!("grep -q one a.txt && touch b.txt && touch {}", outside.display());
        let confined = command(&line, Owner::User);
        let mut asking = command(&format!("{line} && true"), Owner::User);
        asking.unconfined = true;
        let round = case.round(&[confined.clone(), asking.clone()]).await;
        if case.sandbox.keeps_views() {
            runs_of(&round, &confined).await;
            assert!(!outside.exists(), "it has a temporary folder of its own");
        }
        let runs = runs_of(&round, &asking).await;
        assert_eq!((runs[0].1.success, outside.exists()), (allowed, allowed), "{runs:?}");
        assert!(!case.root.join("b.txt").exists(), "it runs in a copy");
        if !allowed {
            assert!(runs[0].1.summary.contains("SURETY_SANDBOX_ALLOW_NONE"), "{runs:?}");
        }
    }
}
