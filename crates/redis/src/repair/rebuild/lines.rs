//! Rows and entries in Redis' form: text of buyers, shares, orders and records.

use super::{
    skipped::{missing_ordinals, without},
    *,
};

/// User of an order whose number an unknown user received. The order is cancelled and has no units.
const NOBODY: &str = "-";

/// Rows of a shard in Redis, as fields and values.
#[derive(Default)]
pub(crate) struct ShardRows {
    pub(crate) users: Vec<String>,
    pub(crate) orders: Vec<String>,
    /// Payments, and partial cancellations and returns, of orders.
    pub(crate) payments: Vec<String>,
    /// Partial cancellations and returns that are not kept.
    pub(super) refused_parts: Vec<String>,
    /// Keys of orders that do not fit in their buyers' rows.
    pub(crate) keys: Vec<String>,
    /// Users who no longer have rows.
    pub(super) gone: Vec<String>,
}

impl ShardRows {
    /// Rows of a packet that a repair has changed.
    pub(crate) fn from_packet(meta: &CachedCampaign, repair: &Repair) -> Self {
        let users = repair.changed.iter().filter_map(|number| {
            let row = repair.rows.grants.get(number)?;
            Some([row.user.to_string(), share_line(meta, *number, row)])
        });
        Self {
            users: users.flatten().collect(),
            ..Self::default()
        }
    }

    /// Rows of a sale that a repair has changed, and of all users who have one of them, or whose count is wrong.
    /// Skipped ordinals have no rows.
    pub(crate) fn from_sale(
        meta: &CachedCampaign,
        facts: &PartFacts,
        repair: &Repair,
        (wrong_users, skipped): (&[UserUnits], &[(u32, u32)]),
    ) -> Self {
        let rows = &repair.rows;
        let mut users: BTreeSet<&UserId> = repair.removed.iter().map(|(user, _)| user).collect();
        users.extend(wrong_users.iter().map(|it| &it.user));
        let (mut orders, mut payments) = (Vec::new(), Vec::new());
        for number in &repair.changed {
            let Some(row) = rows.grants.get(number) else {
                continue;
            };
            users.insert(&row.user);
            orders.extend([number.to_string(), order_line(meta, *number, row, rows)]);
            for (payment, state) in rows.payments_of(*number) {
                let field = format!("{number}\t{payment}");
                payments.extend([field, payment_text(state)]);
            }
            for (key, units) in rows.returns_of(*number) {
                payments.extend([
                    format!("{number}\t\t{key}"),
                    part_text(PartKind::Return, units),
                ]);
            }
            for (key, units) in rows.cancellations_of(*number) {
                let text = part_text(PartKind::Cancellation, units);
                payments.extend([format!("{number}\t\t{key}"), text]);
            }
        }
        // Numbers that unknown users received are not issued again.
        let missing = without(&missing_ordinals(facts, repair), skipped);
        let ordinals = missing.iter().flat_map(|(first, last)| *first..=*last);
        for number in ordinals.map(|ordinal| facts.number_of(ordinal)) {
            let line = format!("c\t0\t{NOBODY}\t0\t0\t0\t");
            orders.extend([number.to_string(), line]);
        }
        let buyers = Buyers::from_part_rows(rows, &users);
        Self {
            users: buyers.rows,
            orders,
            payments,
            refused_parts: {
                let refused = repair.refused_parts.iter();
                refused
                    .map(|(number, key)| format!("{number}\t\t{key}"))
                    .collect()
            },
            keys: buyers.further_keys,
            gone: buyers.gone,
        }
    }
}

/// Rows of buyers in Redis, as fields and values.
struct Buyers {
    rows: Vec<String>,
    /// Keys that do not fit in their rows.
    further_keys: Vec<String>,
    /// Users who no longer have an order.
    gone: Vec<String>,
}

#[derive(Default)]
struct Buyer {
    held: u32,
    returned: u32,
    newest: u32,
    keys: String,
}

impl Buyers {
    fn from_part_rows(rows: &PartRows, users: &BTreeSet<&UserId>) -> Self {
        let (mut buyers, mut further_keys) = (BTreeMap::<&UserId, Buyer>::new(), Vec::new());
        for (number, row) in &rows.grants {
            let user = &row.user;
            if !users.contains(user) {
                continue;
            }
            let buyer = buyers.entry(user).or_default();
            match row.state.keeps_units() {
                true => buyer.held += row.units(),
                false => buyer.returned += 1,
            }
            buyer.newest = *number;
            let Some(key) = &row.key else { continue };
            let entry = format!("\n{key}\t{number}");
            if !buyer.keys.starts_with('+') && buyer.keys.len() + entry.len() > KEYS_BYTES_MAX {
                buyer.keys.insert(0, '+');
            }
            match buyer.keys.starts_with('+') {
                true => further_keys.extend([format!("{user}\t{key}"), number.to_string()]),
                false => buyer.keys.push_str(&entry),
            }
        }
        let gone = users.iter().filter(|user| !buyers.contains_key(*user));
        Self {
            gone: gone.map(|user| user.to_string()).collect(),
            rows: buyers
                .into_iter()
                .flat_map(|(user, buyer)| {
                    let Buyer {
                        held,
                        returned,
                        newest,
                        keys,
                    } = buyer;
                    [
                        user.to_string(),
                        format!("{held}\t{returned}\t{newest}{keys}"),
                    ]
                })
                .collect(),
            further_keys,
        }
    }
}

fn offset(meta: &CachedCampaign, at: Timestamp) -> i64 {
    at.millis_since(meta.origin)
}

fn key_of(row: &GrantRow) -> &str {
    row.key.as_ref().map_or("", |key| key.as_str())
}

fn share_line(meta: &CachedCampaign, number: u32, row: &GrantRow) -> String {
    let share = share_text(number, row.amount_minor);
    let line = format!("{share}\t{}", offset(meta, row.granted_at));
    match &row.key {
        Some(key) => format!("{line}\t{key}"),
        None => line,
    }
}

fn order_line(meta: &CachedCampaign, number: u32, row: &GrantRow, rows: &PartRows) -> String {
    let state = match row.state {
        OrderState::Held => "h",
        OrderState::Paid => "p",
        OrderState::Cancelled => "c",
        OrderState::Expired => "x",
        OrderState::Returned => "r",
    };
    let due = rows
        .payments_of(number)
        .filter(|(_, state)| state.outcome == PaymentOutcome::RefundDue)
        .count();
    let GrantRow {
        user,
        quantity,
        amount_minor,
        cancelled,
        extension_ms,
        ..
    } = row;
    let returned = match row.state {
        OrderState::Paid => row.returned,
        _ => 0,
    };
    let parts = || rows.returns_of(number).count() + rows.cancellations_of(number).count();
    let units = match (returned, cancelled) {
        (0, 0) => quantity.to_string(),
        (_, 0) => format!("{quantity}-{returned}-{}", parts()),
        _ => format!("{quantity}-{returned}-{}-{cancelled}", parts()),
    };
    let (offset, key) = (offset(meta, row.granted_at), key_of(row));
    let offset = match extension_ms {
        0 => offset.to_string(),
        millis => format!("{offset}+{millis}"),
    };
    format!("{state}\t{due}\t{user}\t{units}\t{amount_minor}\t{offset}\t{key}")
}

/// Events as records of the log. Consecutive grants of one instant form one record; so do consecutive other events.
pub(crate) fn records(meta: &CachedCampaign, events: &[(Timestamp, Event)]) -> Vec<NewRecord> {
    let mut records: Vec<NewRecord> = Vec::new();
    for (at, event) in events {
        let (field, line) = line_of(meta, *at, event);
        match records.last_mut() {
            Some((count, millis, kind, body)) if (*millis, *kind) == (at.as_millis(), field) => {
                *count += 1;
                body.push('\n');
                body.push_str(&line);
            }
            _ => records.push((1, at.as_millis(), field, line)),
        }
    }
    records
}

fn line_of(meta: &CachedCampaign, at: Timestamp, event: &Event) -> (&'static str, String) {
    let Event::Granted {
        number,
        user,
        quantity,
        amount_minor,
        key,
    } = event
    else {
        return ("e", event.to_string());
    };
    let key = key.as_ref().map_or("", |key| key.as_str());
    let offset = offset(meta, at);
    match meta.kind {
        CampaignKind::Sale => {
            let line = format!("{user}\n{number}\t{amount_minor}\t{offset}\t{quantity}\t{key}");
            ("o", line)
        }
        CampaignKind::RedPacket => {
            let share = share_text(*number, *amount_minor);
            let tail = if key.is_empty() {
                String::new()
            } else {
                format!("\t{key}")
            };
            ("g", format!("{user}\n{share}\t{offset}{tail}"))
        }
    }
}
