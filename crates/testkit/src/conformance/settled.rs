//! Compares the ledger with the auditor's result.

use qiang_core::{campaign::CampaignKind, order::PartKind, ports::Ledger};

use crate::{
    auditor::{Account, ExpectedLedger},
    campaign::currency,
};

/// Grants read at a time.
const PAGE: u32 = 700;

/// Compares records, grants, cancellations and returns of parts, and balances.
///
/// # Panics
/// If they differ.
pub async fn compare(ledger: &dyn Ledger, expected: &ExpectedLedger) {
    for account in expected.accounts.values() {
        compare_campaign(ledger, account).await;
    }
    let expected_dues = &expected.other_dues;
    for (user, (available, refunds_due)) in &expected.balances {
        let balances = ledger.balances(user).await.unwrap();
        let found: Vec<_> = balances
            .iter()
            .filter(|balance| balance.available.currency == currency())
            .map(|balance| (balance.available.minor, balance.refunds_due_minor))
            .filter(|found| *found != (0, 0))
            .collect();
        let expected = [(*available, *refunds_due)];
        let expected = expected.iter().filter(|sums| **sums != (0, 0));
        assert!(found.iter().eq(expected), "{user} has {found:?}");
        for balance in &balances {
            let code = balance.available.currency.code();
            let (found, due) = (balance.available.minor, balance.refunds_due_minor);
            if balance.available.currency != currency() {
                let other = expected_dues.get(&(user.clone(), code));
                assert_eq!((found, due), (0, other.copied().unwrap_or(0)), "{user}");
            }
        }
    }
    for ((user, code), due) in expected_dues {
        let balances = ledger.balances(user).await.unwrap();
        let own = balances
            .iter()
            .find(|balance| balance.available.currency.code() == *code);
        let found = own.map_or(0, |balance| balance.refunds_due_minor);
        assert_eq!(found, *due, "{user} in {code}");
    }
}

async fn compare_campaign(ledger: &dyn Ledger, account: &Account) {
    let id = account.setup.campaign.id;
    let record = ledger.campaign(id).await.unwrap();
    let record = record.expect("the campaign was entered");
    assert_eq!(record.campaign, account.setup.campaign);
    assert_eq!(record.granted as i64, account.granted(), "{id}");
    assert_eq!(record.returned as i64, account.returned(), "{id}");
    assert_eq!(record.refunded_minor, account.refunded_minor(), "{id}");
    assert_eq!(record.phase, account.phase(), "{id}");

    if account.setup.campaign.kind() == CampaignKind::Sale {
        let found = ledger.settled_returns(id, 0, u32::MAX).await.unwrap();
        let mut found: Vec<_> = (found.iter())
            .map(|it| {
                (
                    it.number,
                    it.part.key.as_str(),
                    it.part.quantity,
                    it.kind.name(),
                )
            })
            .collect();
        found.sort_unstable();
        let mut expected = Vec::new();
        for (number, row) in &account.rows {
            for (parts, kind) in [
                (&row.returns, PartKind::Return),
                (&row.cancellations, PartKind::Cancellation),
            ] {
                let parts = parts.iter();
                let parts = parts.map(|(key, units)| (*number, key.as_str(), *units, kind.name()));
                expected.extend(parts);
            }
        }
        expected.sort_unstable();
        assert_eq!(found, expected, "{id}");
    }

    let rows = ledger.settled_rows(id, 0, PAGE).await.unwrap();
    let found = rows.iter().filter(|row| row.extension_ms > 0);
    let found: Vec<_> = found.map(|row| (row.number, row.extension_ms)).collect();
    let expected = account.rows.iter().take(PAGE as usize);
    let expected = expected.filter(|(_, row)| row.extension_ms > 0);
    let expected: Vec<_> = expected
        .map(|(number, row)| (*number, row.extension_ms))
        .collect();
    assert_eq!(found, expected, "extended holds of {id}");

    let mut rows = account.rows.iter();
    let mut after = 0;
    loop {
        let page = ledger.grants(id, after, PAGE).await.unwrap();
        for grant in &page {
            let (number, row) = rows
                .next()
                .expect("the log contains every grant of the ledger");
            let expected = (
                *number,
                &row.user,
                row.quantity,
                row.amount_minor,
                row.granted_at,
                row.cancelled,
            );
            let found = (
                grant.number,
                &grant.user,
                grant.quantity,
                grant.amount_minor,
                grant.granted_at,
                grant.cancelled,
            );
            assert_eq!(found, expected, "{id}");
        }
        match page.last() {
            Some(last) => after = last.number,
            None => break,
        }
    }
    assert_eq!(
        rows.next().map(|row| row.0),
        None,
        "the ledger lacks grants of {id}"
    );
}
