//! Restatements as columns of `campaigns`.

use super::{Value, columns};
use crate::{campaign::Phase, ports::Restatement};

/// Columns that a restatement sets; null for unchanged ones.
#[derive(Debug, Clone, Copy)]
pub struct RestatedColumns {
    /// `starts_at`, `ends_at`, `per_user_limit`, `unit_price` and `admission`. They change in `sale_terms` as well.
    pub terms: [Option<i64>; 5],
    /// Phase.
    pub phase: Option<Phase>,
    /// Units.
    pub supply: Option<i64>,
    /// Hold, in milliseconds.
    pub hold_ms: Option<i64>,
    /// Name of the acknowledgement level.
    pub ack: Option<&'static str>,
}

impl Restatement {
    /// Columns that change.
    #[must_use]
    pub fn columns(&self) -> RestatedColumns {
        let (seen, becomes) = (&self.seen, &self.becomes);
        let changed = |was: Option<i64>, is: Option<i64>| is.filter(|_| was != is);
        let starts_at = [seen, becomes].map(|it| Some(it.window.starts_at().as_millis()));
        let ends_at = [seen, becomes].map(|it| Some(it.window.ends_at().as_millis()));
        let limit = [seen, becomes].map(|it| Some(i64::from(it.per_user_limit)));
        let price = [seen, becomes].map(|it| it.unit_price_minor);
        let percent = |it: &crate::reconcile::CampaignFacts| {
            it.admission.map(|bound| i64::from(bound.percent()))
        };
        let admission = [seen, becomes].map(percent);
        let terms = [starts_at, ends_at, limit, price, admission];
        RestatedColumns {
            terms: terms.map(|[was, is]| changed(was, is)),
            phase: (seen.phase != becomes.phase).then_some(becomes.phase),
            supply: changed(
                seen.supply.map(|units| units as i64),
                becomes.supply.map(|units| units as i64),
            ),
            hold_ms: changed(Some(seen.hold_ms), Some(becomes.hold_ms)),
            ack: (seen.ack != becomes.ack).then(|| becomes.ack.name()),
        }
    }

    /// Whether a partition at this position still has the compared state.
    #[must_use]
    pub fn is_at(&self, position: u64) -> bool {
        (self.settled.0..=self.settled.1).contains(&position)
    }
}

impl RestatedColumns {
    /// `phase`, `supply`, `hold_ms` and `ack`.
    #[must_use]
    pub fn for_campaign(&self) -> [Value<'static>; 4] {
        columns!(self; phase, supply, hold_ms, ack)
    }

    /// `starts_at`, `ends_at`, `per_user_limit`, `unit_price` and `admission`.
    #[must_use]
    pub fn for_terms(&self) -> [Value<'static>; 5] {
        self.terms.map(Value::from)
    }

    /// Whether terms change.
    #[must_use]
    pub fn changes_terms(&self) -> bool {
        self.terms.iter().any(Option::is_some)
    }
}
