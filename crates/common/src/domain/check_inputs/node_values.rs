//! Values of `package.json` by which scripts and tests of the start find check inputs.

use super::convention_of;
use super::keys_back::put;
use crate::domain::json::Value;

/// The groups of values that npm gives to scripts by the environment.
const GROUPS: [&str; 2] = ["config", "directories"];

/// Gives these values back as they were at the start: those that a script of the start names, and the places of check
/// inputs in `imports`, `exports` and `main`.
pub(super) fn values_of_checks(start: &Value, now: &mut Value) {
    let Value::Object(members) = now else { return };
    let object = |key: &str| start.get(key).and_then(Value::as_object).unwrap_or_default();
    let scripts = object("scripts").iter().filter_map(|(_, script)| script.as_str());
    let scripts: Vec<&str> = scripts.collect();
    for group in GROUPS {
        let is_named = |key: &str| {
            let name = format!("npm_package_{group}_{key}");
            scripts.iter().any(|script| script.contains(&name))
        };
        let own = object(group).iter().filter(|(key, _)| is_named(key));
        own.for_each(|(key, value)| put_inside(members, group, (key, value)));
    }
    for group in ["imports", "exports"] {
        // The keys of `exports` may be conditions of its one place.
        let is_place = |key: &str| group == "imports" || key.starts_with('.');
        let own = object(group).iter().filter(|(key, it)| is_place(key) && is_check_input(it));
        own.for_each(|(key, value)| put_inside(members, group, (key, value)));
    }
    let has_places = object("exports").iter().any(|(key, _)| key.starts_with('.'));
    if let Some(place) = start.get("exports").filter(|it| !has_places && is_check_input(it)) {
        put(members, "exports", Some(place.clone()));
    }
    if let Some(main) = start.get("main").filter(|main| is_check_input(main)) {
        put(members, "main", Some(main.clone()));
    }
}

/// Whether a target, under any condition, is a check input by its name.
fn is_check_input(target: &Value) -> bool {
    let is_one = |path: &str| convention_of(path.trim_start_matches("./")).is_some();
    target.as_str().is_some_and(is_one)
        || target.as_object().unwrap_or_default().iter().any(|(_, it)| is_check_input(it))
}

fn put_inside(members: &mut Vec<(String, Value)>, group: &str, (key, value): (&str, &Value)) {
    match members.iter_mut().find(|(name, _)| name == group) {
        Some((_, Value::Object(inside))) => put(inside, key, Some(value.clone())),
        Some(_) | None => {
            let inside = Value::Object(vec![(key.to_owned(), value.clone())]);
            put(members, group, Some(inside));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;

    #[test]
    fn what_scripts_and_tests_of_the_start_are_led_to_stays() {
        let value = |text: &str| json::parse(text).unwrap().value;
        let start = value(
            r##"{"main":"test/run.js","scripts":{"test":"node $npm_package_config_runner"},
                "config":{"runner":"test/a.js","port":"1"},
                "imports":{"#check":{"node":"./test/check.js"},"#lib":"./src/a.js"}}"##,
        );
        let mut now = value(
            r##"{"main":"src/run.js","config":{"runner":"x.js","port":"2"},"imports":{"#lib":"./src/b.js"}}"##,
        );
        values_of_checks(&start, &mut now);
        let expected = value(
            r##"{"main":"test/run.js","config":{"runner":"test/a.js","port":"2"},
                "imports":{"#lib":"./src/b.js","#check":{"node":"./test/check.js"}}}"##,
        );
        assert_eq!(now.to_canonical(), expected.to_canonical());
        for (start, now, expected) in [
            (
                r#"{"exports":{".":"./src/a.js","./testing":{"default":"./test/same.js"}}}"#,
                r#"{"exports":{".":"./src/b.js","./testing":"./src/same.js"}}"#,
                r#"{"exports":{".":"./src/b.js","./testing":{"default":"./test/same.js"}}}"#,
            ),
            (
                r#"{"exports":{"import":"./test/a.mjs","default":"./test/a.cjs"}}"#,
                r#"{"exports":"./src/a.js"}"#,
                r#"{"exports":{"import":"./test/a.mjs","default":"./test/a.cjs"}}"#,
            ),
            (r#"{"exports":"./test/a.js"}"#, r#"{}"#, r#"{"exports":"./test/a.js"}"#),
            (
                r#"{"exports":{".":"./src/a.js"}}"#,
                r#"{"exports":"./b.js"}"#,
                r#"{"exports":"./b.js"}"#,
            ),
        ] {
            let mut now = value(now);
            values_of_checks(&value(start), &mut now);
            assert_eq!(now.to_canonical(), value(expected).to_canonical());
        }
        let start = value(r#"{"main":"index.js","scripts":{"test":"jest"},"config":{"port":"1"}}"#);
        let mut now = value(r#"{"main":"lib.js","config":{"port":"2"}}"#);
        let before = now.clone();
        values_of_checks(&start, &mut now);
        assert_eq!(now.to_canonical(), before.to_canonical());
    }
}
