//! The numbers of a campaign's part, as its hash has them, from what is known of its rows.

use super::*;

/// What a campaign's hash says of a part.
pub(crate) struct Numbers {
    /// Its fields and their values.
    pub(crate) fields: Vec<[String; 2]>,
    /// When something is due.
    due: Option<Timestamp>,
}

impl Numbers {
    /// Those of a part, from what it was before and what a repair says; `fields` come on top of what follows from that.
    pub(crate) fn of(
        meta: &CampaignMeta,
        facts: &PartFacts,
        before: Option<&PartSnapshot>,
        fields: &[(String, String)],
        repair: &Repair,
    ) -> Self {
        let rows = &repair.rows;
        let held = rows.grants.iter();
        let mut held = held
            .filter(|(_, row)| facts.kind == CampaignKind::Sale && row.state == OrderState::Held);
        let oldest = held.next();
        let first = match oldest {
            Some((number, _)) => facts.ordinal_of(*number),
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
        if facts.kind == CampaignKind::RedPacket && !facts.fixed_shares {
            let money = repair.funded_minor - rows.amount_minor() - repair.refunded_minor;
            all.insert("money", money.to_string());
        }
        // A part of a spread campaign withholds what is withheld now, and a closed one nothing; otherwise that comes on
        // top.
        let (is_spread, is_over) = (facts.parts > 1, rows.phase == Phase::Closed);
        if repair.withheld.units > 0 || is_spread || is_over {
            let field = |name: &str| all.get(name).map_or("", String::as_str);
            let (units, minor, mut shares) = match before.filter(|_| field("withheld").is_empty()) {
                _ if is_spread || is_over => (0, 0, String::new()),
                Some(before) => {
                    let (units, minor) = before.withheld;
                    (units, minor, before.withheld_shares.clone())
                }
                // An earlier repair had withheld them, and Redis has lost that.
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
        let end = (!is_over).then_some(meta.window.ends_at());
        // Other parts are to follow the terms of this one at once.
        let leads = all.get("behind").is_some_and(|behind| behind == "1");
        let due = end
            .into_iter()
            .chain(leads.then(Timestamp::default))
            .chain(oldest.map(|(_, row)| row.granted_at.plus_millis(facts.hold_ms)))
            .min();
        let fields = all.into_iter();
        Self {
            fields: fields
                .map(|(field, value)| [field.to_owned(), value])
                .collect(),
            due,
        }
    }

    /// When something is due, in milliseconds, or nothing.
    pub(crate) fn due_ms(&self) -> String {
        let millis = |due: Timestamp| due.as_millis().to_string();
        self.due.map_or_else(String::new, millis)
    }
}
