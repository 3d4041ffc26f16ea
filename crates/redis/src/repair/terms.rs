//! Window, limit, price and admission of a sale some parts of which have lost something.
//!
//! The terms with the highest revision count, wherever they are: in the ledger, in its quarantine, in what Redis still
//! has of the parts that are repaired, with nodes that have answered a change, and in the other parts. A change that
//! was answered is in the ledger, so it is never undone. The repair appends what the ledger does not have; if the first
//! part is repaired, it has all others follow it.

use qiang_core::{
    campaign::Terms,
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

/// The terms of a sale that count; none of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastTerms {
    last: Option<Revised>,
    /// The last revision that the ledger has settled, or has in quarantine.
    in_ledger: Seq,
}

impl LastTerms {
    /// The terms of a sale, from the parts that are repaired and what the others have.
    pub(super) fn of(
        members: &[(usize, BothSides)],
        evidence: &[Evidence],
        elsewhere: Option<Revised>,
    ) -> Self {
        let settled = members.iter().filter_map(|(_, part)| {
            let terms = Terms::of(&part.campaign)?;
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
            // Without a change there is nothing to give: all have those with which the sale was opened.
            last: known
                .reduce(later)
                .filter(|last| last.0 > 0 && in_ledger.is_some()),
            in_ledger: in_ledger.map_or(0, |known| known.0),
        }
    }

    /// Has a part that is repaired go by them.
    pub(super) fn give(&self, part: &mut BothSides) {
        if let Some((_, terms)) = self.last {
            (part.meta.window, part.meta.limit) = (terms.window, terms.per_user_limit);
            part.meta.admission = terms.admission.ratio();
            part.facts.limit = None;
        }
    }

    /// Has the log say them if the ledger does not know them: before the limit is used, and after units have come with
    /// which it was checked, see [`super::stock::Stock::append`].
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

    /// What the hash of a part that is repaired says of them.
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
