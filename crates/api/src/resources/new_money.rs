//! Currencies of new campaigns and accounts.

use qiang_core::money::Currency;

use crate::http::problem::ApiProblem;

/// Refuses a code that is not a currency.
pub(crate) fn check(currency: Currency, pointer: &'static str) -> Result<(), ApiProblem> {
    match currency.is_money() {
        true => Ok(()),
        false => {
            let detail = format!("{currency} is not a currency (ISO 4217)");
            Err(ApiProblem::invalid_at(pointer, detail))
        }
    }
}
