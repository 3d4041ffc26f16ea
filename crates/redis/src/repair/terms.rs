//! Window, limit, price and admission of a sale with shards that lost something.
//!
//! The terms with the highest revision are valid, from any source: the ledger, its quarantine, repaired shards in
//! Redis, nodes that answered a change, and the other shards. An answered change is in the ledger, so it is never
//! undone. The repair appends what the ledger lacks. If the first shard is repaired, it makes all others follow.

use qiang_core::{
    campaign::SaleSettings,
    event::{Event, Seq},
    reconcile::Repair,
    time::Timestamp,
};

use super::{Evidence, sides::BothSides};
use crate::shards::snapshot::Revised;

/// The later of two.
pub(super) fn later(a: Revised, b: Revised) -> Revised {
    std::cmp::max_by_key(a, b, |known| known.0)
}

/// The valid terms of a sale; empty for a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastTerms {
    last: Option<Revised>,
    /// The last revision that the ledger has settled, or has in quarantine.
    in_ledger: Seq,
}

impl LastTerms {
    /// Terms of a sale, from the repaired shards and the others.
    pub(super) fn read_last_terms(
        members: &[(usize, BothSides)],
        evidence: &[Evidence],
        elsewhere: Option<Revised>,
    ) -> Self {
        let settled = members.iter().filter_map(|(_, part)| {
            let terms = SaleSettings::from_campaign(&part.campaign)?;
            Some((part.settled_revision, terms))
        });
        let quarantined = members.iter().filter_map(|(place, part)| {
            evidence[*place].quarantined.terms.get(&part.facts.campaign)
        });
        let in_ledger = settled.chain(quarantined.copied()).reduce(later);
        let remembered = members
            .iter()
            .filter_map(|(_, part)| part.snapshot.as_ref()?.terms);
        let kept = members.iter().flat_map(|(place, part)| {
            let entries = evidence[*place].kept.get(&part.facts.campaign);
            entries.into_iter().flatten()
        });
        let kept = kept.filter_map(|entry| match entry.event {
            Event::TermsChanged { revision, terms } => Some((revision, terms)),
            _ => None,
        });
        let known = in_ledger.into_iter().chain(kept);
        let known = known.chain(remembered).chain(elsewhere);
        Self {
            // Without a change there is nothing to apply, because all shards have the terms with which the sale opened.
            last: known
                .reduce(later)
                .filter(|last| last.0 > 0 && in_ledger.is_some()),
            in_ledger: in_ledger.map_or(0, |known| known.0),
        }
    }

    /// Applies the terms to a repaired shard.
    pub(super) fn give(&self, part: &mut BothSides) {
        if let Some((_, terms)) = self.last {
            (part.meta.window, part.meta.limit) = (terms.window, terms.per_user_limit);
            part.meta.admission = terms.admission.ratio();
            part.facts.limit = None;
        }
    }

    /// Appends the terms if the ledger lacks them: before the limit is used, and after the units against which it was
    /// checked, see [`super::stock::Stock::append`].
    pub(super) fn append(&self, repair: &mut Repair, now: Timestamp) {
        if let Some((revision, terms)) = self.last.filter(|last| last.0 > self.in_ledger) {
            let opened = |(_, event): &(Timestamp, Event)| matches!(event, Event::Opened { .. });
            let at = repair
                .append
                .iter()
                .position(opened)
                .map_or(0, |opened| opened + 1);
            let event = Event::TermsChanged { revision, terms };
            repair.append.insert(at, (now, event));
        }
    }

    /// Fields of the hash of a repaired shard.
    pub(super) fn fields(&self, part: &BothSides) -> Vec<(String, String)> {
        let Some((revision, terms)) = self.last else {
            return Vec::new();
        };
        let leads = part.facts.parts > 1 && part.facts.index == 0;
        let fields = [
            ("opens", terms.window.starts_at().as_millis()),
            ("ends", terms.window.ends_at().as_millis()),
            ("limit", terms.per_user_limit.into()),
            ("price", terms.unit_price_minor),
            ("admit", terms.admission.percent().into()),
            ("terms", revision as i64),
            ("behind", leads.into()),
        ];
        let text = |(field, value): (&str, i64)| (field.to_owned(), value.to_string());
        fields.into_iter().map(text).collect()
    }
}
