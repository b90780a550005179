//! Package managers: what they install by, and where to.

/// An ecosystem, the names of its manifests and lock files, and the folders that it installs to.
type Ecosystem = (&'static str, &'static [&'static str], &'static [&'static str]);

const ECOSYSTEMS: &[Ecosystem] = &[
    (
        "node",
        &[
            "package.json",
            "package-lock.json",
            "npm-shrinkwrap.json",
            "pnpm-lock.yaml",
            "pnpm-workspace.yaml",
            "yarn.lock",
            "bun.lock",
            "bun.lockb",
            "deno.json",
            "deno.jsonc",
            "deno.lock",
            "bower.json",
        ],
        &["node_modules", ".yarn", ".pnp.cjs", ".pnp.loader.mjs", "bower_components"],
    ),
    (
        "python",
        &[
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "Pipfile",
            "Pipfile.lock",
            "poetry.lock",
            "pdm.lock",
            "uv.lock",
            "environment.yml",
            "environment.yaml",
        ],
        &[".venv", "venv", "env", "virtualenv", "site-packages", "__pypackages__", ".eggs"],
    ),
    ("ruby", &["Gemfile", "Gemfile.lock", "gems.rb", "gems.locked"], &["vendor", ".bundle"]),
    ("php", &["composer.json", "composer.lock"], &["vendor"]),
    ("go", &["go.mod", "go.sum", "go.work"], &["vendor"]),
    ("rust", &["Cargo.toml", "Cargo.lock"], &["vendor"]),
    ("beam", &["mix.exs", "mix.lock", "rebar.config", "rebar.lock"], &["deps"]),
    ("dart", &["pubspec.yaml", "pubspec.lock"], &[".packages"]),
    ("swift", &["Package.swift", "Package.resolved", "Podfile", "Podfile.lock"], &["Pods"]),
    (
        "dotnet",
        &["packages.lock.json", "packages.config", "Directory.Packages.props", "paket.lock"],
        &["packages"],
    ),
    ("jvm", &["pom.xml", "build.gradle", "build.gradle.kts", "libs.versions.toml"], &[".m2"]),
    ("perl", &["cpanfile", "cpanfile.snapshot"], &["local"]),
    ("lua", &["rockspec"], &["lua_modules"]),
    ("haskell", &["stack.yaml", "stack.yaml.lock", "cabal.project"], &[]),
];

/// Folders of builds in which package managers keep some files of their own, and what begins the names of these.
const MIXED: &[(&str, &str, &[&str])] = &[
    ("dotnet", "obj", &["project.assets.json", "project.nuget.cache", "project.packagespec.json"]),
    ("swift", ".build", &["artifacts", "checkouts", "repositories", "workspace-state.json"]),
    ("dart", ".dart_tool", &["package_config.json", "package_graph.json", "version"]),
];

/// Whether a folder holds both what a build made and what a package manager installed.
pub fn is_mixed(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    MIXED.iter().any(|(_, folder, _)| *folder == name)
}

/// The ecosystem whose packages a manifest or a lock file names.
pub fn ecosystem_of(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if is_requirements(path) {
        return Some("python");
    }
    if [".csproj", ".fsproj", ".vbproj"].iter().any(|end| name.ends_with(end)) {
        return Some("dotnet");
    }
    let known = ECOSYSTEMS.iter().find(|(_, names, _)| names.contains(&name));
    known.map(|(ecosystem, ..)| *ecosystem)
}

/// Whether a file lists requirements of pip.
pub(super) fn is_requirements(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("requirements") && name.ends_with(".txt")
        || path.rsplit('/').nth(1) == Some("requirements") && name.ends_with(".txt")
}

/// Whether a package manager of an ecosystem installs to a path.
pub fn installs(ecosystem: &str, path: &str) -> bool {
    let of = ECOSYSTEMS.iter().find(|(known, ..)| *known == ecosystem);
    let is_of_build = || {
        let parts: Vec<&str> = path.split('/').collect();
        MIXED.iter().filter(|(known, ..)| *known == ecosystem).any(|(_, folder, names)| {
            parts.windows(2).any(|pair| {
                matches!(pair, [a, b] if a == folder && {
                    names.contains(b) || b.contains(".nuget.")
                })
            })
        })
    };
    of.is_some_and(|(.., folders)| path.split('/').any(|part| folders.contains(&part)))
        || is_of_build()
}

/// Whether any package manager installs to a path.
pub fn is_installed(path: &str) -> bool {
    ECOSYSTEMS.iter().any(|(ecosystem, ..)| installs(ecosystem, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_belongs_to_the_manifests_of_its_own_ecosystem() {
        for (manifest, path, is_one) in [
            ("web/package.json", "web/node_modules/a/index.js", true),
            ("package.json", ".venv/bin/pytest", false),
            ("requirements-dev.txt", ".venv", true),
            ("requirements/test.txt", "venv/lib", true),
            ("Cargo.toml", "target/debug/a", false),
            ("composer.json", "vendor/a", true),
            ("App/App.csproj", "App/obj/project.assets.json", true),
            ("App/App.csproj", "App/obj/App.csproj.nuget.g.props", true),
            ("App/App.csproj", "App/obj/Debug/net8.0/App.dll", false),
            ("Package.swift", ".build/checkouts/a/a.swift", true),
            ("Package.swift", ".build/debug/a", false),
            ("pom.xml", "node_modules/a", false),
        ] {
            let ecosystem = ecosystem_of(manifest).unwrap();
            assert_eq!(installs(ecosystem, path), is_one, "{manifest} and {path}");
        }
        assert_eq!(ecosystem_of("notes.txt"), None);
    }
}
