//! Currencies of new campaigns and accounts.

use qiang_core::money::Currency;

use crate::http::problem::Problem;

/// Refuses a code that is not a currency.
pub(crate) fn check(currency: Currency, pointer: &'static str) -> Result<(), Problem> {
    match currency.is_money() {
        true => Ok(()),
        false => {
            let detail = format!("{currency} is not a currency (ISO 4217)");
            Err(Problem::invalid_at(pointer, detail))
        }
    }
}
