//! Writes docs/reference/configuration.md from the annotated default configuration. Tidy compares the two.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The annotated default configuration.
pub(crate) const SOURCE: &str = "crates/qiang/src/config.default.toml";

/// The page with a table of keys per section.
pub(crate) const PAGE: &str = "docs/reference/configuration.md";

const HEAD: &str = r#"# Configuration

<!-- `cargo xtask docs` writes this page from crates/qiang/src/config.default.toml. -->

Each key with its default. Later sources win: the defaults, the file of `--config`, environment variables, flags. A
variable is named after section and key in capitals: `QIANG__SERVER__LISTEN` is `listen` in `[server]`. An unknown key
is refused. The end of a key's name is its unit. An empty text means "not set".

`qiang config check --config FILE` names file and line of each error. `qiang config show` prints each key with its value
and source. `qiang serve --print-config` prints this configuration as a file.
"#;

/// Keys under one remark.
struct Row {
    keys: Vec<String>,
    defaults: Vec<String>,
    meaning: String,
}

/// Writes the page.
pub(crate) fn write(root: &Path) -> Result<()> {
    let source = fs::read_to_string(root.join(SOURCE)).with_context(|| format!("read {SOURCE}"))?;
    fs::write(root.join(PAGE), page(&source)).with_context(|| format!("write {PAGE}"))
}

/// The page of a configuration: a remark belongs to the keys that follow it without an empty line.
pub(crate) fn page(source: &str) -> String {
    let mut page = HEAD.to_owned();
    let mut remark: Vec<&str> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix('#') {
            remark.push(text.trim());
        } else if line.starts_with('[') {
            push_rows(&mut page, &mut rows);
            remark.clear();
            let table = format!("\n## `{line}`\n\n| key | default | meaning |\n|---|---|---|\n");
            page.push_str(&table);
        } else if let Some((key, default)) = line.split_once(" = ") {
            let (key, default) = (format!("`{key}`"), format!("`{default}`"));
            match rows.last_mut() {
                Some(row) if remark.is_empty() => {
                    row.keys.push(key);
                    row.defaults.push(default);
                }
                _ => rows.push(Row {
                    keys: vec![key],
                    defaults: vec![default],
                    meaning: remark.join(" ").replace('|', "\\|"),
                }),
            }
            remark.clear();
        } else {
            remark.clear();
        }
    }
    push_rows(&mut page, &mut rows);
    page
}

/// Ends a section's table.
fn push_rows(page: &mut String, rows: &mut Vec<Row>) {
    for row in rows.drain(..) {
        let (keys, defaults) = (row.keys.join(", "), row.defaults.join(", "));
        page.push_str(&format!("| {keys} | {defaults} | {} |\n", row.meaning));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_under_one_remark_are_one_row() {
        let source = "# Head.\n\n[a]\n# One,\n# two | three.\nx = 1\ny = \"\"\n# Last.\nz = true\n";
        let page = page(source);
        let table = page.strip_prefix(HEAD).expect("the head comes first");
        assert_eq!(
            table,
            "\n## `[a]`\n\n| key | default | meaning |\n|---|---|---|\n\
             | `x`, `y` | `1`, `\"\"` | One, two \\| three. |\n| `z` | `true` | Last. |\n"
        );
    }
}
