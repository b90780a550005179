//! What a line asks recipes for: targets of make and just, and scripts of package managers.

use super::visits::{Visit, Visits};
use super::words::{CHECKING, has_word, writes_out};
use crate::domain::shell_line::base_name;

/// Whether a line asks a recipe for what a script writes out by its name: then the script may be what the check is about.
pub fn asks_for_output_of(line: &str, script: &str) -> bool {
    let visits = Visits::of(line, "");
    let recipes = visits.commands.iter().filter(|visit| asks_recipe(visit));
    let mut targets = recipes.flat_map(|visit| visit.words.iter().skip(1));
    targets.any(|target| !target.starts_with('-') && writes_out(script, target))
}

/// Whether a line asks a recipe to check, by a word of its name.
pub fn asks_to_check(line: &str) -> bool {
    let visits = Visits::of(line, "");
    let recipes = visits.commands.iter().filter(|visit| asks_recipe(visit));
    let mut targets = recipes.flat_map(|visit| visit.words.iter().skip(1));
    targets.any(|target| !target.starts_with('-') && has_word(target, CHECKING))
}

fn asks_recipe(visit: &Visit) -> bool {
    const PROGRAMS: &[&str] = &["bun", "gmake", "just", "make", "npm", "pnpm", "yarn"];
    // These start programs, and bun is a runner itself.
    const OF_OTHERS: &[&str] = &["dlx", "exec", "x"];
    let Some((program, rest)) = visit.words.split_first() else { return false };
    let program = base_name(program);
    let asked = rest.iter().map(String::as_str).find(|word| !word.starts_with('-'));
    let is_other = match (program, asked) {
        ("bun", Some("test")) => true,
        ("bun" | "npm" | "pnpm" | "yarn", Some(asked)) => OF_OTHERS.contains(&asked),
        (_, _) => false,
    };
    PROGRAMS.contains(&program) && !is_other
}

/// Whether each command of a line asks make, just or a package manager for a recipe.
pub fn asks_recipes_only(line: &str) -> bool {
    let commands = Visits::of(line, "").commands;
    !commands.is_empty() && commands.iter().all(asks_recipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_asks_for_recipes() {
        for (line, script, expected) in [
            ("make report && grep -q 5 report.txt", "scripts/report.py", true),
            ("npm run render", "tools/render.js", true),
            ("make test", "scripts/report.py", false),
            ("make all", "scripts/report.py", false),
            ("make test-report", "scripts/report.py", false),
            ("make report", "scripts/run.py", false),
        ] {
            assert_eq!(asks_for_output_of(line, script), expected, "{line}: {script}");
        }
        for (line, expected) in [
            ("npm run test:api", true),
            ("cd web && make new && npm run other", true),
            ("npm run build && node test.js", false),
            ("make new | grep ok", false),
        ] {
            assert_eq!(asks_recipes_only(line), expected, "{line}");
        }
    }
}
