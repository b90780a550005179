//! The parts of build files that decide how tests run: elements of a `pom.xml` and of .NET projects, directives of
//! a `go.mod`, blocks of a Gradle build. A view gets those of the start in the file of now.
//!
//! ```text
//!   start, now --parts--> the same: nothing to do
//!                         others:   those of now are taken out, those of the start are put in
//!                         no place: the file of the start
//! ```

use super::blocks::blocks;
use super::keys_back::KeysBack;
use super::xml::{Element, elements, text_of};
use std::ops::Range;

/// Properties of a `pom.xml`, and what further ones begin with.
const POM_PROPERTIES: &[&str] =
    &["argLine", "excludedGroups", "groups", "it.test", "skipITs", "skipTests", "test"];
const POM_PREFIXES: &[&str] = &["failsafe.", "maven.test.", "surefire."];
/// Plugins that run tests.
const POM_PLUGINS: &[&str] = &["maven-failsafe-plugin", "maven-surefire-plugin"];
/// Where the tests lie.
const POM_PLACES: &[&str] = &["testResources", "testSourceDirectory"];
/// Properties of .NET projects about tests and warnings.
const NET_PROPERTIES: &[&str] = &[
    "CollectCoverage",
    "EnableMSTestRunner",
    "EnableNUnitRunner",
    "IsTestProject",
    "IsTestingPlatformApplication",
    "NoWarn",
    "RunSettingsFilePath",
    "TestingPlatformCommandLineArguments",
    "TestingPlatformDotnetTestSupport",
    "Threshold",
    "TreatWarningsAsErrors",
    "UseMicrosoftTestingPlatformRunner",
    "VSTestListTests",
    "VSTestSetting",
    "VSTestTestCaseFilter",
    "WarningsAsErrors",
    "WarningsNotAsErrors",
];
/// Modules that tests of Go assert with, or run by; those below them too.
const GO_LIBRARIES: &[&str] = &[
    "github.com/frankban/quicktest",
    "github.com/golang/mock",
    "github.com/google/go-cmp",
    "github.com/matryer/is",
    "github.com/onsi/ginkgo",
    "github.com/onsi/gomega",
    "github.com/smartystreets/goconvey",
    "github.com/stretchr/testify",
    "go.uber.org/mock",
    "gopkg.in/check.v1",
    "gotest.tools",
];

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// The elements around it, where that matters.
    above: Vec<String>,
    span: Range<usize>,
    text: String,
}

impl Part {
    /// Whether two parts say the same: white space does not count.
    fn says(&self) -> (Vec<String>, String) {
        (self.above.clone(), self.text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// A `pom.xml` with the test parts of the start; none where they are the same.
pub(super) fn merged_pom(start: &str, now: &str) -> Option<KeysBack> {
    merged_xml(start, now, &pom_parts, &|now, above| {
        let found: Vec<_> = now.iter().filter(|element| element.path == above).collect();
        let [parent] = found.as_slice() else { return None };
        Some((parent.content.end, String::new(), String::new()))
    })
}

/// The same for a project of .NET: what is put in stands at the end of the project, where it wins.
pub(super) fn merged_net(start: &str, now: &str) -> Option<KeysBack> {
    merged_xml(start, now, &net_parts, &|now, above| {
        let group = above.last().map_or("", String::as_str);
        let root = now.iter().find(|element| element.path.len() == 1)?;
        Some((root.content.end, format!("<{group}>"), format!("</{group}>\n")))
    })
}

/// Where a part is put in, and the tags around it.
type Place = (usize, String, String);
/// Finds the place inside the element with this path.
type FindPlace<'f> = &'f dyn Fn(&[Element], &[String]) -> Option<Place>;

fn merged_xml(
    start: &str,
    now: &str,
    parts: &dyn Fn(&str, &[Element]) -> Vec<Part>,
    place: FindPlace<'_>,
) -> Option<KeysBack> {
    let Some(old) = elements(start) else { return Some(KeysBack::Lost) };
    let Some(new) = elements(now) else { return Some(KeysBack::Original) };
    let (old, own) = (parts(start, &old), parts(now, &new));
    if old.iter().map(Part::says).eq(own.iter().map(Part::says)) {
        return None;
    }
    let mut edits: Vec<(Range<usize>, String)> =
        own.into_iter().map(|part| (part.span, String::new())).collect();
    for part in old {
        let Some((at, before, after)) = place_of(&new, &part.above, place) else {
            return Some(KeysBack::Original);
        };
        edits.push((at..at, format!("{before}{}{after}\n", part.text)));
    }
    Some(edited(now, edits))
}

/// Where a part is put in: inside the element that it stood in, else in one that is made for it.
fn place_of(now: &[Element], above: &[String], place: FindPlace<'_>) -> Option<Place> {
    if let Some(found) = place(now, above) {
        return Some(found);
    }
    let (own, outer) = above.split_last()?;
    if outer.is_empty() || now.iter().any(|element| element.path == above) {
        return None;
    }
    let (at, before, after) = place_of(now, outer, place)?;
    Some((at, format!("{before}<{own}>"), format!("</{own}>{after}")))
}

/// A text with some places exchanged; the original where they overlap.
fn edited(text: &str, mut edits: Vec<(Range<usize>, String)>) -> KeysBack {
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (span, new) in edits {
        let Some(kept) = text.get(at..span.start) else { return KeysBack::Original };
        out.push_str(kept);
        out.push_str(&new);
        at = span.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    KeysBack::Merged(out)
}

fn part(text: &str, element: &Element) -> Part {
    let above = element.path.split_last().map(|(_, above)| above.to_vec()).unwrap_or_default();
    let own = text.get(element.span.clone()).unwrap_or_default().to_owned();
    Part { above, span: element.span.clone(), text: own }
}

fn pom_parts(text: &str, found: &[Element]) -> Vec<Part> {
    let runs_tests = |plugin: &Element| {
        found.iter().any(|element| {
            element.name() == "artifactId"
                && element.path.len() == plugin.path.len() + 1
                && plugin.holds(element)
                && POM_PLUGINS.contains(&text_of(text, element))
        })
    };
    let is_one = |element: &&Element| match (element.parent(), element.name()) {
        ("properties", name) => {
            POM_PROPERTIES.contains(&name)
                || POM_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        }
        (_, "plugin") => runs_tests(element),
        (_, "systemPath") => true,
        ("repositories" | "pluginRepositories", _) => {
            let own = text.get(element.span.clone()).unwrap_or_default();
            ["file:", "${basedir}", "${project."].iter().any(|place| own.contains(place))
        }
        ("build", name) => POM_PLACES.contains(&name),
        (_, _) => false,
    };
    found.iter().filter(is_one).map(|element| part(text, element)).collect()
}

fn net_parts(text: &str, found: &[Element]) -> Vec<Part> {
    let is_one = |element: &&Element| match (element.parent(), element.name()) {
        ("PropertyGroup", name) => NET_PROPERTIES.contains(&name),
        // A test that is not compiled does not run.
        ("ItemGroup", "Compile") => {
            let tag = text.get(element.tag.clone()).unwrap_or_default();
            [" Remove=", " Exclude="].iter().any(|word| tag.contains(word))
        }
        (_, _) => false,
    };
    found.iter().filter(is_one).map(|element| part(text, element)).collect()
}

/// A `go.mod` with the directives about test libraries of the start.
pub(super) fn merged_go(start: &str, now: &str) -> Option<KeysBack> {
    let (old, own) = (go_parts(start), go_parts(now));
    if old.iter().map(Part::says).eq(own.iter().map(Part::says)) {
        return None;
    }
    let mut edits: Vec<(Range<usize>, String)> =
        own.into_iter().map(|part| (part.span, String::new())).collect();
    let lines: String = old.into_iter().map(|part| format!("{}\n", part.text)).collect();
    let end = if now.ends_with('\n') { "" } else { "\n" };
    edits.push((now.len()..now.len(), format!("{end}{lines}")));
    Some(edited(now, edits))
}

/// Lines that replace a test library, or exclude a version of it, each as a directive of its own.
fn go_parts(text: &str) -> Vec<Part> {
    let (mut parts, mut at) = (Vec::new(), 0);
    let mut block: Option<String> = None;
    for line in text.split_inclusive('\n') {
        let span = at..at + line.len();
        at = span.end;
        let body = line.split("//").next().unwrap_or_default().trim();
        let directive = match &block {
            Some(_) if body == ")" => {
                block = None;
                continue;
            }
            Some(word) => format!("{word} {body}"),
            None => match body.strip_suffix('(') {
                Some(word) => {
                    block = Some(word.trim().to_owned());
                    continue;
                }
                None => body.to_owned(),
            },
        };
        let mut words = directive.split_whitespace();
        let (Some("replace" | "exclude"), Some(module)) = (words.next(), words.next()) else {
            continue;
        };
        let is_below = |library: &&str| {
            module
                .strip_prefix(*library)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if GO_LIBRARIES.iter().any(is_below) {
            parts.push(Part { above: Vec::new(), span, text: directive });
        }
    }
    parts
}

/// A Gradle build with the blocks about tests of the start. Where something about tests outside of such blocks
/// changed, it is the build of the start.
pub(super) fn merged_gradle(start: &str, now: &str) -> Option<KeysBack> {
    let Some(old) = gradle_parts(start) else { return Some(KeysBack::Lost) };
    let Some(own) = gradle_parts(now) else { return Some(KeysBack::Original) };
    let says = |(blocks, others): &(Vec<Part>, Vec<String>)| {
        (blocks.iter().map(Part::says).collect::<Vec<_>>(), others.clone())
    };
    let (before, after) = (says(&old), says(&own));
    if before == after {
        return None;
    }
    if before.1 != after.1 {
        return Some(KeysBack::Original);
    }
    let mut edits: Vec<(Range<usize>, String)> =
        own.0.into_iter().map(|part| (part.span, String::new())).collect();
    let blocks: String = old.0.into_iter().map(|part| format!("\n{}\n", part.text)).collect();
    edits.push((now.len()..now.len(), blocks));
    Some(edited(now, edits))
}

/// The blocks of a build that configure tests, and the other statements at its top that mention them.
fn gradle_parts(text: &str) -> Option<(Vec<Part>, Vec<String>)> {
    let (mut parts, mut others) = (Vec::new(), Vec::new());
    for block in blocks(text)? {
        let head: String = block.head.split_whitespace().collect();
        let is_of_tests = ["test", "tasks.test", "integrationTest", "tasks.integrationTest"]
            .contains(&head.as_str())
            || [
                "tasks.withType<Test>",
                "tasks.withType(Test)",
                "tasks.named<Test>(\"test\")",
                "tasks.named(\"test\")",
                "tasks.named('test')",
            ]
            .iter()
            .any(|known| head.starts_with(known));
        let own = text.get(block.span.clone())?;
        if is_of_tests && block.has_body {
            let text = own.trim().to_owned();
            parts.push(Part { above: Vec::new(), span: block.span, text });
        } else if head.contains("test.") || head.contains("Test>") || configures_tests(own) {
            others.push(own.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    Some((parts, others))
}

/// Whether a statement that holds others, such as `subprojects`, says something about tests.
fn configures_tests(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "ignoreFailures",
        "excludeTestsMatching",
        "tasks.test",
        "withType<Test>",
        "withType(Test",
    ];
    let opens = |line: &str| {
        line.split_whitespace().collect::<String>().starts_with("test{")
            || line.contains("named") && line.contains("test")
    };
    WORDS.iter().any(|word| text.contains(word)) || text.lines().any(opens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(found: Option<KeysBack>) -> String {
        match found {
            Some(KeysBack::Merged(text)) => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Some(KeysBack::Original) => "original".to_owned(),
            Some(KeysBack::Lost) => "lost".to_owned(),
            None => "same".to_owned(),
        }
    }

    #[test]
    fn the_test_parts_of_a_pom_are_those_of_the_start() {
        let surefire = |more: &str| {
            format!(
                "<plugin><artifactId>maven-surefire-plugin</artifactId><configuration>{more}</configuration></plugin>"
            )
        };
        let other = "<plugin><artifactId>maven-jar-plugin</artifactId></plugin>";
        let start = format!(
            "<project><properties><java>17</java></properties><build><plugins>{}{other}</plugins></build></project>",
            surefire("<a/>")
        );
        let skips = start.replace("<java>17</java>", "<java>21</java><skipTests>true</skipTests>");
        let expected = start.replace("17", "21");
        assert_eq!(back(merged_pom(&start, &start.replace("17", "21"))), "same");
        let found = back(merged_pom(&start, &skips));
        assert!(found.contains("<java>21</java>") && !found.contains("skipTests"), "{found}");
        assert_eq!(back(merged_pom(&start, &found)), "same");
        let weakened = expected
            .replace(&surefire("<a/>"), &surefire("<testFailureIgnore>true</testFailureIgnore>"));
        let found = back(merged_pom(&start, &weakened));
        assert!(
            found.contains("<a/>") && !found.contains("Ignore") && found.contains("21"),
            "{found}"
        );
        // The element that it stood in is gone.
        let none = "<project><properties><java>21</java></properties></project>";
        let found = back(merged_pom(&start, none));
        assert!(found.contains("<build><plugins><plugin><artifactId>maven-surefire"), "{found}");
        assert_eq!(merged_pom(&start, "<project>"), Some(KeysBack::Original));
        assert_eq!(merged_pom("<project>", &start), Some(KeysBack::Lost));
    }

    #[test]
    fn the_test_parts_of_other_builds_are_those_of_the_start() {
        let net = "<Project><PropertyGroup><TargetFramework>net8.0</TargetFramework><IsTestProject>true</IsTestProject></PropertyGroup></Project>";
        let off = net.replace("true", "false").replace("net8.0", "net9.0").replace(
            "</Project>",
            "<ItemGroup><Compile Remove=\"Slow*.cs\"/></ItemGroup></Project>",
        );
        let found = back(merged_net(net, &off));
        assert!(found.contains("net9.0") && !found.contains("Remove"), "{found}");
        assert!(
            found.contains("<IsTestProject>true</IsTestProject>") && !found.contains(">false<"),
            "{found}"
        );
        let go = "module a\n\nrequire github.com/stretchr/testify v1.9.0\n";
        let redirected =
            format!("{go}replace (\n\tgithub.com/stretchr/testify => ./fake\n\tb => ./b\n)\n");
        let found = back(merged_go(go, &redirected));
        assert!(!found.contains("./fake") && found.contains("b => ./b"), "{found}");
        assert_eq!(back(merged_go(go, &format!("{go}replace b => ./b\n"))), "same");
        let gradle = "plugins { id 'java' }\n\ntest {\n    useJUnitPlatform()\n}\n";
        let excluded = gradle
            .replace("useJUnitPlatform()", "exclude '**/Slow*'")
            .replace("java", "java-library");
        let found = back(merged_gradle(gradle, &excluded));
        assert_eq!(found, "plugins { id 'java-library' } test { useJUnitPlatform() }");
        for more in ["test.enabled = false", "subprojects {\n  test {\n    enabled = false\n  }\n}"]
        {
            assert_eq!(back(merged_gradle(gradle, &format!("{gradle}{more}\n"))), "original");
        }
        assert_eq!(back(merged_gradle(gradle, &gradle.replace("java", "application"))), "same");
    }
}
