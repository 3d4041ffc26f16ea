//! Check of import cycles among the modules of a crate.
//!
//! A parent and its children may import each other. Among the children of one parent, each with its whole subtree,
//! imports have a direction. So files import each other in a cycle only if one of them is an ancestor of the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Breach;
use super::rust::{Crate, ModulePath};

/// Maximum length of a chain of re-exports. A longer one is a cycle of `use`, which the compiler refuses.
const REEXPORTS_MAX: u8 = 8;

/// Imported modules of each module, each with one example: its file and the imported path.
type Imports = BTreeMap<ModulePath, BTreeMap<ModulePath, String>>;

/// Reports each set of modules that all reach each other once, with a shortest cycle among them.
pub(super) fn check(read: &Crate, breaches: &mut Vec<Breach>) {
    let imports = imports(read);
    for modules in components(&imports) {
        let circle = shortest_circle(&imports, &modules);
        let files: Vec<&str> = circle
            .iter()
            .map(|module| read.modules[*module].file.as_str())
            .collect();
        let mut what = format!(
            "{} modules import each other in a circle: {}",
            modules.len(),
            files.join(" -> ")
        );
        for step in circle.windows(2) {
            what.push_str(&format!("\n    {}", imports[step[0]][step[1]]));
        }
        breaches.push(Breach::file(files[0], what));
    }
}

/// All imports between files, as imports between the ancestors that are siblings.
fn imports(read: &Crate) -> Imports {
    let mut imports = Imports::new();
    for (from, module) in &read.modules {
        for path in &module.mentioned {
            let Some((to, _)) = find(read, from, path, REEXPORTS_MAX) else {
                continue;
            };
            let file = &read.modules[&to].file;
            if *file == module.file || from.starts_with(&to) || to.starts_with(from) {
                continue;
            }
            let parting = from.iter().zip(&to).take_while(|(a, b)| a == b).count() + 1;
            let targets = imports.entry(from[..parting].to_vec()).or_default();
            let import = || format!("{} imports {} of {file}", module.file, path.join("::"));
            targets.entry(to[..parting].to_vec()).or_insert_with(import);
        }
    }
    imports
}

/// Target of a path: a module and true, or the module of an item and false.
type Place = (ModulePath, bool);

/// Resolves a path in module `from`; `None` if it leaves the crate.
fn find(read: &Crate, from: &ModulePath, path: &[String], steps: u8) -> Option<Place> {
    let mut module = from.clone();
    for (index, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" => module.clear(),
            "super" => drop(module.pop()),
            "self" | "*" => {}
            name => match member(read, &module, name, steps) {
                Some((next, true)) => module = next,
                Some(item) => return Some(item),
                None if index == 0 => return None,
                // A macro created the name, or it comes from another crate.
                None => return Some((module, false)),
            },
        }
    }
    Some((module, true))
}

/// Meaning of `name` in a module: a child, an item, or an import.
fn member(read: &Crate, module: &ModulePath, name: &str, steps: u8) -> Option<Place> {
    let steps = steps.checked_sub(1)?;
    let here = read.modules.get(module)?;
    let child = [module.as_slice(), &[name.to_owned()]].concat();
    if read.modules.contains_key(&child) {
        return Some((child, true));
    }
    let item = Some((module.clone(), false));
    if here.defined.contains(name) {
        return item;
    }
    if let Some(path) = here.imports.get(name) {
        return find(read, module, path, steps).or(item);
    }
    here.globs.iter().find_map(|path| {
        let (glob, _) = find(read, module, path, steps)?;
        member(read, &glob, name, steps)
    })
}

/// Sets of two or more modules that all reach each other.
fn components(imports: &Imports) -> Vec<BTreeSet<&ModulePath>> {
    let mut components: Vec<BTreeSet<&ModulePath>> = Vec::new();
    for module in imports.keys() {
        if components.iter().any(|other| other.contains(module)) {
            continue;
        }
        let reaches_back = |other: &&ModulePath| reach(imports, other).contains_key(module);
        let reached = reach(imports, module).into_keys();
        let component: BTreeSet<_> = reached.filter(reaches_back).collect();
        if !component.is_empty() {
            components.push(component);
        }
    }
    components
}

/// Modules that `start` imports, directly or indirectly, each with its predecessor on a shortest path.
fn reach<'a>(
    imports: &'a Imports,
    start: &'a ModulePath,
) -> BTreeMap<&'a ModulePath, &'a ModulePath> {
    let mut reached = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(module) = waiting.pop_front() {
        for next in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
            reached.entry(next).or_insert_with(|| {
                waiting.push_back(next);
                module
            });
        }
    }
    reached
}

fn shortest_circle<'a>(
    imports: &'a Imports,
    modules: &BTreeSet<&'a ModulePath>,
) -> Vec<&'a ModulePath> {
    let circle = |start: &&'a ModulePath| {
        let before = reach(imports, start);
        let mut circle = vec![*start, before[*start]];
        while circle[circle.len() - 1] != *start {
            circle.push(before[circle[circle.len() - 1]]);
        }
        circle.reverse();
        circle
    };
    modules
        .iter()
        .map(circle)
        .min_by_key(Vec::len)
        .expect("a component has modules")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    /// Expects these cycles in the crate of `lib.rs`.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let read = Crate::read(&Tree::of(files), "lib.rs");
        let mut breaches = Vec::new();
        super::check(&read, &mut breaches);
        let first_lines = breaches
            .iter()
            .filter_map(|breach| breach.what.lines().next());
        let found: Vec<&str> = first_lines
            .filter_map(|line| line.split(": ").nth(1))
            .collect();
        assert_eq!(found, expected, "{breaches:?}");
    }

    /// The same for the modules `a`, `b` and `c`.
    fn check_abc([a, b, c]: [&str; 3], expected: &[&str]) {
        let root = ("lib.rs", "mod a; mod b; mod c;");
        check(&[root, ("a.rs", a), ("b.rs", b), ("c.rs", c)], expected);
    }

    const B: &str = "pub struct B; fn f() { crate::a::A; }";

    #[test]
    fn a_circle_of_two_files_is_found() {
        for a in [
            "use crate::b::B; pub struct A;",
            "use super::b::*; pub struct A;",
            "use super::b; pub type A = b::B;",
            "use crate::{b::{self as other, B}}; pub struct A;",
            "pub struct A; fn f() { println!(\"{}\", crate::b::B) }",
        ] {
            check_abc([a, B, ""], &["a.rs -> b.rs -> a.rs"]);
        }
        for a in [
            "pub struct A; struct B;",
            "use b::B; use crate::c::B as C; pub struct A;",
        ] {
            check_abc([a, B, ""], &[]);
        }
    }

    #[test]
    fn a_circle_of_three_files_is_found_once() {
        let a = "use crate::b::B; pub struct A;";
        let b = "use crate::c::C; pub struct B;";
        let c = "use crate::a::A; pub struct C;";
        check_abc([a, b, c], &["a.rs -> b.rs -> c.rs -> a.rs"]);
        // A shorter cycle represents all three.
        let c = "use crate::{a::A, b::B}; pub struct C;";
        check_abc([a, b, c], &["b.rs -> c.rs -> b.rs"]);
    }

    #[test]
    fn a_reexport_is_followed_to_the_file_that_defines() {
        check(
            &[
                ("lib.rs", "mod a; mod b; pub use self::a::A; pub use b::*;"),
                ("a.rs", "use crate::B; pub struct A;"),
                ("b.rs", "use crate::A; pub struct B;"),
            ],
            &["a.rs -> b.rs -> a.rs"],
        );
        // An item of `b` that `a` re-exports is no import from `a`.
        let a = "pub use super::b::B; use crate::c::C;";
        check_abc([a, "pub struct B;", "use crate::a::B; pub struct C;"], &[]);
    }

    #[test]
    fn parent_and_child_may_import_each_other() {
        check(
            &[
                ("lib.rs", "mod a; use a::A; pub struct Root;"),
                ("a.rs", "mod b; use b::B; use crate::Root; pub struct A;"),
                ("a/b.rs", "mod c; use super::A; pub struct B;"),
                ("a/b/c.rs", "use crate::{Root, a::A}; use super::B;"),
            ],
            &[],
        );
    }

    #[test]
    fn what_is_below_a_module_counts_as_the_module_for_its_siblings() {
        check(
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "mod x; mod y;"),
                ("a/x.rs", "use crate::b::B; pub struct X;"),
                ("a/y.rs", "pub struct Y;"),
                ("b.rs", "use crate::a::y::Y; pub struct B;"),
            ],
            &["a.rs -> b.rs -> a.rs"],
        );
    }

    #[test]
    fn tests_are_ignored() {
        for test in [
            "#[cfg(test)] mod tests { use crate::b::B; }",
            "#[cfg(test)] use crate::b::B;",
            "#[cfg(all(test, unix))] fn f() { crate::b::B; }",
            "#[cfg(test)] #[path = \"c.rs\"] mod tests;",
        ] {
            let a = format!("pub struct A; {test}");
            check_abc([&a, B, "use crate::b::B;"], &[]);
        }
        let a = "pub struct A; #[cfg(any(test, feature = \"x\"))] use crate::b::B;";
        check_abc([a, B, ""], &["a.rs -> b.rs -> a.rs"]);
    }
}
