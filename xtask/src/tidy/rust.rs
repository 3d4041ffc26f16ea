//! The files of a crate as `syn` reads them.

use std::collections::BTreeSet;

use syn::visit::Visit;
use syn::{Attribute, Expr, ExprLit, ItemMod, Lit};

use super::tree::{Tree, join, parent};

/// Everything that is reached by `mod` from one root file. Every `cfg` counts as set.
#[derive(Default)]
pub(super) struct Crate {
    pub(super) files: BTreeSet<String>,
    /// Files that are not Rust, each with what `syn` says.
    pub(super) unreadable: Vec<(String, String)>,
}

impl Crate {
    /// Reads the root file and all modules below it.
    pub(super) fn read(tree: &Tree, root: &str) -> Self {
        let mut read = Self::default();
        let mut reader = Reader {
            tree,
            read: &mut read,
            file: root.to_owned(),
            home: parent(root).to_owned(),
        };
        reader.file();
        read
    }
}

/// Walks through one file after another and fills `read`.
struct Reader<'a> {
    tree: &'a Tree,
    read: &'a mut Crate,
    file: String,
    /// The directory of the files of child modules.
    home: String,
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
            Ok(file) => self.visit_file(&file),
            Err(error) => {
                let unreadable = (self.file.clone(), error.to_string());
                self.read.unreadable.push(unreadable);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let directory = parent(&self.file).to_owned();
        let (file, home) = (self.file.clone(), self.home.clone());
        self.home = join(&home, &item.ident.to_string());
        if let Some((_, items)) = &item.content {
            items.iter().for_each(|item| self.visit_item(item));
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
        (self.file, self.home) = (file, home);
    }
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
