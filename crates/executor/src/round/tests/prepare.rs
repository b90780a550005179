//! Lines that prepare the views of a round.

use super::*;

fn line(line: &str) -> Probe {
    let observation = Observation::Prepare(line.to_owned());
    Probe { observation, ..command(line, Owner::User) }
}

/// The summary of each run of the probes, in their order, empty where it succeeded.
async fn failures(round: &Arc<Round>, probes: &[Probe]) -> Vec<(Inputs, String)> {
    let mut failures = Vec::new();
    for probe in probes {
        for (inputs, receipt) in runs_of(round, probe).await {
            let why = if receipt.success { String::new() } else { receipt.summary };
            failures.push((inputs, why));
        }
    }
    failures
}

const SETUP: &str = "mkdir -p build && cp lib.txt build/lib.txt && echo made > src.txt\n";

#[tokio::test]
async fn what_a_line_writes_to_ignored_paths_is_there_for_every_run_of_a_check() {
    for level in ["auto", "partial"] {
        let files = [
            (".gitignore", "build\n"),
            ("lib.txt", "one\n"),
            ("tools/setup.sh", SETUP),
            ("tests/check.sh", "grep -q one build/lib.txt\n"),
        ];
        let case = Case::with_sandbox(&files, level).begin("sh tools/setup.sh");
        case.put("tools/setup.sh", "mkdir -p build && echo forged > build/lib.txt\n");
        case.put("tests/more.sh", "true\n");
        // What steps left in the ignored folder is not what was prepared.
        case.put("build/lib.txt", "left\n");
        let probes = [
            command("test -e build/lib.txt && grep -q left build/lib.txt", Owner::Plan),
            line("sh tools/setup.sh"),
            line("sed s/one/two/ build/lib.txt > build/more.txt"),
            command("sh tests/check.sh && grep -q two build/more.txt", Owner::User),
            command("test -e src.txt || sh tests/check.sh && ! test -e src.txt", Owner::Operator),
        ];
        let round = case.round(&probes).await;
        let before = case.files();
        let failed = failures(&round, &probes).await;
        let expected = [
            Inputs::AsLeft,
            Inputs::Original,
            Inputs::Original,
            Inputs::Original,
            Inputs::AsLeft,
            Inputs::Original,
            Inputs::AsLeft,
        ];
        let found: Vec<_> = failed.iter().map(|(inputs, _)| *inputs).collect();
        assert_eq!(found, expected, "{level}: {failed:#?}");
        assert!(failed.iter().all(|(_, why)| why.is_empty()), "{level}: {failed:#?}");
        assert_eq!(case.files(), before, "{level}: the workspace is as it was");
    }
}

#[tokio::test]
async fn what_checks_of_operators_wrote_to_ignored_paths_is_there_for_those_of_users() {
    for level in ["auto", "partial"] {
        let files = [(".gitignore", "build\n"), ("lib.txt", "one\n"), ("src.txt", "as it was\n")];
        let case = Case::with_sandbox(&files, level).begin("");
        let probes = [
            command(
                "mkdir build && cp lib.txt build/lib.txt && echo made > src.txt",
                Owner::Operator,
            ),
            command("echo two >> build/lib.txt", Owner::Operator),
            command("grep -q one build/lib.txt && grep -q two build/lib.txt", Owner::User),
            command("grep -q was src.txt && sed -i s/one/three/ build/lib.txt", Owner::User),
            command("grep -q three build/lib.txt", Owner::User),
            command("grep -q one build/lib.txt", Owner::Operator),
            command("test ! -e build", Owner::Plan),
        ];
        let round = case.round(&probes).await;
        let failed = failures(&round, &probes).await;
        assert!(failed.iter().all(|(_, why)| why.is_empty()), "{level}: {failed:#?}");
    }
}

#[tokio::test]
async fn a_line_that_fails_fails_what_needs_the_view_and_nothing_else() {
    let case = Case::new(&[("a", "")]).begin("");
    let probes = [
        command("test -e a", Owner::Plan),
        line("echo out of reach; exit 3"),
        line("true"),
        command("true", Owner::Operator),
        command("true", Owner::User),
    ];
    let round = case.round(&probes).await;
    let failed = failures(&round, &probes).await;
    let [(_, plan), (_, first), rest @ ..] = failed.as_slice() else { panic!("{failed:#?}") };
    assert_eq!(plan, "");
    assert!(first.contains("ended with 3") && first.contains("out of reach"), "{first}");
    assert_eq!(rest.len(), 3, "each has one run: {failed:#?}");
    for (inputs, why) in rest {
        assert_eq!(*inputs, Inputs::Original);
        assert!(why.starts_with("echo out of reach; exit 3: ended with 3"), "{why}");
    }
}

/// A project whose own tests need a package.
fn project(source: &str) -> Case {
    let package =
        r#"{"name": "a", "scripts": {"test": "node node_modules/ready.js && node test.js"}}"#;
    let test = "require('fs').readFileSync('src.txt', 'utf8') === 'good\\n' || process.exit(1)\n";
    let files = [
        (".gitignore", "node_modules\n"),
        ("package.json", package),
        ("test.js", test),
        ("src.txt", source),
        ("node_modules/ready.js", "process.exit(0)\n"),
    ];
    Case::new(&files).begin("")
}

fn own_tests() -> Probe {
    Probe { observation: Observation::ProjectTests, ..command("", Owner::Operator) }
}

#[tokio::test]
async fn the_projects_tests_run_on_the_start_only_where_they_fail_now() {
    let line = line("mkdir -p node_modules && echo 'process.exit(0)' > node_modules/ready.js");
    for (at_start, now, loses_packages, prepares, expected) in [
        ("good\n", "good\n", false, false, vec![true]),
        ("good\n", "bad\n", false, false, vec![false, true]),
        ("bad\n", "worse\n", false, false, vec![false, false]),
        // Nothing is known of a start that cannot be made again.
        ("good\n", "bad\n", true, false, vec![false, false]),
        ("good\n", "bad\n", true, true, vec![false, true]),
    ] {
        let case = project(at_start);
        case.put("src.txt", now);
        if loses_packages {
            case.remove("node_modules/ready.js");
        }
        let prepare: Vec<_> = prepares.then(|| line.clone()).into_iter().collect();
        let probes: Vec<_> = prepare.into_iter().chain([own_tests()]).collect();
        let round = case.round(&probes).await;
        round.give(case.before.clone().unwrap().1).await.unwrap();
        if prepares {
            let prepared = runs_of(&round, &line).await;
            assert!(prepared.iter().all(|(_, receipt)| receipt.success), "{prepared:#?}");
        }
        let runs = runs_of(&round, &own_tests()).await;
        let held: Vec<_> = runs.iter().map(|(_, receipt)| receipt.success).collect();
        assert_eq!(held, expected, "{at_start:?} -> {now:?}: {runs:#?}");
        let last = &runs.last().unwrap().1;
        let ran = last.facts.iter().any(|fact| matches!(fact, Fact::Command { .. }));
        assert_eq!(ran, !loses_packages || prepares, "{last:#?}");
    }
}
