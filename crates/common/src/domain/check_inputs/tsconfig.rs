//! The keys of a `tsconfig.json` that decide which tests are compiled, and how strictly.

use super::json_text::plain;
use super::keys_back::{KeysBack, Paths, put};
use super::node_origins::name_maps;
use crate::domain::json::{self, Value};

/// Keys that are as at the start.
const KEYS: &[&str] = &["exclude", "extends", "references", "ts-node"];
/// Options of the compiler that are.
const OPTIONS: &[&str] = &[
    "allowJs",
    "allowUnreachableCode",
    "allowUnusedLabels",
    "alwaysStrict",
    "baseUrl",
    "checkJs",
    "erasableSyntaxOnly",
    "exactOptionalPropertyTypes",
    "isolatedDeclarations",
    "isolatedModules",
    "lib",
    "noCheck",
    "noEmitOnError",
    "noFallthroughCasesInSwitch",
    "noImplicitAny",
    "noImplicitOverride",
    "noImplicitReturns",
    "noImplicitThis",
    "noLib",
    "noPropertyAccessFromIndexSignature",
    "noResolve",
    "noUncheckedIndexedAccess",
    "noUncheckedSideEffectImports",
    "noUnusedLocals",
    "noUnusedParameters",
    "skipDefaultLibCheck",
    "skipLibCheck",
    "strict",
    "strictBindCallApply",
    "strictBuiltinIteratorReturn",
    "strictFunctionTypes",
    "strictNullChecks",
    "strictPropertyInitialization",
    "suppressImplicitAnyIndexErrors",
    "typeRoots",
    "types",
    "useUnknownInCatchVariables",
];
/// Lists that keep what they had, and may have more.
const LISTS: &[&str] = &["files", "include"];

/// Whether a file is such a configuration.
pub(super) fn is_tsconfig(name: &str) -> bool {
    name == "jsconfig.json"
        || name
            .strip_prefix("tsconfig")
            .is_some_and(|rest| rest == ".json" || rest.starts_with('.') && rest.ends_with(".json"))
}

/// The configuration of now with these keys of the start; none where they are the same.
pub(super) fn merged_tsconfig(start: &str, now: &str, known: &dyn Paths) -> Option<KeysBack> {
    let read = |text: &str| json::parse(&plain(text)).ok().map(|parsed| parsed.value);
    let Some(start) = read(start) else { return Some(KeysBack::Lost) };
    let Some(mut now) = read(now) else { return Some(KeysBack::Original) };
    let before = now.to_canonical();
    let Value::Object(members) = &mut now else { return Some(KeysBack::Original) };
    for key in KEYS {
        put(members, key, start.get(key).cloned());
    }
    for key in LISTS {
        let kept = start.get(key).and_then(Value::as_array);
        let added = members.iter().find(|(known, _)| known == key).map(|(_, list)| list.clone());
        let list = kept.map(|kept| {
            let added = added.as_ref().and_then(Value::as_array).unwrap_or_default();
            let more = added.iter().filter(|item| !kept.contains(item));
            Value::Array(kept.iter().chain(more).cloned().collect())
        });
        put(members, key, list);
    }
    let old = start.get("compilerOptions");
    if !members.iter().any(|(key, _)| key == "compilerOptions") && old.is_some() {
        members.push(("compilerOptions".to_owned(), Value::Object(Vec::new())));
    }
    let own = members.iter_mut().find(|(key, _)| key == "compilerOptions");
    if let Some((_, Value::Object(options))) = own {
        let old = |key: &str| old.and_then(|old| old.get(key));
        for key in OPTIONS {
            put(options, key, old(key).cloned());
        }
        // Names that lead elsewhere now; those that are new may be the product's.
        let kept = old("paths").and_then(Value::as_object).unwrap_or_default();
        let now = options.iter().find(|(key, _)| key == "paths").and_then(|(_, it)| it.as_object());
        let more = now.unwrap_or_default().iter();
        let more = more.filter(|(name, _)| !kept.iter().any(|(known, _)| known == name)).cloned();
        let mut more: Vec<_> = more.collect();
        name_maps(None, &mut more, known);
        let paths: Vec<_> = kept.iter().cloned().chain(more).collect();
        put(options, "paths", (!paths.is_empty()).then_some(Value::Object(paths)));
    }
    (now.to_canonical() != before).then(|| KeysBack::Merged(now.to_compact()))
}

#[cfg(test)]
mod tests {
    use super::super::keys_back::Known;
    use super::*;

    #[test]
    fn the_keys_about_tests_are_those_of_the_start() {
        let start = "{\n  // strict\n  \"include\": [\"src\", \"test\"],\n  \"compilerOptions\": {\"strict\": true, \
                     \"target\": \"es2020\", \"paths\": {\"chai\": [\"./node_modules/chai\"]},},\n}";
        let now = r#"{"include": ["src", "tools"], "exclude": ["test"], "compilerOptions": {"strict": false,
            "target": "es2022", "paths": {"chai": ["./fake"], "@app/*": ["./src/*"]}}}"#;
        let Some(KeysBack::Merged(text)) = merged_tsconfig(start, now, &Known::NOTHING) else {
            panic!("merged")
        };
        assert_eq!(
            text,
            r#"{"include":["src","test","tools"],"compilerOptions":{"strict":true,"target":"es2022","paths":{"chai":["./node_modules/chai"],"@app/*":["./src/*"]}}}"#
        );
        let honest = start.replace("es2020", "es2022");
        assert_eq!(merged_tsconfig(start, &honest, &Known::NOTHING), None);
        assert_eq!(merged_tsconfig(start, "{", &Known::NOTHING), Some(KeysBack::Original));
        for (name, is_one) in [
            ("tsconfig.json", true),
            ("tsconfig.test.json", true),
            ("jsconfig.json", true),
            ("tsconfigs.json", false),
        ] {
            assert_eq!(is_tsconfig(name), is_one, "{name}");
        }
        assert_eq!(
            plain("{\"a\": \"//x /* y */,]\", /* , */ \"b\": [1, ], }"),
            "{\"a\": \"//x /* y */,]\",  \"b\": [1]}"
        );
    }
}
