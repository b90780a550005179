//! The modules of Perl.

/// The modules that a text in Perl loads by their names.
pub(super) fn modules_of_perl(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', ';', '{', '}']).filter_map(|statement| {
        let statement = statement.trim();
        let named = ["use ", "require ", "no "].iter().find_map(|it| statement.strip_prefix(it))?;
        let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let named = named.trim_start();
        let end = named.find(|letter: char| !is_of_name(letter)).unwrap_or(named.len());
        named.get(..end).filter(|name| name.starts_with(|letter: char| letter.is_alphabetic()))
    })
}

/// The files that a module of Perl may be.
pub(super) fn files_of_perl(module: &str) -> [String; 3] {
    let name = module.replace("::", "/");
    [format!("lib/{name}.pm"), format!("t/lib/{name}.pm"), format!("{name}.pm")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_loads_the_modules_that_it_names() {
        let text = "use strict; use lib 'lib';\nuse My::Calc qw(add);\nBEGIN { require Other }\n";
        let found: Vec<&str> = modules_of_perl(text).collect();
        assert_eq!(found, ["strict", "lib", "My::Calc", "Other"]);
        assert_eq!(files_of_perl("My::Calc")[0], "lib/My/Calc.pm");
    }
}
