//! Rows of opening balances, which become deposits.

use std::{collections::HashMap, path::Path};

use qiang_client::{Id, Money, UserId};
use qiang_core::money;

use super::{ImportResult, ImportedRow, refused};
use crate::{
    amounts,
    service::Service,
    table::{self, RowReader, TableColumns, TableFile},
};

const COLUMNS: TableColumns = TableColumns {
    required: &["user", "amount", "currency"],
    optional: &["reference"],
    ignored: &["refunds_due", "settled"],
};

/// An opening balance of a file.
pub(super) struct BalanceRow {
    line: u64,
    user: UserId,
    amount: Money,
    /// Reference of the deposit. The service keeps it for good, so a repetition changes nothing.
    reference: Id,
}

/// Balances of a file.
///
/// # Errors
/// If any row has an error; they are printed.
pub(super) fn read(file: &Path, json: bool) -> anyhow::Result<Vec<BalanceRow>> {
    let mut table = table::read(file, &COLUMNS)?;
    let balances = rows(&mut table);
    table.refuse_errors(file, json)?;
    Ok(balances)
}

fn rows(table: &mut TableFile) -> Vec<BalanceRow> {
    let (mut balances, mut references) = (Vec::new(), HashMap::new());
    let TableFile { rows, errors } = table;
    for row in rows {
        let mut row = RowReader::new(row, &mut *errors);
        let line = row.line();
        if row
            .text("refunds_due")
            .is_some_and(|due| due.bytes().any(|byte| (b'1'..=b'9').contains(&byte)))
        {
            row.error(
                "refunds_due",
                "refunds due are not imported: pay them in the other system first",
            );
        }
        let (user, amount) = (row.parsed("user"), amount(&mut row));
        if amount.is_some_and(|amount| amount.amount == 0) {
            // No deposit makes an empty account.
            continue;
        }
        let reference = reference(&mut row);
        let Some(((user, amount), reference)) = user.zip(amount).zip(reference) else {
            continue;
        };
        if let Some(first) = references.insert(reference.clone(), line) {
            row.error(
                "reference",
                format!("line {first} has the same reference {reference}"),
            );
        }
        balances.push(BalanceRow {
            line,
            user,
            amount,
            reference,
        });
    }
    balances
}

fn amount(row: &mut RowReader<'_, '_>) -> Option<Money> {
    let words = [
        row.text("amount")?.to_owned(),
        row.text("currency")?.to_owned(),
    ];
    match amounts::money(&words) {
        Ok(money) if (0..=money::AMOUNT_MINOR_MAX).contains(&money.amount) => Some(money),
        Ok(_) => {
            let error = format!(
                "a balance is at most {} minor units",
                money::AMOUNT_MINOR_MAX
            );
            row.error("amount", error);
            None
        }
        Err(error) => {
            let is_currency = words[1].parse::<money::Currency>().is_err();
            row.error(if is_currency { "currency" } else { "amount" }, error);
            None
        }
    }
}

/// Reference of a row. Without one, user and currency make it.
fn reference(row: &mut RowReader<'_, '_>) -> Option<Id> {
    if row.text("reference").is_some() {
        return row.parsed("reference");
    }
    let (user, currency) = (row.text("user")?, row.text("currency")?);
    let user: String = user
        .bytes()
        .map(
            |byte| match byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            },
        )
        .collect();
    match format!("opening-balance:{user}:{currency}").parse() {
        Ok(reference) => Some(reference),
        Err(_) => {
            row.error(
                "reference",
                "is missing, and the user's id is too long to make one",
            );
            None
        }
    }
}

/// Posts the deposit of a row.
pub(super) async fn deposit(row: BalanceRow, service: &Service) -> anyhow::Result<ImportedRow> {
    let BalanceRow {
        line,
        user,
        amount,
        reference,
    } = row;
    let client = &service.client;
    let deposited = client
        .deposit_replayable(&user, reference.as_str(), amount)
        .await;
    match deposited {
        Ok(deposited) => Ok(ImportedRow {
            line,
            id: reference.to_string(),
            result: ImportResult::from_replay(deposited.is_replay),
            object: Some(deposited.value.id.to_string()),
            errors: Vec::new(),
        }),
        Err(error) => refused(line, reference.to_string(), error),
    }
}
