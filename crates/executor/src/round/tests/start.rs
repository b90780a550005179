//! What a round has from the start of the run.

use super::*;

#[tokio::test]
async fn no_step_chooses_the_tests_that_it_is_held_to() {
    let probe = Probe {
        check_id: "system.project_tests".to_owned(),
        owner: Owner::Operator,
        observation: Observation::ProjectTests,
        overlay: String::new(),
        unconfined: false,
    };
    for (start, now, of_start, as_left) in [
        (&["pytest.ini"][..], &["pytest.ini", "Cargo.toml"][..], "pytest", "cargo test"),
        (&["go.mod"], &[], "go test ./...", ""),
        (&["notes"], &["Cargo.toml"], "cargo test", "cargo test"),
    ] {
        let files: Vec<_> = start.iter().map(|path| (*path, "")).collect();
        let case = Case::new(&files).begin("true");
        start.iter().for_each(|path| case.remove(path));
        now.iter().for_each(|path| case.put(path, ""));
        let round = case.round(std::slice::from_ref(&probe)).await;
        for (inputs, expected) in [(Inputs::Original, of_start), (Inputs::AsLeft, as_left)] {
            let found = round.project_tests(inputs).await.unwrap().unwrap_or_default().join(" ");
            assert_eq!(found.replace("python3 -m pytest", "pytest"), expected, "{start:?}");
        }
    }
}

#[tokio::test]
async fn tests_are_kept_before_large_data_and_what_is_not_kept_is_said() {
    let large = format!("{}\n#[test]\nfn a() {{}}\n", "//\n".repeat(400_000));
    let case = Case::new(&[("tests/test_a.py", TEST), ("src/large.rs", &large)]);
    // More than is kept in all, in front of the tests by its path.
    fs::create_dir(case.root.join("testdata")).unwrap();
    for at in 0..9 {
        let file = fs::File::create(case.root.join(format!("testdata/{at}.bin"))).unwrap();
        file.set_len(8 << 20).unwrap();
    }
    let line = "python3 -c pass";
    let case = case.begin(line);
    let kept = case.before.as_ref().unwrap().1.has(b"tests/test_a.py");
    assert!(kept);
    case.put("tests/test_a.py", "");
    case.put("src/large.rs", "fn b() {}\n");
    let (reason, mut cautions) = case.check(line).await;
    cautions.sort_unstable();
    assert_eq!((reason.as_str(), cautions), ("", vec!["check_inputs_differ", "originals_not_run"]));
}

#[tokio::test]
async fn no_original_of_a_view_counts_for_a_check_of_a_file() {
    let data = [("tests/data/a.json", "{}"), ("tests/golden/a.txt", "a"), ("Makefile", "build:\n")];
    let case = Case::new(&data).begin("make build");
    case.remove("tests/data/a.json");
    case.remove("tests/golden/a.txt");
    fs::remove_dir(case.root.join("tests/golden")).unwrap();
    let make = command("echo made > tests/data/made.txt", Owner::User);
    let round = case.round(std::slice::from_ref(&make)).await;
    runs_of(&round, &make).await;
    for (path, file_type, exists) in [
        ("tests/data/*.json", FileType::File, false),
        ("tests/data/a.json", FileType::Any, false),
        ("tests/golden", FileType::Folder, false),
        ("tests/golden/*", FileType::Any, false),
        ("tests/data/m*.txt", FileType::File, true),
        ("tests/data", FileType::Folder, true),
    ] {
        let outcome = round.observe_file(path, file_type, Owner::User).await.unwrap();
        let found = outcome
            .facts
            .iter()
            .any(|fact| matches!(fact, Fact::FileObserved { exists: true, .. }));
        assert_eq!(found, exists, "{path}");
    }
    let outcome = round.observe_content("tests/*/a.*", "a", Owner::User).await.unwrap();
    assert!(outcome.facts.iter().all(|fact| !matches!(fact, Fact::Content { found: true, .. })));
}
