use super::*;

struct Files;

impl StartFiles for Files {
    fn is_check_input(&self, path: &str) -> bool {
        path.contains("test")
    }

    fn has_stem(&self, stem: &str) -> bool {
        matches!(stem, "main" | "bench")
    }

    fn has(&self, name: &str) -> bool {
        name == "bench"
    }

    fn is_gone(&self, path: &str) -> bool {
        ["old.c", "old.h"].contains(&path)
    }

    fn is_in_a_line(&self, name: &str) -> bool {
        name == "STRICT"
    }
}

const START: &str = "OBJS = main.o sum.o\nCC ?= cc\n\n.PHONY: test\n\nall: app\n\napp: $(OBJS)\n\
                     \t$(CC) -o $@ $^\n\nmain.o: main.c\n\ntest: app # all of them\n\tsh test.sh\n";

#[test]
fn sources_and_new_targets_are_only_added() {
    for (from, to) in [
        ("main.o sum.o", "main.o util.o sum.o"),
        ("main.o sum.o", "util.o main.o sum.o"),
        ("main.o sum.o", "main.o \\\n  sum.o util.o"),
        ("main.o: main.c", "main.o: main.c util.h"),
        ("main.o: main.c", "main.o: main.c\nutil.o: util.c util.h"),
        (" # all of them", ""),
        ("\tsh test.sh\n", "\tsh test.sh\n\nlint:\n\tcc -Wall main.c\n"),
        (".PHONY: test\n", ".PHONY: test lint\n"),
        (".PHONY: test\n", ".PHONY: all test\n"),
        ("\tsh test.sh\n", "\tsh test.sh\n.PHONY: lint\nlint: app\n\t./app lint\n"),
        ("CC ?= cc\n", "CC ?= cc\nEXTRA = util.o\n"),
        ("CC ?= cc\n", "CC ?= cc\nPYTHON ?= python3\n"),
        ("CC ?= cc\n", "CC ?= cc\nIMAGE ?= host:5000/app:latest\n"),
        ("\tsh test.sh\n", "\tsh test.sh\n\ndist/app.tar.gz: app\n\ttar czf $@ app\n"),
        ("\tsh test.sh\n", "\tsh test.sh\n\nreport.html: app\n\t./app > $@\n"),
    ] {
        assert!(only_adds(START, &START.replace(from, to), &Files), "{to}");
    }
}

#[test]
fn what_can_change_an_old_target_is_no_addition() {
    for (from, to) in [
        ("\tsh test.sh\n", "\ttrue\n"),
        ("\tsh test.sh\n", "\t-sh test.sh\n"),
        ("\tsh test.sh\n", "\tsh test.sh\ntest:\n\ttrue\n"),
        ("\tsh test.sh\n", "\tsh test.sh\n%.o:\n\ttrue\n"),
        ("\tsh test.sh\n", "\tsh test.sh\n.DEFAULT:\n\ttrue\n"),
        ("\tsh test.sh\n", "\tsh test.sh\n.IGNORE:\n"),
        ("\tsh test.sh\n", "\tsh test.sh\ninclude more.mk\n"),
        ("\tsh test.sh\n", "\tsh test.sh\nSHELL = true.c\n"),
        ("\tsh test.sh\n", "\tsh test.sh\nbench:\n\ttrue\n"),
        ("\tsh test.sh\n", "\tsh test.sh\nconfig.mk:\n\ttrue\n"),
        ("\tsh test.sh\n", "\tsh test.sh\ntests/case.txt:\n\ttrue\n"),
        ("\tsh test.sh\n", "\tsh test.sh\ntest.sh:\n\ttrue\n"),
        ("OBJS = main.o sum.o\n", "OBJS = main.o sum.o\nnew:\n\ttrue\n"),
        ("main.o sum.o", "main.o sum.o -Wl,-z,x"),
        ("main.o sum.o", "main.o sum.o ../x.o"),
        ("main.o sum.o", "main.o sum.o test.o"),
        ("main.o sum.o", "main.o"),
        ("CC ?= cc", "CC = true"),
        ("main.o: main.c", "sum.o: other.c\nmain.o: main.c\n\ttouch $@"),
        ("test: app", "test: CC = true\ntest: app"),
        ("test: app", "test:"),
        ("CC ?= cc", "CC ?= ./shim.c cc"),
        ("CC ?= cc\n", "CC ?= cc\nexport SHELL=./shim.c\n"),
        ("CC ?= cc\n", "CC ?= cc\noverride LIST = shim.c\n"),
        ("CC ?= cc\n", "CC ?= cc\nprivate LIST=shim.c\n"),
        ("CC ?= cc\n", "CC ?= cc\nLIST != ./shim.c\n"),
        ("CC ?= cc\n", "CC ?= cc\nCOMPILE.c = ./shim.c\n"),
        ("CC ?= cc\n", "CC ?= cc\nPATH = bin.c\n"),
        ("CC ?= cc\n", "CC ?= cc\nLD_PRELOAD = ./shim\n"),
        ("CC ?= cc\n", "CC ?= cc\nPYTHONPATH = shims\n"),
        ("CC ?= cc\n", "CC ?= cc\nRUN := $(shell ./shim)\n"),
        ("CC ?= cc\n", "CC ?= cc\nTARGET_ARCH = -DNDEBUG\n"),
        ("CC ?= cc\n", "CC ?= cc\nSTRICT = 0\n"),
        ("CC ?= cc\n", "CC ?= cc\nPYTEST_ADDOPTS = --co\n"),
        ("main.o: main.c", "main.o: util.c main.c"),
        ("all: app", "util.o: util.c\n\nall: app"),
    ] {
        assert!(!only_adds(START, &START.replace(from, to), &Files), "{to}");
    }
}

#[test]
fn a_target_with_a_recipe_may_be_phony_beside_a_source_of_its_name() {
    let phony = |rule: &str, name: &str| {
        let now = format!(".PHONY: {name}\n{rule}");
        only_adds(rule, &now, &Files)
    };
    assert!(phony("main: data\n\tsh main.sh\n", "main"), "main.c lies there");
    assert!(!phony("main: data\n", "main"), "make has a rule of its own for it");
    assert!(!phony("bench: data\n\tsh main.sh\n", "bench"), "its file is there");
}

#[test]
fn a_target_that_a_pattern_or_an_included_rule_makes_is_not_new() {
    let may_add = |rules: &str, target: &str| {
        let start = format!("{START}{rules}");
        only_adds(&start, &format!("{start}\n{target}:\n\ttrue\n"), &Files)
    };
    let phony = |rules: &str| {
        let start = format!("{START}{rules}");
        only_adds(&start, &start.replace(".PHONY: test\n", ".PHONY: test check-a\n"), &Files)
    };
    assert!(phony("check-a: data\n\tsh a.sh\n"));
    assert!(!phony("check-a: data\ncheck-%:\n\tsh $*.sh\n"), "its recipe is that of the pattern");
    for rules in [
        "",
        "%.o: %.c\n\tcc -c $<\n",
        "%.o: %.c\n\t$(CC) $(CFLAGS) -c -o $@ $<\n",
        "$(OBJS): %.o: %.c\n\n\t$(CC) -c $<\n",
        "%.o: %.c ; $(CC) -c $<\n\t$(CHECK) $@\n",
        "BIN = calc\n$(BIN): main.o\n\tcc -o $@ $^\n",
        "$(BUILD)/%.o: src/%.c\n\tcc -c $<\n",
        "$(BUILD)/app: $(OBJS)\n\tcc -o $@ $^\n",
        "TARGET = $(BUILD)/app\n$(TARGET): $(OBJS)\n\tcc -o $@ $^\n",
        "DEPS = $(OBJS:.o=.d)\n-include $(DEPS)\n",
        "-include $(OBJS:.o=.d)\n",
    ] {
        assert!(may_add(rules, "lint"), "{rules}");
    }
    for rules in ["BIN = app.bin\nrun: $(BIN)\n\tsh run.sh\n", "run: data\n\t./app $(DIR)/a > $@\n"]
    {
        assert!(may_add(rules, "dist/app.gz"), "{rules}");
    }
    for rules in [
        "run: $(DIST)/app.gz\n",
        "run: $(wildcard dist/*)\n",
        "%.gz: %\n\tgzip $<\n",
        "run: $(PAGES:.md=.html)\n",
        "run: $D/app.gz\n",
    ] {
        assert!(!may_add(rules, "dist/app.gz"), "{rules}");
    }
    let with = |rules: &str, added: &str| {
        let start = format!("{START}{rules}");
        only_adds(&start, &format!("{start}{added}"), &Files)
    };
    assert!(!with("include rules.mk\n", "RUN = ./shim.c\n"));
    for rules in ["run:\n\t$(RUN_$(OS)) a\n", "run:\n\t${RUN_$@} a\n", "run:\n\t$($(WHICH)) a\n"] {
        assert!(!with(rules, "RUN_LINUX = true\n"), "{rules}");
    }
    assert!(with("app.o: $(OBJS:.o=.c)\n\tcc $(if a,$(OBJS))\n", "RUN_LINUX = true\n"));
    let lists = format!("{START}TEST_OBJS = test_a.o sum.o\nEXTRA_OBJS =\nRUN =\n");
    for (from, to, expected) in [
        ("TEST_OBJS = test_a.o", "TEST_OBJS = test_a.o util.o", true),
        ("EXTRA_OBJS =", "EXTRA_OBJS = util.o", true),
        ("RUN =", "RUN = ./shim.c", false),
    ] {
        assert_eq!(only_adds(&lists, &lists.replace(from, to), &Files), expected, "{to}");
    }
    for rules in [
        "run-%:\n\tsh tests/$*.sh\n",
        "$(addprefix run-,add):\n\tsh tests/add.sh\n",
        "ALL = $(wildcard *.sh)\n$(ALL):\n\tsh $@\n",
        "$(ALL): run-%: tests/%.sh\n\tsh $<\n",
        "include rules.mk\n",
        "-include conf.d/*\n",
        // No recipes: make expands these lines where no rule stands before them.
        "X = 1\n\t$(RULES)\n",
        "ifeq ($(A:b=c),d)\n\t$(RULES)\nendif\n",
        "vpath %.c a:b\n\t$(RULES)\n",
        "run: X = a\n\t$(RULES)\n",
    ] {
        assert!(!may_add(rules, "run-add"), "{rules}");
    }
}

#[test]
fn a_line_of_a_compiler_may_have_further_sources() {
    let start = "tests: test_sum\n\t./test_sum\ntest_sum: test_sum.c sum.c\n\tcc -o test_sum test_sum.c sum.c -lm\n\n\tsh run.sh sum.c\n";
    for (from, to, expected) in [
        ("test_sum.c sum.c -lm", "test_sum.c sum.c twice.c -lm", true),
        ("test_sum.c sum.c -lm", "test_sum.c sum.c ../twice.c -lm", false),
        ("test_sum.c sum.c -lm", "test_sum.c sum.c test_more.c -lm", false),
        ("test_sum.c sum.c -lm", "test_sum.c sum.c -DX -lm", false),
        ("test_sum.c sum.c -lm", "sum.c -lm", false),
        ("-o test_sum test_sum.c", "-o twice.c test_sum test_sum.c", false),
        ("run.sh sum.c", "run.sh sum.c twice.c", false),
    ] {
        assert_eq!(only_adds(start, &start.replace(from, to), &Files), expected, "{to}");
    }
}

#[test]
fn sources_that_are_gone_and_libraries_of_the_system_are_left_out_and_added() {
    let start = "SRCS = add.c old.c keep.c\nLDLIBS =\nt: add.c old.c\n\tcc -o t add.c old.c\n\t./t\nA = A.java\nj:\n\tjavac -d out A.java\n";
    for (from, to, expected) in [
        ("SRCS = add.c old.c", "SRCS = add.c", true),
        ("SRCS = add.c old.c", "SRCS = add.c new.c", true),
        ("keep.c", "", false),
        ("t: add.c old.c", "t: add.c", true),
        ("t add.c old.c\n", "t add.c\n", true),
        ("t add.c old.c\n", "t add.c old.c -lm\n", true),
        ("t add.c old.c\n", "t add.c old.c -lm -pthread\n", true),
        ("t add.c old.c\n", "t -lm add.c old.c\n", false),
        ("t add.c old.c\n", "t add.c old.c -lfake\n", false),
        ("t add.c old.c\n", "t add.c old.c -DNDEBUG\n", false),
        ("LDLIBS =", "LDLIBS = -lm", true),
        ("LDLIBS =", "LDLIBS = -lfake", false),
        ("A = A.java", "A = A.java B.java", true),
        ("out A.java", "out A.java B.java", true),
    ] {
        assert_eq!(only_adds(start, &start.replace(from, to), &Files), expected, "{to}");
        let elsewhere = start.replace("LDLIBS =", "LDFLAGS = -L.\nLDLIBS =");
        if to.contains("-lm") {
            assert!(!only_adds(&elsewhere, &elsewhere.replace(from, to), &Files), "{to}");
        }
    }
}

#[test]
fn makefiles_are_known_by_their_names() {
    assert!(is_makefile("Makefile") && is_makefile("a/GNUmakefile"));
    assert!(!is_makefile("a.mk") && !is_makefile("Makefile.am"));
}

/// A rename of `old.c` to `new.c` and sources in front of the first one, where nothing reads that by its place.
#[test]
fn the_first_source_of_a_list_may_be_another_one() {
    for (start, from, to) in [
        ("SRCS = old.c\n", "old.c", "new.c"),
        ("SRCS := old.c keep.c\n", "old.c", "new.c"),
        ("SRCS = keep.c\n", "keep.c", "add.c keep.c"),
        ("SRCS = keep.c\nSRCS += old.c\n", "old.c", "new.c"),
        ("OBJS = old.o keep.o\nrun: $(OBJS)\n\t$(CC) -o $@ $^\n", "old.o", "new.o"),
        (
            "SRCS = old.c\nOBJS = $(SRCS:.c=.o)\nrun: $(OBJS)\n\t$(LINK.o) $^ -o $@\n",
            "old.c",
            "new.c",
        ),
        (
            "SRCS = old.c\nrun: tests/t.c $(SRCS)\n\t@$(CC) $(CFLAGS) -o $@ $^ && ./run\n",
            "old.c",
            "new.c",
        ),
        (
            "SRCS = old.c\nrun: tests/t.c\n\tcc -o run tests/t.c $(SRCS)\n\t./run\n",
            "old.c",
            "new.c",
        ),
        (
            "OBJS = old.o\nDEPS = $(OBJS:.o=.d)\n-include $(DEPS)\nclean:\n\trm -f $(OBJS)\n",
            "old.o",
            "new.o",
        ),
        ("SRCS = old.c\n%.o: %.c $(SRCS)\n\t$(CC) -c -o $@ $<\n", "old.c", "new.c"),
        ("SRCS = old.c\nrun: tests/t.c $(SRCS)\n\tcc -o run $< keep.c\n", "old.c", "new.c"),
        ("SRCS = old.c\nHERE = $(lastword $(MAKEFILE_LIST))\n", "old.c", "new.c"),
        ("run: old.c tests/t.c\n\tcc -o run $^\n", "old.c", "new.c"),
        ("run: tests/t.c old.c\n\tcc -o run $< keep.c\n", "t.c old.c", "t.c new.c"),
        ("run: old.o keep.o\n", "old.o", "new.o"),
        ("t:\n\t$(CC) -o run tests/t.c old.c && ./run\n", "old.c", "new.c"),
        ("t:\n\t$(CC) -o run old.c tests/t.c && ./run\n", "old.c", "add.c new.c"),
        ("t:\n\tmkdir -p out && cc -Iinclude old.c -o out/run && ./out/run\n", "old.c", "new.c"),
        (
            "t:\n\tcc -c keep.c && cc -o run keep.o tests/t.c -lm && ./run\n",
            "keep.o tests",
            "keep.o add.o tests",
        ),
    ] {
        assert!(only_adds(start, &start.replacen(from, to, 1), &Files), "{start} {to}");
    }
}

#[test]
fn a_first_word_that_is_read_by_its_place_stays() {
    for (start, from, to) in [
        // Another prerequisite is the first one.
        (
            "SRCS = keep.c a.c\nrun: $(SRCS)\n\tcc -o run $< tests/t.c\n",
            "keep.c a.c",
            "add.c keep.c a.c",
        ),
        (
            "SRCS = keep.c\nEXTRA =\nrun: $(EXTRA) $(SRCS)\n\tcc -o run $<\n",
            "= keep.c",
            "= add.c keep.c",
        ),
        (
            "SRCS = keep.c\nALL = $(SRCS)\nrun: $(ALL)\n\tcc -o run $<\n",
            "= keep.c",
            "= add.c keep.c",
        ),
        (
            "SRCS = keep.c\nBUILD = $(CC) -o run $<\nrun: $(SRCS)\n\t$(BUILD)\n",
            "= keep.c",
            "= add.c keep.c",
        ),
        ("run: keep.c a.c\n\tcc -o run $<\n", "run: keep.c", "run: add.c keep.c"),
        ("run: keep.c\nrun: a.c\n\tcc -o run $<\n", "run: keep.c", "run: add.c keep.c"),
        ("run: keep.c\n$(BIN): a.c\n\tcc -o run $<\n", "run: keep.c", "run: add.c keep.c"),
        ("run: keep.c\nrun: %: a.c\n\tcc -o run $<\n", "run: keep.c", "run: add.c keep.c"),
        ("run: old.c a.c\n\tcc -o run $<\n", "old.c", "new.c"),
        ("old.o: old.c\n", ": old.c", ": new.c"),
        // The first word is asked for.
        ("SRCS = keep.c\nMAIN = $(firstword $(SRCS))\n", "= keep.c", "= add.c keep.c"),
        ("SRCS = keep.c\nt:\n\tcc ${word 1,${SRCS}}\n", "= keep.c", "= add.c keep.c"),
        ("run: keep.c\n\tcc -o run $(firstword $^)\n", "run: keep.c", "run: add.c keep.c"),
        (
            "SRCS = keep.c\ndefine BUILD\ncc $(firstword $(SRCS))\nendef\n",
            "= keep.c",
            "= add.c keep.c",
        ),
        ("SRCS = keep.c\n$(call build,$(SRCS))\n", "= keep.c", "= add.c keep.c"),
        ("SRCS = keep.c\ninclude rules.mk\n", "= keep.c", "= add.c keep.c"),
        // The first word is a program, or the value of an option.
        ("MAIN = Main.java\nt:\n\tjava $(MAIN)\n", "= Main", "= Fake.java Main"),
        ("RUN = keep.o\nt:\n\t$(RUN) tests\n", "= keep", "= add.o keep"),
        ("RUN = keep.o\nALL = $(RUN) a.o\nt:\n\t./$(ALL) tests\n", "= keep", "= add.o keep"),
        ("t: Main.java\n\tjava $^\n", "t: Main", "t: Fake.java Main"),
        ("H = tests/t.h\nt:\n\tcc -include $(H) -o run tests/t.c\n", "= tests", "= add.h tests"),
        (
            "H = tests/t.h\nCFLAGS = -include\nt:\n\tcc $(CFLAGS) $(H) a.c\n",
            "= tests",
            "= add.h tests",
        ),
        ("H = tests/t.h\nCFLAGS = -Wall -include $(H)\n", "= tests", "= add.h tests"),
    ] {
        assert!(!only_adds(start, &start.replacen(from, to, 1), &Files), "{start} {to}");
    }
}

#[test]
fn tests_stay_in_lists_and_lines_that_may_change() {
    let line = |command: &str| format!("t:\n\t{command}\n");
    for (start, from, to) in [
        ("SRCS = tests/t.c old.c\n".to_owned(), "tests/t.c old.c", "new.c"),
        ("SRCS = keep.c a.c\n".to_owned(), "keep.c ", "new.c "),
        ("SRCS = old.c tests/t.c\n".to_owned(), "old.c tests/t.c", "tests/t.c tests/u.c"),
        ("SRCS = old.c tests/t.c\n".to_owned(), "old.c", "tests/t.o"),
        ("SRCS = old.c\n".to_owned(), "old.c", "-DNDEBUG"),
        ("SRCS = old.c\n".to_owned(), "old.c", "-include new.h"),
        ("SRCS = old.c\n".to_owned(), "old.c", "-lfake"),
        ("SRCS = old.c\n".to_owned(), "old.c", "libnew.a"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "tests/t.c ", ""),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "old.c tests/t.c", "new.c"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "&& ./run", "|| ./run"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), " && ./run", ""),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "&& ./run", "&& ./run new.c"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "old.c", "new.c && cc x.c"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "old.c", "-DNDEBUG"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "-o run", "new.c -o run"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "$(CC)", "new.c $(CC)"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "-o run", "-o new.c run"),
        (line("$(CC) -o run old.c tests/t.c && ./run"), "tests/t.c &&", "tests/t.c & &"),
        // The value of an option.
        (line("cc -o old.o tests/t.c keep.c && ./old.o"), "-o old.o", "-o"),
        (line("cc -include old.h tests/t.c && ./a.out"), "-include old.h", "-include"),
        (line("cc -include tests/t.h tests/t.c && ./a.out"), "-include", "-include new.h"),
        ("X = -include\nt:\n\tcc $(X) tests/t.h -o t\n".to_owned(), "$(X)", "$(X) new.h"),
        // In another folder the words are other files.
        (line("cd tests && cc -o run old.c && ./run"), "old.c", "new.c"),
        (line("true; cd tests && cc -o run old.c && ./run"), "old.c", "new.c"),
        (line("$(ENTER) && cc -o run old.c && ./run"), "old.c", "new.c"),
        (line("sh run.sh \"a && cc old.c && b\""), "old.c", "new.c"),
        (".ONESHELL:\nt:\n\tcd tests\n\tcc old.c\n".to_owned(), "old.c", "new.c"),
        (line("./run tests/t.c old.c"), "old.c", "new.c"),
    ] {
        let now = start.replacen(from, to, 1);
        assert_ne!(start, now, "{to}");
        assert!(!only_adds(&start, &now, &Files), "{start} {now}");
    }
}

#[test]
fn an_object_is_not_gone_with_its_header() {
    struct Gone;
    impl StartFiles for Gone {
        fn is_check_input(&self, _: &str) -> bool {
            false
        }
        fn has_stem(&self, _: &str) -> bool {
            true
        }
        fn has(&self, _: &str) -> bool {
            true
        }
        fn is_gone(&self, path: &str) -> bool {
            path == "sum.h"
        }
        fn is_in_a_line(&self, _: &str) -> bool {
            false
        }
    }
    assert!(!only_adds("OBJS = a.o sum.o\n", "OBJS = a.o\n", &Gone));
    assert!(only_adds("HEADERS = a.h sum.h\n", "HEADERS = a.h\n", &Gone));
}

#[test]
fn an_object_may_be_made_as_another_one_is() {
    let start = "OBJS = main.o\nLIBS ?= main.o\nall: app\n\napp: $(OBJS) libx.a\n\t$(CC) -o $@ $(OBJS)\n\nlibx.a: sum.o\n\
                 \tar rcs $@ sum.o\n\nsum.o: sum.c\n\t$(CC) -c sum.c\n\ntest: app\n\tsh test.sh\n\nclean:\n\trm -f app sum.o\n";
    let end = "clean:\n";
    for (from, to, expected) in [
        (end, "list.o: list.c list.h\n\t$(CC) -c list.c\n\nclean:\n", true),
        (end, "list.o: list.c\n\t$(CC) -DX -c list.c\n\nclean:\n", false),
        (end, "list.o: list.c\n\ttrue\n\nclean:\n", false),
        (end, "list.o: list.c run\n\t$(CC) -c list.c\n\nclean:\n", false),
        (end, "main.o: main.c\n\t$(CC) -c main.c\n\nclean:\n", false),
        (end, "test_a.o: test_a.c\n\t$(CC) -c test_a.c\n\nclean:\n", false),
        ("all: app\n", "list.o: list.c\n\t$(CC) -c list.c\nall: app\n", false),
        ("OBJS = main.o\n", "OBJS = main.o\nOBJS += list.o\n", true),
        ("OBJS = main.o\n", "OBJS = main.o\nOBJS += test_a.o\n", false),
        ("OBJS = main.o\n", "OBJS = main.o\nOBJS += -lm\n", false),
        ("OBJS = main.o\n", "LIBS += list.o\nOBJS = main.o\n", false),
        ("OBJS = main.o\n", "OBJS = main.o\nCFLAGS += list.o\n", false),
        ("\tar rcs $@ sum.o\n", "\tar rcs $@ sum.o list.o\n", true),
        ("\tar rcs $@ sum.o\n", "\tar rcs $@ sum.o test_a.o\n", false),
        ("\trm -f app sum.o\n", "\trm -f app list.o sum.o\n", true),
        ("\trm -f app sum.o\n", "\trm -f app sum.o run.log\n", false),
        ("\trm -f app sum.o\n", "\trm -f app main.o sum.o\n", false),
    ] {
        let now = start.replacen(from, to, 1);
        assert_ne!(now, start, "{from}");
        assert_eq!(only_adds(start, &now, &Files), expected, "{to}");
    }
}
