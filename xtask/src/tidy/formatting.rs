//! Check for formatting that can fail: no `Display` or `Debug` of ours returns an error that is not its writer's.
//!
//! `to_string` and the logs panic, or lose a line, if an implementation fails.

use syn::visit::{self, Visit};
use syn::{ExprPath, ItemImpl};

use super::Breach;

/// Traits of `std::fmt` that write a value as text.
const TRAITS: &[&str] = &[
    "Binary", "Debug", "Display", "LowerExp", "LowerHex", "Octal", "Pointer", "UpperExp",
    "UpperHex",
];
const WHAT: &str =
    "formatting cannot fail: write a text in place of `Error`, in the implementation of";

/// Finds `fmt::Error` as a value in implementations of the traits.
pub(super) fn check(path: &str, text: &str, breaches: &mut Vec<Breach>) {
    // Most files implement none of the traits.
    if !path.ends_with(".rs") || !text.contains("Formatter") {
        return;
    }
    // A file that does not parse is a breach of its own.
    let Ok(file) = syn::parse_file(text) else {
        return;
    };
    let mut finder = ErrorFinder {
        path,
        breaches,
        formatting: None,
    };
    finder.visit_file(&file);
}

struct ErrorFinder<'a> {
    path: &'a str,
    breaches: &'a mut Vec<Breach>,
    /// Trait whose implementation is read.
    formatting: Option<String>,
}

impl<'ast> Visit<'ast> for ErrorFinder<'_> {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let path = item.trait_.as_ref().map(|(path, _)| path);
        let name = path.and_then(|path| path.segments.last());
        let name = name.map(|name| name.ident.to_string());
        let name = name.filter(|name| TRAITS.contains(&name.as_str()));
        let outer = std::mem::replace(&mut self.formatting, name);
        visit::visit_item_impl(self, item);
        self.formatting = outer;
    }

    fn visit_expr_path(&mut self, expr: &'ast ExprPath) {
        let is_error = expr.path.segments.iter().any(|name| name.ident == "Error");
        if let Some(name) = self.formatting.as_ref().filter(|_| is_error) {
            let what = format!("{WHAT} `{name}`");
            self.breaches.push(Breach::file(self.path, what));
        }
        visit::visit_expr_path(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(text: &str) -> Vec<String> {
        let mut breaches = Vec::new();
        check("crates/a/src/lib.rs", text, &mut breaches);
        let named = |it: &Breach| it.what.rsplit(' ').next().map(str::to_owned);
        breaches.iter().filter_map(named).collect()
    }

    #[test]
    fn an_error_of_our_own_is_a_breach() {
        let text = "impl fmt::Display for A {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print(f).map_err(|_| fmt::Error)
            }
        }
        impl Debug for A {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result<(), Error> {
                if self.odd { return Err(Error); }
                Err(std::fmt::Error::default())
            }
        }";
        assert_eq!(traits(text), ["`Display`", "`Debug`", "`Debug`"]);
    }

    #[test]
    fn an_error_of_the_writer_or_of_another_function_is_none() {
        let text = "impl fmt::Display for A {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> Result<(), fmt::Error> {
                f.write_str(\"a\")?;
                write!(f, \"{}\", self.0)
            }
        }
        impl fmt::Write for B {
            fn write_str(&mut self, text: &str) -> fmt::Result { Err(fmt::Error) }
        }
        fn f() -> Error { Error }";
        assert!(traits(text).is_empty());
    }
}
