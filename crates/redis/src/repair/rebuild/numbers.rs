//! Counters of a shard, as its hash has them, computed from its rows.

use super::*;
use crate::shards::skipped::skipped_text;

/// Hash of a repaired shard.
pub(crate) struct Numbers {
    /// Its fields and their values.
    pub(crate) fields: Vec<[String; 2]>,
    /// When its next tick is due.
    due: Option<Timestamp>,
}

impl Numbers {
    /// Hash of a shard, from its state before and the result of a repair. `fields` are the base that the result
    /// overrides.
    pub(crate) fn from_meta(
        meta: &CachedCampaign,
        facts: &PartFacts,
        before: Option<&PartSnapshot>,
        fields: &[(String, String)],
        repair: &Repair,
    ) -> Self {
        let rows = &repair.rows;
        let held = rows.grants.iter();
        let held = held
            .filter(|(_, row)| facts.kind == CampaignKind::Sale && row.state == OrderState::Held);
        // Orders with extended holds expire out of order: see campaign.lua.
        let (longer, others): (Vec<_>, Vec<_>) = held.partition(|(_, row)| row.extension_ms > 0);
        let oldest = others.first();
        let first = match oldest {
            Some((number, _)) => facts.ordinal_of(**number),
            None => repair.numbered + 1,
        };
        let last = rows.grants.values().map(|row| row.granted_at).max();
        let given = fields.iter();
        let mut all: BTreeMap<&str, String> = given
            .map(|(field, value)| (field.as_str(), value.clone()))
            .collect();
        let phase = match rows.phase {
            Phase::Closed => "c",
            Phase::Paused => "p",
            _ => "s",
        };
        all.insert("phase", phase.to_owned());
        for (field, value) in [
            ("supply", repair.supply),
            ("remaining", repair.remaining),
            ("granted", repair.granted),
            ("grants", repair.numbered.into()),
            ("returned", repair.returned),
            ("first", first.into()),
        ] {
            all.insert(field, value.to_string());
        }
        all.insert("funded", repair.funded_minor.to_string());
        all.insert("refunded", repair.refunded_minor.to_string());
        all.insert("last", last.unwrap_or_default().as_millis().to_string());
        if facts.kind == CampaignKind::Sale {
            let extended = longer.iter().map(|(number, row)| {
                let offset = row.granted_at.millis_since(meta.origin);
                let length_ms = facts.hold_ms.saturating_add(row.extension_ms);
                format!(" {number}:{offset}:{length_ms}")
            });
            all.insert("extended", extended.collect());
        }
        if facts.kind == CampaignKind::RedPacket && !facts.fixed_shares {
            let money = repair.funded_minor - rows.amount_minor() - repair.refunded_minor;
            all.insert("money", money.to_string());
        }
        // A shard of a spread campaign withholds what the repair withholds now, and a closed one nothing. Otherwise the
        // repair adds to what was withheld before.
        let (is_spread, is_over) = (facts.parts > 1, rows.phase == Phase::Closed);
        if repair.withheld.units > 0 || is_spread || is_over {
            let field = |name: &str| all.get(name).map_or("", String::as_str);
            let (units, minor, mut shares) = match before.filter(|_| field("withheld").is_empty()) {
                _ if is_spread || is_over => (0, 0, String::new()),
                Some(before) => {
                    let (units, minor) = before.withheld;
                    (units, minor, before.withheld_shares.clone())
                }
                // An earlier repair withheld them, and Redis has lost that.
                None => {
                    let units = field("withheld").parse().unwrap_or(0);
                    let minor = field("withheld_minor").parse().unwrap_or(0);
                    (units, minor, field("withheld_shares").to_owned())
                }
            };
            for (number, amount) in &repair.withheld.shares {
                shares.push_str(&share_text(*number, *amount));
                shares.push('\n');
            }
            all.insert("withheld", (units + repair.withheld.units).to_string());
            all.insert(
                "withheld_minor",
                (minor + repair.withheld.amount_minor).to_string(),
            );
            all.insert("withheld_shares", shares);
        }
        let skipped = skipped_ordinals(facts, before, repair);
        if !skipped.is_empty() || before.is_some_and(|before| !before.skipped.is_empty()) {
            all.insert("skipped", skipped_text(&skipped));
        }
        let end = (!is_over).then_some(meta.window.ends_at());
        // Other shards must follow the terms of this one at once.
        let leads = all.get("behind").is_some_and(|behind| behind == "1");
        let due = end
            .into_iter()
            .chain(leads.then(Timestamp::default))
            .chain(longer.iter().chain(oldest).map(|(_, row)| {
                let length_ms = facts.hold_ms.saturating_add(row.extension_ms);
                row.granted_at.plus_millis(length_ms)
            }))
            .min();
        let fields = all.into_iter();
        Self {
            fields: fields
                .map(|(field, value)| [field.to_owned(), value])
                .collect(),
            due,
        }
    }

    /// When its next tick is due, in milliseconds, or an empty text.
    pub(crate) fn due_ms(&self) -> String {
        let millis = |due: Timestamp| due.as_millis().to_string();
        self.due.map_or_else(String::new, millis)
    }
}
