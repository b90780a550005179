//! Views of the workspace as steps left it.

use super::*;

const LINE: &str = "sh tests/all.sh";
const ALL: &str = "for test in tests/t_*; do sh $test || exit 1; done\n";

fn tests() -> Case {
    let files = [
        (".gitignore", "build\nnode_modules\n"),
        ("package.json", "{}\n"),
        ("tests/all.sh", ALL),
        ("tests/t_a.sh", "true\n"),
    ];
    Case::new(&files).begin(LINE)
}

#[tokio::test]
async fn a_stale_byte_code_cache_answers_for_no_older_text_to_a_check_of_the_plan() {
    let case = Case::new(&[("calc.py", FIXED), ("test_calc.py", TEST)]);
    case.run("python3 -m unittest");
    let case = case.begin(UNITTEST);
    let path = case.root.join("calc.py");
    let times = fs::metadata(&path).unwrap();
    case.put("calc.py", CALC);
    let times = FileTimes::new().set_modified(times.modified().unwrap());
    fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let probe = command(UNITTEST, Owner::Plan);
    let round = case.round(std::slice::from_ref(&probe)).await;
    let runs = runs_of(&round, &probe).await;
    let [(Inputs::AsLeft, only)] = runs.as_slice() else { panic!("{runs:#?}") };
    assert!(!only.success, "{only:#?}");
    // The same text is the same file again.
    case.put("calc.py", FIXED);
    let round = case.round(std::slice::from_ref(&probe)).await;
    assert!(runs_of(&round, &probe).await.iter().all(|(_, run)| run.success));
}

#[tokio::test]
async fn an_added_test_that_passes_only_with_what_steps_built_is_named() {
    let case = tests();
    case.put("build/app", "forged\n");
    case.put("tests/t_b.sh", "grep -q forged build/app\n");
    let (reason, cautions) = case.check(LINE).await;
    assert_eq!(reason, "ignored_inputs_changed: build");
    assert_eq!(cautions, ["check_inputs_differ", "ignored_inputs_changed"]);
    case.put("tests/t_b.sh", "grep -q other build/app\n");
    let (reason, _) = case.check(LINE).await;
    assert!(reason.starts_with("failed"), "{reason}");
    case.put("tests/t_b.sh", "! test -e build/app\n");
    assert_eq!(case.check(LINE).await, (String::new(), vec!["check_inputs_differ"]));
}

#[tokio::test]
async fn an_added_test_has_what_an_added_dependency_installed() {
    let case = tests();
    case.put("node_modules/dep/index.js", "");
    case.put("build/app", "forged\n");
    case.put("tests/t_b.sh", "test -f node_modules/dep/index.js && ! test -e build/app\n");
    case.put("package.json", "{\"dependencies\": {\"dep\": \"1\"}}\n");
    assert_eq!(case.check(LINE).await, (String::new(), vec!["check_inputs_differ"]));
    case.put("tests/t_b.sh", "grep -q forged build/app\n");
    let (reason, _) = case.check(LINE).await;
    assert_eq!(reason, "ignored_inputs_changed: build, node_modules");
}

#[tokio::test]
async fn a_dependency_of_the_product_excuses_no_added_test_that_passes_only_with_what_steps_built()
{
    let files = [
        (".gitignore", "build\nnode_modules\n"),
        ("package.json", "{}\n"),
        ("product.sh", "true\n"),
        ("tests/all.sh", ALL),
        ("tests/t_a.sh", "sh product.sh\n"),
    ];
    let case = Case::new(&files).begin(LINE);
    case.put("product.sh", "test -f node_modules/dep/index.js\n");
    case.put("package.json", "{\"dependencies\": {\"dep\": \"1\"}}\n");
    case.put("node_modules/dep/index.js", "");
    case.put("build/app", "forged\n");
    let (reason, _) = case.check(LINE).await;
    assert_eq!(reason, "", "the dependency is excused");
    case.put("tests/t_b.sh", "grep -q forged build/app\n");
    let (reason, cautions) = case.check(LINE).await;
    assert_eq!(
        reason,
        "ignored_inputs_changed: build, node_modules; check inputs: added tests/t_b.sh (test)"
    );
    assert_eq!(cautions, ["ignored_inputs_changed", "check_inputs_differ"]);
}

#[tokio::test]
async fn a_changed_test_can_be_approved_beside_binary_caches_that_decide_nothing() {
    let files = [
        (".gitignore", "build\n"),
        ("tests/all.sh", ALL),
        ("tests/t_a.sh", "grep -q wrong product.txt\n"),
        ("product.txt", "right\n"),
    ];
    let case = Case::new(&files).begin(LINE);
    case.put("tests/t_a.sh", "grep -q right product.txt\n");
    case.put("build/app", "\u{7f}ELF\0\0forged\n");
    let (reason, cautions) = case.check(LINE).await;
    assert_eq!(reason, "check_inputs_changed: changed tests/t_a.sh (test)");
    assert_eq!(cautions, ["check_inputs_changed"]);
    let probe = command(LINE, Owner::User);
    let round = case.round(std::slice::from_ref(&probe)).await;
    let (_, originals) = case.before.as_ref().unwrap();
    let shown = round.difference(Arc::clone(originals), true).await.unwrap().unwrap();
    let text = String::from_utf8(shown.output).unwrap();
    assert!(shown.success, "{}", shown.summary);
    assert!(text.contains("+grep -q right") && text.contains("build/app (13 bytes)"), "{text}");
    case.put("tests/t_a.sh", "grep -q forged build/app\n");
    let (_, cautions) = case.check(LINE).await;
    assert_eq!(cautions, ["check_inputs_changed", "ignored_inputs_changed"]);
}

#[tokio::test]
async fn a_protected_file_is_put_back_although_it_is_ignored() {
    let line = "sh check.sh";
    let files = [
        (".gitignore", "*.db\n"),
        ("check.sh", "[ ! -e cases.db ] || grep -q one cases.db\n"),
        ("cases.db", "two\n"),
    ];
    let policy = surety_common::domain::run::Policy {
        protect: vec!["*.db".to_owned(), "**/*.lock".to_owned()],
        ..Default::default()
    };
    let mut case = Case::new(&files);
    case.rules = InputRules::of(&policy).unwrap();
    case.counted = counted(&surety_common::domain::plan::Plan::default(), &policy);
    assert_eq!(case.counted, ["*.db"]);
    let case = case.begin(line);
    case.remove("cases.db");
    let (reason, _) = case.check(line).await;
    assert_eq!(reason, "check_inputs_changed: removed cases.db (protected)");
    case.put("cases.db", "one\n");
    let (reason, _) = case.check(line).await;
    assert_eq!(reason, "check_inputs_changed: changed cases.db (protected)");
    case.put("cases.db", "two\n");
    case.put("check.sh", "grep -q two cases.db\n");
    let (reason, _) = case.check(line).await;
    assert_eq!(reason, "check_inputs_changed: changed check.sh (script)");
}

/// Makes folders in each other, deeper than any path is long.
const DEEP: &str = "python3 -c \"import os;os.makedirs('build',exist_ok=True);os.chdir('build');\
                    [(os.mkdir('d'),os.chdir('d')) for _ in range(3000)]\"";

#[tokio::test]
async fn a_check_that_makes_a_tree_too_deep_for_a_path_leaves_the_later_ones_and_nothing_behind() {
    let case = tests();
    let probes = [command(DEEP, Owner::User), command(LINE, Owner::User)];
    let round = case.round(&probes).await;
    for probe in &probes {
        let runs = runs_of(&round, probe).await;
        assert!(runs.iter().all(|(_, run)| run.success), "{runs:#?}");
    }
    drop(round);
    assert_eq!(fs::read_dir(case.sandbox.scratch()).unwrap().count(), 0);
}
