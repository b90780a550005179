//! Where manifests and lock files of JavaScript and PHP take the packages from that tests are written with.

use super::dependency_lists::is_redirected;
use super::json_text::plain;
use super::keys_back::{KeysBack, Paths, put};
use crate::domain::json::{self, Value};

/// Keys with packages and their versions.
const DEPENDENCIES: &[&str] =
    &["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];
/// Keys by which a package is another one wherever it is asked for.
const OVERRIDES: &[&str] = &["overrides", "resolutions"];

/// Gives packages of tests in a `package.json` the origin that they had at the start.
pub(super) fn package_origins(start: &Value, now: &mut Value, paths: &dyn Paths) {
    let Value::Object(members) = now else { return };
    own_name("node", start, members, paths);
    for key in DEPENDENCIES {
        let Some(own) = object_mut(members, key) else { continue };
        for (name, version) in own.iter_mut() {
            let is_one = paths.origin_of("node", name).is_some();
            let is_elsewhere = version.as_str().is_some_and(is_redirected);
            let old = DEPENDENCIES.iter().find_map(|key| start.get(key)?.get(name));
            if is_one && is_elsewhere && old.is_some_and(|old| old != version) {
                old.into_iter().for_each(|old| version.clone_from(old));
            }
        }
    }
    for key in OVERRIDES {
        overrides(start.get(key), members, key, paths);
    }
    if let Some(pnpm) = object_mut(members, "pnpm") {
        overrides(start.get("pnpm").and_then(|it| it.get("overrides")), pnpm, "overrides", paths);
    }
}

/// A package that takes the name of one of tests is found in its place: by a workspace, and by its own files.
pub(super) fn own_name(
    ecosystem: &str,
    start: &Value,
    members: &mut Vec<(String, Value)>,
    paths: &dyn Paths,
) {
    let named = members.iter().find(|(key, _)| key == "name").and_then(|(_, name)| name.as_str());
    let is_one = named.is_some_and(|name| paths.origin_of(ecosystem, name).is_some());
    if is_one && start.get("name").and_then(Value::as_str) != named {
        put(members, "name", start.get("name").cloned());
    }
}

/// Takes out what the run put in the place of a package of tests. One that a product asks for may be a copy of its own.
fn overrides(
    start: Option<&Value>,
    members: &mut Vec<(String, Value)>,
    key: &str,
    paths: &dyn Paths,
) {
    let Some(own) = object_mut(members, key) else { return };
    own.retain_mut(|(selector, value)| {
        let old = start.and_then(|start| start.get(selector));
        if old == Some(&*value) || !redirects_tests(selector, value, paths) {
            return true;
        }
        old.is_some_and(|old| {
            value.clone_from(old);
            true
        })
    });
    if own.is_empty() {
        put(members, key, None);
    }
}

/// Whether an entry leads a package of tests elsewhere. Below the name of a package stand its own dependencies.
fn redirects_tests(selector: &str, value: &Value, paths: &dyn Paths) -> bool {
    let is_one = |name: &str| paths.origin_of("node", name).is_some();
    match value {
        Value::String(version) => is_redirected(version) && selected(selector).any(is_one),
        Value::Object(inside) => {
            selected(selector).any(is_one) && inside.iter().any(|(_, it)| has_redirection(it))
                || inside.iter().any(|(name, it)| redirects_tests(name, it, paths))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

fn has_redirection(value: &Value) -> bool {
    match value {
        Value::String(version) => is_redirected(version),
        Value::Object(inside) => inside.iter().any(|(_, it)| has_redirection(it)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

/// The packages of a selector such as `a>b@1`, `a/b` and `**/@c/d`.
fn selected(selector: &str) -> impl Iterator<Item = &str> {
    // A scope has this mark in front.
    let without = |name: &'_ str| {
        name.rfind('@').filter(|at| *at > 0 && name.as_bytes().get(at - 1) != Some(&b'/'))
    };
    let parts = selector.split('>').flat_map(move |part| {
        let part = part.trim();
        let part = without(part).and_then(|at| part.get(..at)).unwrap_or(part);
        let last = part.rsplit('/').next().unwrap_or(part);
        let scoped = part.rfind('@').and_then(|at| part.get(at..));
        [Some(part), Some(last), scoped].into_iter().flatten()
    });
    parts.filter(|name| !name.is_empty())
}

/// A lock file of npm or Composer with the packages of tests of the start, where they come from elsewhere now.
pub(super) fn merged_lock(start: &str, now: &str, paths: &dyn Paths) -> Option<KeysBack> {
    let read = |text: &str| json::parse(text).ok().map(|parsed| parsed.value);
    let (Some(start), Some(mut now)) = (read(start), read(now)) else { return None };
    let before = now.to_canonical();
    let Value::Object(members) = &mut now else { return None };
    if let Some(packages) = object_mut(members, "packages") {
        let old = |place: &str| start.get("packages")?.get(place);
        for (place, entry) in packages.iter_mut() {
            let Some(name) = place.rsplit("node_modules/").next().filter(|it| *it != place) else {
                continue;
            };
            // What only tests need is marked.
            let of_tests =
                |entry: &Value| entry.get("dev").is_some_and(|it| it == &Value::Bool(true));
            let before = old(place);
            let is_one = paths.origin_of("node", name).is_some() || before.is_some_and(of_tests);
            if is_one
                && is_local_entry(entry)
                && let Some(before) = before
            {
                entry.clone_from(before);
            }
        }
    }
    for key in ["packages", "packages-dev"] {
        let own = members.iter_mut().find(|(known, _)| known == key);
        let Some((_, Value::Array(own))) = own else { continue };
        let name = |entry: &Value| entry.get("name").and_then(Value::as_str).map(str::to_owned);
        let old = start.get(key).and_then(Value::as_array).unwrap_or_default();
        for entry in own {
            let before = old.iter().find(|old| name(old) == name(entry));
            let is_path = |it: &Value| {
                it.get("dist").and_then(|dist| dist.get("type")?.as_str()) == Some("path")
            };
            let is_one = key == "packages-dev"
                || name(entry).is_some_and(|name| paths.origin_of("php", &name).is_some());
            if is_one
                && is_path(entry)
                && let Some(before) = before
            {
                entry.clone_from(before);
            }
        }
    }
    (now.to_canonical() != before).then(|| KeysBack::Merged(now.to_compact()))
}

/// Whether a package of a lock file lies in the workspace, or comes from a repository.
fn is_local_entry(entry: &Value) -> bool {
    let resolved = entry.get("resolved").and_then(Value::as_str).unwrap_or_default();
    entry.get("link") == Some(&Value::Bool(true))
        || !resolved.is_empty()
            && !resolved.starts_with("https://")
            && !resolved.starts_with("http://")
}

/// Names that lead to a file of the workspace in the place of a package of tests: `imports` of Deno, `paths` of TypeScript.
pub(super) fn name_maps(start: Option<&Value>, own: &mut Vec<(String, Value)>, paths: &dyn Paths) {
    own.retain_mut(|(name, target)| {
        let name = name.trim_end_matches("/*").trim_end_matches('/');
        let is_known = paths.origin_of("node", name).is_some() || is_library_of_deno(name);
        let leads_home = match &*target {
            Value::String(target) => target.starts_with(['.', '/']),
            Value::Array(_) => true,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
        };
        let old = start.and_then(|start| start.get(name));
        if !is_known || !leads_home || old == Some(&*target) {
            return true;
        }
        old.is_some_and(|old| {
            target.clone_from(old);
            true
        })
    });
}

fn is_library_of_deno(name: &str) -> bool {
    ["@std/assert", "@std/testing", "@std/expect", "std/assert", "std/testing"]
        .iter()
        .any(|known| name.trim_start_matches("jsr:").starts_with(known))
}

/// A `composer.json` with the origins of packages of tests of the start.
pub(super) fn composer_origins(start: &Value, now: &mut Value, paths: &dyn Paths) {
    let Value::Object(members) = now else { return };
    own_name("php", start, members, paths);
    let required = |value: &Value| {
        value.get("require").and_then(Value::as_object).map_or(0, <[(String, Value)]>::len)
    };
    let (more, before) = (Value::Object(members.clone()), start.get("repositories"));
    // A package of a product may come with a repository of its own.
    if required(&more) > required(start) {
        return;
    }
    let own = members.iter_mut().find(|(key, _)| key == "repositories");
    let is_local = |entry: &Value| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        matches!(text("type"), "path" | "artifact" | "package")
            || text("url").starts_with(['.', '/'])
            || text("url").starts_with("file:")
    };
    match own {
        Some((_, Value::Array(own))) => {
            let old = before.and_then(Value::as_array).unwrap_or_default();
            own.retain(|entry| old.contains(entry) || !is_local(entry));
        }
        Some((_, Value::Object(own))) => own.retain(|(key, entry)| {
            before.and_then(|before| before.get(key)) == Some(entry) || !is_local(entry)
        }),
        Some(_) | None => {}
    }
}

/// Text of a manifest in JSON, whatever comments it has.
pub(super) fn read(text: &str) -> Option<Value> {
    json::parse(&plain(text)).ok().map(|parsed| parsed.value)
}

fn object_mut<'v>(
    members: &'v mut [(String, Value)],
    key: &str,
) -> Option<&'v mut Vec<(String, Value)>> {
    match members.iter_mut().find(|(known, _)| known == key) {
        Some((_, Value::Object(inside))) => Some(inside),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys_back::Known;
    use super::*;

    const KNOWN: Known =
        Known { registry: &["chai", "@c/checks", "phpunit/phpunit"], ..Known::NOTHING };

    fn after(start: &str, now: &str) -> String {
        let mut own = read(now).unwrap();
        package_origins(&read(start).unwrap(), &mut own, &KNOWN);
        own.to_compact()
    }

    #[test]
    fn a_package_of_tests_comes_from_where_the_start_took_it() {
        let start = r#"{"name":"a","dependencies":{"p":"1"},"devDependencies":{"chai":"^4"}}"#;
        for (now, expected) in [
            (start.replace("\"^4\"", "\"file:./fake\""), start.to_owned()),
            (start.replace("\"^4\"", "\"npm:fake@1\""), start.to_owned()),
            (start.replace("\"^4\"", "\"me/chai\""), start.to_owned()),
            (start.replace("\"a\"", "\"chai\""), start.to_owned()),
            (
                start.replace("{\"p\":\"1\"}", "{\"p\":\"1\",\"chai\":\"link:x\"}"),
                start.replace("{\"p\":\"1\"}", "{\"p\":\"1\",\"chai\":\"^4\"}"),
            ),
            (start.replace("}}", "},\"overrides\":{\"chai\":\"file:x\"}}"), start.to_owned()),
            (
                start.replace(
                    "}}",
                    "},\"resolutions\":{\"**/@c/checks\":\"link:x\",\"p\":\"link:y\"}}",
                ),
                start.replace("}}", "},\"resolutions\":{\"p\":\"link:y\"}}"),
            ),
            (
                start.replace("}}", "},\"overrides\":{\"chai\":{\"deep-eql\":\"file:x\"}}}"),
                start.to_owned(),
            ),
            (
                start.replace("}}", "},\"pnpm\":{\"overrides\":{\"p>chai@4\":\"file:x\"}}}"),
                start.replace("}}", "},\"pnpm\":{}}"),
            ),
        ] {
            assert_eq!(after(start, &now), expected, "{now}");
        }
        for honest in [
            start.replace("\"^4\"", "\"^5\""),
            start.replace("\"1\"", "\"file:./p\""),
            start.replace("\"chai\":\"^4\"", ""),
            start.replace("\"chai\"", "\"new\":\"file:new\",\"chai\""),
            start.replace("}}", "},\"overrides\":{\"chai\":\"4.3.1\",\"q\":\"file:q\"}}"),
        ] {
            assert_eq!(after(start, &honest), read(&honest).unwrap().to_compact(), "{honest}");
        }
    }

    #[test]
    fn a_lock_file_does_not_lead_a_package_of_tests_elsewhere() {
        let entry = |resolved: &str, more: &str| {
            format!(r#"{{"version":"4.0.0","resolved":"{resolved}"{more}}}"#)
        };
        let lock = |chai: &str, eql: &str, p: &str| {
            format!(
                r#"{{"packages":{{"":{{"name":"a"}},"node_modules/chai":{chai},"node_modules/deep-eql":{eql},"node_modules/p":{p}}}}}"#
            )
        };
        let far = entry("https://registry.npmjs.org/x.tgz", "");
        let dev = entry("https://registry.npmjs.org/x.tgz", r#","dev":true"#);
        let home = entry("file:x.tgz", "");
        let link = r#"{"resolved":"fake","link":true}"#;
        let start = lock(&far, &dev, &far);
        for now in [lock(&home, &dev, &far), lock(link, &home, &far)] {
            assert_eq!(merged_lock(&start, &now, &KNOWN), Some(KeysBack::Merged(start.clone())));
        }
        let raised = lock(&far.replace("4.0.0", "5.0.0"), &dev, &home);
        assert_eq!(merged_lock(&start, &raised, &KNOWN), None);
        let composer = |kind: &str| {
            format!(
                r#"{{"packages-dev":[{{"name":"phpunit/phpunit","dist":{{"type":"{kind}","url":"x"}}}}]}}"#
            )
        };
        let found = merged_lock(&composer("zip"), &composer("path"), &KNOWN);
        assert_eq!(found, Some(KeysBack::Merged(composer("zip"))));
    }

    #[test]
    fn names_and_repositories_do_not_lead_to_the_workspace() {
        let members = |text: &str| match read(text) {
            Some(Value::Object(members)) => members,
            _ => panic!("an object"),
        };
        let mut own = members(r#"{"chai":["./fake"],"@app/*":["./src/*"],"@std/assert":"./x.ts"}"#);
        name_maps(None, &mut own, &KNOWN);
        assert_eq!(own, members(r#"{"@app/*":["./src/*"]}"#));
        let start = read(r#"{"name":"a/b","require":{"c/d":"1"}}"#).unwrap();
        let path = r#""repositories":[{"type":"path","url":"./fake"},{"type":"composer","url":"https://x"}]"#;
        let mut now = read(&format!(r#"{{"name":"a/b","require":{{"c/d":"1"}},{path}}}"#)).unwrap();
        composer_origins(&start, &mut now, &KNOWN);
        let left = now.get("repositories").and_then(Value::as_array).unwrap();
        assert_eq!(left.len(), 1);
        let more = format!(r#"{{"name":"a/b","require":{{"c/d":"1","own/own":"@dev"}},{path}}}"#);
        let mut now = read(&more).unwrap();
        composer_origins(&start, &mut now, &KNOWN);
        assert_eq!(now, read(&more).unwrap());
    }
}
