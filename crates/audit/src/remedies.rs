//! Remedies of broken checks, for operators.

/// Each remedy, with the checks that it is for. docs/reference/audit.md has the same table.
const REMEDIES: [(&str, &[&str]); 13] = [
    (
        "Users have more than they may. Pause the campaigns that the lines name by `qiang sale pause` or `qiang \
         packet pause`. Keep a copy of the data for the report of the defect. Then cancel or return surplus orders.",
        &[
            "no_oversell",
            "user_limit",
            "key_grants_once",
            "limits_kept",
        ],
    ),
    (
        "The log contradicts itself: the file was changed or is damaged. Pause the named campaigns, and keep a copy by \
         `qiang backup`. Audit older backups until one passes. The cause was at work after that one.",
        &[
            "log_dense",
            "log_entries",
            "settled_position",
            "campaign_life",
            "grants_numbered",
            "grants_while_open",
            "units_conserved",
            "money_conserved",
            "order_prices",
            "order_steps",
            "lazy_bounds",
        ],
    ),
    (
        "A campaign has values that no command writes, so a row was changed by SQL. Take the former values from the \
         operation log or a backup. On Redis, `qiang reconcile` compares the row with the engine.",
        &["campaign_rules", "terms_sound", "updates_sound"],
    ),
    (
        "The tables differ from the log, and the log is what users were answered. Rows were changed by SQL. Give them \
         the values that the lines name, or restore a backup by `qiang restore`.",
        &[
            "campaign_counts",
            "share_amounts",
            "shares_follow_log",
            "orders_follow_log",
            "order_states",
            "paid_once",
            "payments_follow_log",
            "returns_follow_log",
            "terms_follow_log",
            "updates_follow_log",
            "grant_postings",
            "payment_postings",
            "refund_once",
            "postings_follow_log",
            "escrow",
        ],
    ),
    (
        "Rows are missing, double or were changed by SQL. Beside Redis, run `qiang reconcile`. Once you know the \
         cause, run `qiang reconcile --repair`. Restore all other rows from a backup.",
        &[
            "shares_complete",
            "order_returns",
            "positions_known",
            "parts_whole",
            "counts_add_up",
            "numbers_dense",
            "withheld_add_up",
            "orders_sound",
            "orders_paid",
            "grants_posted",
            "payments_posted",
            "refunds_posted",
            "escrow_left",
        ],
    ),
    (
        "The books do not balance: a posting or an account was changed by SQL. Pay nothing out of the named accounts. \
         Compare them with the newest backup that passes, and restore the rows that differ.",
        &[
            "direct_postings",
            "deposits",
            "payouts",
            "refunds_due",
            "packets_funded",
            "posting_accounts",
            "balances",
            "zero_sum",
            "overdrawn",
        ],
    ),
    (
        "A key, an index or a counter of a table is missing or was changed. Compare the tables with new ones of \
         `qiang migrate` in an empty database. Remove double rows, then create what is missing.",
        &[
            "idempotency_keys",
            "lists_whole",
            "keys_unique",
            "direct_counted",
        ],
    ),
    (
        "The ledger refused entries, so users may have grants that the books lack. `qiang quarantine list` prints the \
         reasons. Correct the rows, then run `qiang quarantine redrive --all`.",
        &["nothing_aside"],
    ),
    (
        "Archives of the log are missing, or were changed after they were written. Copy them from their backup to one \
         folder, and name it by `--archives DIR`.",
        &["archives_whole", "archives_follow", "archives_agree"],
    ),
    (
        "Engine and ledger differ. `qiang reconcile` names each difference. Find the cause: a change by SQL, a \
         restored backup, lost data in Redis. Then run `qiang reconcile --repair`.",
        &[
            "engine_counts",
            "engine_stock",
            "engine_terms",
            "engine_users",
        ],
    ),
    (
        "The engine's log and the ledger do not belong together, or one lost entries. See `qiang partition list`, \
         and compare `redis.urls`, `redis.prefix` and `ledger.url` with the installation's.",
        &["engine_positions", "engine_withheld"],
    ),
    (
        "Shares do not follow from the published seed: a seed, a rule or an amount was changed by SQL. Pause the named \
         packets, and restore their rows from a backup.",
        &["commitments", "shares_recomputed", "draws_recomputed"],
    ),
    (
        "Values have a wrong type or overflow: rows were changed by SQL, or the file is damaged. Keep a copy, and \
         restore the newest backup that passes.",
        &["readable"],
    ),
];

/// The remedy of a check; `None` for an unknown name.
#[must_use]
pub fn remedy(check: &str) -> Option<&'static str> {
    let is_for = |(_, checks): &&(&str, &[&str])| checks.contains(&check);
    REMEDIES.iter().find(is_for).map(|(remedy, _)| *remedy)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::SQL_CHECKS;

    const PAGE: &str = include_str!("../../../docs/reference/audit.md");
    /// Checks that are no SQL.
    const OTHERS: [&str; 5] = [
        "archives_whole",
        "readable",
        "commitments",
        "shares_recomputed",
        "draws_recomputed",
    ];

    #[test]
    fn each_check_has_one_remedy_and_no_remedy_is_for_nothing() {
        let checks = SQL_CHECKS.iter().map(|(_, name, _)| *name);
        let checks: BTreeSet<_> = checks.chain(OTHERS).collect();
        let named = || {
            REMEDIES
                .iter()
                .flat_map(|(_, checks)| checks.iter().copied())
        };
        assert_eq!(named().collect::<BTreeSet<_>>(), checks);
        assert_eq!(named().count(), checks.len(), "a check has two remedies");
    }

    #[test]
    fn the_page_has_the_same_remedies() {
        for (remedy, checks) in REMEDIES {
            let checks: Vec<_> = checks.iter().map(|name| format!("`{name}`")).collect();
            let row = format!("| {} | {remedy} |", checks.join(", "));
            assert!(PAGE.contains(&row), "{row}");
        }
    }
}
