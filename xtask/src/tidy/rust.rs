//! Modules of a crate as `syn` parses them: their files, definitions, imports and mentioned paths.

use std::collections::{BTreeMap, BTreeSet};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprLit, Ident, Item, ItemMod, ItemUse, Lit, Macro, Meta, Token, UseTree,
};

use super::tree::{Tree, join, parent};

/// Names from the root of a crate to a module; empty for the root.
pub(super) type ModulePath = Vec<String>;

/// All modules that `mod` reaches from one root file. Every `cfg` counts as set.
#[derive(Default)]
pub(super) struct Crate {
    pub(super) root: String,
    pub(super) modules: BTreeMap<ModulePath, Module>,
    pub(super) files: BTreeSet<String>,
    /// Files that are not Rust, each with the error of `syn`.
    pub(super) unreadable: Vec<(String, String)>,
}

/// Module in its own file or inline. Paths are kept as written: `super::a::B`.
#[derive(Default)]
pub(super) struct Module {
    pub(super) file: String,
    /// Items directly in the module.
    pub(super) defined: BTreeSet<String>,
    /// Structs, enums, unions and traits outside `#[cfg(test)]`, also those inside functions.
    pub(super) types: Vec<String>,
    /// Imports of `use`, keyed by their local name.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// Paths imported with `::*`.
    pub(super) globs: Vec<Vec<String>>,
    /// Paths of two or more names in the module outside `#[cfg(test)]`, including arguments of macros.
    pub(super) mentioned: BTreeSet<Vec<String>>,
}

impl Crate {
    pub(super) fn read(tree: &Tree, root: &str) -> Self {
        let mut read = Self {
            root: root.to_owned(),
            ..Self::default()
        };
        let mut reader = Reader {
            tree,
            read: &mut read,
            path: Vec::new(),
            file: root.to_owned(),
            home: parent(root).to_owned(),
            in_test: false,
        };
        reader.file();
        read
    }
}

/// Reader that walks from file to file and fills `read`.
struct Reader<'a> {
    tree: &'a Tree,
    read: &'a mut Crate,
    path: ModulePath,
    file: String,
    /// Directory of the files of child modules.
    home: String,
    in_test: bool,
}

impl Reader<'_> {
    fn file(&mut self) {
        let Some(text) = self.tree.text(&self.file) else {
            return;
        };
        if !self.read.files.insert(self.file.clone()) {
            return;
        }
        match syn::parse_file(text) {
            Ok(file) => self.module(&file.items),
            Err(error) => {
                let unreadable = (self.file.clone(), error.to_string());
                self.read.unreadable.push(unreadable);
            }
        }
    }

    fn module(&mut self, items: &[Item]) {
        self.here().file = self.file.clone();
        for item in items {
            self.visit_item(item);
        }
    }

    fn here(&mut self) -> &mut Module {
        self.read.modules.entry(self.path.clone()).or_default()
    }

    fn mention(&mut self, path: Vec<String>) {
        if !self.in_test && path.len() > 1 {
            self.here().mentioned.insert(path);
        }
    }

    fn import(&mut self, mut path: Vec<String>, tree: &UseTree) {
        let (name, local) = match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                return self.import(path, &step.tree);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(path.clone(), tree);
                }
                return;
            }
            UseTree::Glob(_) => {
                self.here().globs.push(path.clone());
                path.push("*".to_owned());
                return self.mention(path);
            }
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(name) => (&name.ident, &name.rename),
        };
        let mut local = local.to_string();
        if name != "self" {
            path.push(name.to_string());
        } else if local == "self" {
            local = path.last().cloned().unwrap_or(local);
        }
        if !self.in_test {
            self.here().imports.insert(local, path.clone());
        }
        self.mention(path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (name, attributes) = described(item);
        let was_in_test = self.in_test;
        self.in_test |= attributes.iter().any(is_for_tests);
        self.here().defined.extend(name.map(Ident::to_string));
        let is_type = matches!(
            item,
            Item::Enum(_) | Item::Struct(_) | Item::Trait(_) | Item::Union(_)
        );
        if is_type && !self.in_test {
            self.here().types.extend(name.map(Ident::to_string));
        }
        visit::visit_item(self, item);
        self.in_test = was_in_test;
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.to_string();
        let directory = parent(&self.file).to_owned();
        let (path, file, home) = (self.path.clone(), self.file.clone(), self.home.clone());
        self.path.push(name.clone());
        self.home = join(&home, &name);
        if let Some((_, items)) = &item.content {
            self.module(items);
        } else if let Some(named) = item.attrs.iter().find_map(path_attribute) {
            self.file = join(&directory, &named);
            self.home = parent(&self.file).to_owned();
            self.file();
        } else {
            for place in [format!("{}.rs", self.home), join(&self.home, "mod.rs")] {
                self.file = place;
                self.file();
            }
        }
        (self.path, self.file, self.home) = (path, file, home);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention(path.segments.iter().map(|s| s.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// Reads the arguments of a macro if they are a list of expressions.
    fn visit_macro(&mut self, call: &'ast Macro) {
        visit::visit_macro(self, call);
        let list = Punctuated::<Expr, Token![,]>::parse_terminated;
        for argument in call.parse_body_with(list).iter().flatten() {
            Reader::visit_expr(self, argument);
        }
    }
}

/// Name of an item in its module, and its attributes.
fn described(item: &Item) -> (Option<&Ident>, &[Attribute]) {
    match item {
        Item::Const(item) => (Some(&item.ident), &item.attrs),
        Item::Enum(item) => (Some(&item.ident), &item.attrs),
        Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
        Item::Impl(item) => (None, &item.attrs),
        Item::Macro(item) => (item.ident.as_ref(), &item.attrs),
        Item::Mod(item) => (None, &item.attrs),
        Item::Static(item) => (Some(&item.ident), &item.attrs),
        Item::Struct(item) => (Some(&item.ident), &item.attrs),
        Item::Trait(item) => (Some(&item.ident), &item.attrs),
        Item::Type(item) => (Some(&item.ident), &item.attrs),
        Item::Union(item) => (Some(&item.ident), &item.attrs),
        Item::Use(item) => (None, &item.attrs),
        _ => (None, &[]),
    }
}

/// Whether an attribute is `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    let condition = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
}

/// The file in `#[path = "file"]`.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    let pair = attribute.meta.require_name_value().ok()?;
    match &pair.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(file),
            ..
        }) if pair.path.is_ident("path") => Some(file.value()),
        _ => None,
    }
}
