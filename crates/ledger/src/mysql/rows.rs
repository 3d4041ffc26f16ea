//! Statements that take several rows. The file of such a statement has one row, between the marks `/*rows … */` and
//! `/*end*/`. The first mark also contains the separator of two rows.

/// Row counts of prepared statements, largest first. Each count needs a prepared statement, so there are few. Rows are
/// split into pieces of these sizes.
pub(super) const SIZES: [usize; 6] = [1_024, 256, 64, 16, 4, 1];

/// Statement that takes several rows.
struct MultiRowStatement {
    head: &'static str,
    row: &'static str,
    between: &'static str,
    tail: &'static str,
}

impl MultiRowStatement {
    /// Parses the text of a statement's file; `None` if its marks are not in order.
    fn parse(text: &'static str) -> Option<Self> {
        let (head, rest) = text.split_once("/*rows")?;
        let (between, rest) = rest.split_once("*/")?;
        let (row, tail) = rest.split_once("/*end*/")?;
        Some(Self {
            head,
            row,
            between,
            tail,
        })
    }

    fn text(&self, rows: usize) -> String {
        let mut text = String::with_capacity(
            self.head.len() + rows * (self.row.len() + self.between.len()) + self.tail.len(),
        );
        text.push_str(self.head);
        for row in 0..rows {
            if row > 0 {
                text.push_str(self.between);
            }
            text.push_str(self.row);
        }
        text.push_str(self.tail);
        text
    }
}

/// Text of a statement for `rows` rows.
pub(super) fn text(file: &'static str, rows: usize) -> String {
    // A test checks the marks of every file.
    MultiRowStatement::parse(file).map_or_else(|| file.to_owned(), |statement| statement.text(rows))
}

#[cfg(test)]
mod tests {
    use sqlx::MySql;

    use super::*;
    use crate::dialect::pieces;

    #[test]
    fn a_statement_takes_rows() {
        let file = "INSERT INTO t (a, b)\nVALUES /*rows , */(?, ?)/*end*/\nON x";
        let check = |rows, expected: &str| assert_eq!(text(file, rows), expected);
        check(1, "INSERT INTO t (a, b)\nVALUES (?, ?)\nON x");
        check(
            3,
            "INSERT INTO t (a, b)\nVALUES (?, ?) , (?, ?) , (?, ?)\nON x",
        );
    }

    #[test]
    fn a_run_is_cut_into_known_sizes() {
        let check = |rows: usize, expected: &[usize]| {
            let rows: Vec<_> = (0..rows).collect();
            let pieces: Vec<_> = pieces::<MySql, _>(&rows).collect();
            assert_eq!(
                pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(),
                expected
            );
            assert_eq!(pieces.concat(), rows);
        };
        check(0, &[]);
        check(3, &[1, 1, 1]);
        check(2_341, &[1_024, 1_024, 256, 16, 16, 4, 1]);
    }

    #[test]
    fn the_marks_in_the_files_are_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mysql/sql");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let marks = [
                text.matches("/*rows").count(),
                text.matches("/*end*/").count(),
            ];
            let whole = MultiRowStatement::parse(Box::leak(text.into_boxed_str())).is_some();
            assert!(
                marks == [0, 0] || marks == [1, 1] && whole,
                "{}",
                path.display()
            );
        }
    }
}
