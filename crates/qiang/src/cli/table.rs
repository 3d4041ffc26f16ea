//! Tables in files: CSV with a header, or JSON lines. Errors name line and column.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Display,
    path::Path,
    str::FromStr,
};

use anyhow::bail;
use qiang::UsageError;
use serde::Serialize;
use serde_json::Value;

use crate::service::plain;

/// Most errors that are printed.
const ERRORS_MAX: usize = 100;

/// Columns of a kind of table.
pub(crate) struct TableColumns {
    /// Columns that each row must have.
    pub(crate) required: &'static [&'static str],
    /// Columns that a row may have.
    pub(crate) optional: &'static [&'static str],
    /// Columns of exports that have no meaning here.
    pub(crate) ignored: &'static [&'static str],
}

impl TableColumns {
    fn knows(&self, name: &str) -> bool {
        [self.required, self.optional, self.ignored]
            .iter()
            .any(|names| names.contains(&name))
    }
}

/// Wrong place of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TableError {
    pub(crate) line: u64,
    pub(crate) column: String,
    pub(crate) error: String,
}

impl TableError {
    pub(crate) fn new(line: u64, column: impl Into<String>, error: impl Display) -> Self {
        Self {
            line,
            column: column.into(),
            error: error.to_string(),
        }
    }
}

/// Row of a table. A cell that is empty is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableRow {
    /// Line of the file, from 1, at which the row begins.
    pub(crate) line: u64,
    cells: BTreeMap<String, String>,
}

/// Rows of a file, and its errors.
#[derive(Debug, Default)]
pub(crate) struct TableFile {
    pub(crate) rows: Vec<TableRow>,
    pub(crate) errors: Vec<TableError>,
}

/// Format of a file, by the end of its name.
#[derive(Debug, Clone, Copy)]
enum Format {
    Csv,
    JsonLines,
}

/// Reads a table.
///
/// # Errors
/// [`UsageError`] if the file cannot be read or has an unknown format. Wrong rows are errors of the table.
pub(crate) fn read(file: &Path, columns: &TableColumns) -> anyhow::Result<TableFile> {
    let format = match file.extension().and_then(|end| end.to_str()) {
        Some("csv") => Format::Csv,
        Some("jsonl" | "ndjson") => Format::JsonLines,
        _ => {
            let what = "the name must end in .csv, .jsonl or .ndjson";
            return Err(UsageError::new(format!("{}: {what}", file.display())).into());
        }
    };
    let bytes = std::fs::read(file)
        .map_err(|error| UsageError::new(format!("cannot read {}: {error}", file.display())))?;
    Ok(match std::str::from_utf8(&bytes) {
        // Spreadsheets begin a file with a byte order mark.
        Ok(text) => parse(
            text.strip_prefix('\u{feff}').unwrap_or(text),
            format,
            columns,
        ),
        Err(error) => {
            let before = &bytes[..error.valid_up_to()];
            let lines = before.iter().filter(|byte| **byte == b'\n').count() as u64;
            TableFile {
                errors: vec![TableError::new(lines + 1, "", "the text is not UTF-8")],
                ..TableFile::default()
            }
        }
    })
}

fn parse(text: &str, format: Format, columns: &TableColumns) -> TableFile {
    let mut table = TableFile::default();
    match format {
        Format::Csv => table.add_csv(text, columns),
        Format::JsonLines => table.add_json_lines(text, columns),
    }
    let mut missing = Vec::new();
    for row in &table.rows {
        for name in columns.required {
            if !row.cells.contains_key(*name) {
                missing.push(TableError::new(row.line, *name, "is missing"));
            }
        }
    }
    table.errors.append(&mut missing);
    if table.rows.is_empty() && table.errors.is_empty() {
        table
            .errors
            .push(TableError::new(1, "", "the file has no rows"));
    }
    table
}

impl TableFile {
    fn add_csv(&mut self, text: &str, columns: &TableColumns) {
        // A quote inside a quoted cell is written twice. An open cell would take in all following rows.
        if text.matches('"').count() % 2 == 1 {
            let error = "a quotation mark has no end: the file has an odd number of them";
            return self.errors.push(TableError::new(1, "", error));
        }
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(text.as_bytes());
        let header = match reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => return self.errors.push(TableError::new(1, "", error)),
        };
        let mut names = HashSet::new();
        for name in &header {
            if !columns.knows(name) {
                self.errors
                    .push(TableError::new(1, plain(name), unknown(columns)));
            } else if !names.insert(name) {
                self.errors
                    .push(TableError::new(1, name, "the column is there twice"));
            }
        }
        for name in columns.required {
            if !names.contains(name) {
                self.errors
                    .push(TableError::new(1, *name, "the column is missing"));
            }
        }
        if !self.errors.is_empty() {
            return;
        }
        for record in reader.records() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    let line = error.position().map_or(1, csv::Position::line);
                    self.errors.push(TableError::new(line, "", error));
                    continue;
                }
            };
            let line = record.position().map_or(1, csv::Position::line);
            if record.len() != header.len() {
                let error = format!(
                    "the row has {} cells, the header {}",
                    record.len(),
                    header.len()
                );
                self.errors.push(TableError::new(line, "", error));
                continue;
            }
            let cells = header
                .iter()
                .zip(&record)
                .filter(|(_, cell)| !cell.is_empty());
            self.rows.push(TableRow {
                line,
                cells: cells
                    .map(|(name, cell)| (name.to_owned(), cell.to_owned()))
                    .collect(),
            });
        }
    }

    fn add_json_lines(&mut self, text: &str, columns: &TableColumns) {
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() {
                continue;
            }
            let object: serde_json::Map<String, Value> = match serde_json::from_str(text) {
                Ok(object) => object,
                Err(error) => {
                    let at = format!("character {}", error.column());
                    let error = "the line is not a JSON object";
                    self.errors.push(TableError::new(line, at, error));
                    continue;
                }
            };
            let mut row = TableRow {
                line,
                cells: BTreeMap::new(),
            };
            for (name, value) in object {
                if !columns.knows(&name) {
                    self.errors
                        .push(TableError::new(line, plain(&name), unknown(columns)));
                    continue;
                }
                let text = match value {
                    Value::Null => continue,
                    Value::String(text) if text.is_empty() => continue,
                    Value::String(text) => text,
                    Value::Number(number) => number.to_string(),
                    Value::Bool(value) => value.to_string(),
                    Value::Array(_) | Value::Object(_) => {
                        let error = "the value is a text, a number, true or false";
                        self.errors.push(TableError::new(line, name, error));
                        continue;
                    }
                };
                row.cells.insert(name, text);
            }
            self.rows.push(row);
        }
    }

    /// Prints the errors: as text to standard error, or as JSON lines to standard output.
    ///
    /// # Errors
    /// [`UsageError`] if there are any.
    pub(crate) fn refuse_errors(&self, file: &Path, json: bool) -> anyhow::Result<()> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let mut errors = self.errors.clone();
        errors.sort_by_key(|error| error.line);
        for error in errors.iter().take(ERRORS_MAX) {
            match json {
                true => println!("{}", serde_json::to_string(error)?),
                false => eprintln!("{}", error_line(file, error)),
            }
        }
        let count = errors.len();
        let more = match count > ERRORS_MAX {
            true => format!(", of which {ERRORS_MAX} are shown"),
            false => String::new(),
        };
        bail!(UsageError::new(format!(
            "{}: {count} errors{more}; nothing was changed",
            file.display()
        )))
    }
}

fn unknown(columns: &TableColumns) -> String {
    let names = [columns.required, columns.optional].concat();
    format!("no such column; there are {}", names.join(", "))
}

/// An error as `FILE:LINE: COLUMN: error`.
pub(crate) fn error_line(file: &Path, error: &TableError) -> String {
    let TableError {
        line,
        column,
        error,
    } = error;
    match column.is_empty() {
        true => format!("{}:{line}: {error}", file.display()),
        false => format!("{}:{line}: {column}: {error}", file.display()),
    }
}

/// Reads the cells of a row, and collects their errors.
pub(crate) struct RowReader<'row, 'errors> {
    row: &'row TableRow,
    errors: &'errors mut Vec<TableError>,
}

impl<'row, 'errors> RowReader<'row, 'errors> {
    pub(crate) fn new(row: &'row TableRow, errors: &'errors mut Vec<TableError>) -> Self {
        Self { row, errors }
    }

    pub(crate) fn line(&self) -> u64 {
        self.row.line
    }

    pub(crate) fn text(&self, column: &str) -> Option<&'row str> {
        self.row.cells.get(column).map(String::as_str)
    }

    /// Value of a cell; `None` if it is absent or wrong.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&mut self, column: &str) -> Option<T> {
        match self.text(column)?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(column, error);
                None
            }
        }
    }

    pub(crate) fn error(&mut self, column: &str, error: impl Display) {
        self.errors
            .push(TableError::new(self.row.line, column, error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: TableColumns = TableColumns {
        required: &["id", "n"],
        optional: &["text"],
        ignored: &["phase"],
    };

    fn errors(text: &str, format: Format) -> Vec<String> {
        let table = parse(text, format, &COLUMNS);
        let line = |error| error_line(Path::new("f"), error);
        table.errors.iter().map(line).collect()
    }

    #[test]
    fn rows_are_the_same_in_both_formats() {
        let csv = "id,n,text,phase\na,1,\"x, \"\"y\"\"\nz\",live\nb,2,,\n";
        let json = r#"{"id":"a","n":1,"text":"x, \"y\"\nz","phase":"live"}

{"id":"b","n":2}"#;
        let [csv, json] = [(csv, Format::Csv), (json, Format::JsonLines)].map(|(text, format)| {
            let table = parse(text, format, &COLUMNS);
            assert_eq!(table.errors, []);
            table.rows
        });
        let cells =
            |rows: &[TableRow]| rows.iter().map(|row| row.cells.clone()).collect::<Vec<_>>();
        assert_eq!(cells(&csv), cells(&json));
        // A row with a line break begins at its first line.
        assert_eq!(csv.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(json.iter().map(|row| row.line).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn errors_name_line_and_column() {
        let check = |text: &str, format, expected: &[&str]| {
            assert_eq!(errors(text, format), expected, "{text}");
        };
        let there = "no such column; there are id, n, text";
        check(
            "id,m\n",
            Format::Csv,
            &[&format!("f:1: m: {there}"), "f:1: n: the column is missing"],
        );
        check(
            "id,n,n\n",
            Format::Csv,
            &["f:1: n: the column is there twice"],
        );
        check(
            "id,n\na,1\nb\n,2\n",
            Format::Csv,
            &[
                "f:3: the row has 1 cells, the header 2",
                "f:4: id: is missing",
            ],
        );
        check("id,n\n", Format::Csv, &["f:1: the file has no rows"]);
        check("\n", Format::JsonLines, &["f:1: the file has no rows"]);
        let unknown = format!("f:1: m: {there}");
        check(
            "{\"id\":\"a\",\"n\":1,\"m\":2}\n{\"id\":\"a\"\n{\"id\":[1],\"n\":1}\n",
            Format::JsonLines,
            &[
                &unknown,
                "f:2: character 9: the line is not a JSON object",
                "f:3: id: the value is a text, a number, true or false",
                "f:3: id: is missing",
            ],
        );
    }
}
