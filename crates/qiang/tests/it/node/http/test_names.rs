//! Names of the workspace's tests, read from their sources, for documents that name tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder `crates`.
pub(super) fn crates() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap().to_owned()
}

/// Files with one of these extensions below a folder.
pub(super) fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|it| it.to_str());
        if path.is_dir() {
            found.extend(files(&path, extensions));
        } else if extension.is_some_and(|it| extensions.contains(&it)) {
            found.push(path);
        }
    }
    found
}

/// Functions of a text, without their parameters.
pub(super) fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).map(|rest| {
        let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// `module::module::function` of each function in a crate's tests, and of each case of the conformance suites.
pub(super) fn all(crate_name: &str) -> Vec<String> {
    let own = crates().join(crate_name);
    let suites = crates().join("testkit/src/conformance");
    let roots = [
        (own.join("tests/it"), None),
        (own.join("src"), None),
        (suites, Some("conformance")),
    ];
    let mut names = Vec::new();
    for (root, prefix) in roots {
        for file in files(&root, &["rs"]) {
            let module = file.strip_prefix(&root).unwrap().with_extension("");
            let parts = module.iter().map(|part| part.to_str().unwrap());
            let parts = parts.filter(|part| !["mod", "main", "lib"].contains(part));
            let module: Vec<_> = prefix.into_iter().chain(parts).collect();
            let text = fs::read_to_string(&file).unwrap();
            names.extend(functions(&text).map(|name| [&module[..], &[name]].concat().join("::")));
        }
    }
    names
}
