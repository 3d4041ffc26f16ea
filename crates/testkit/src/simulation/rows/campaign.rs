//! Rows of campaigns, and their changes by settlement.

use super::*;

impl Row {
    pub(super) fn is_packet(&self) -> bool {
        self.setup.campaign.kind() == CampaignKind::RedPacket
    }

    pub(super) fn supply(&self) -> i64 {
        self.setup.campaign.supply() as i64
    }

    pub(super) fn known(&self, campaign_ref: i64) -> KnownCampaign {
        let campaign = &self.setup.campaign;
        KnownCampaign {
            campaign_ref,
            id: campaign.id,
            name: campaign.id.to_string(),
            kind: campaign.kind(),
            owner: campaign.owner.to_string(),
            currency: campaign.currency(),
            one_per_user: campaign.per_user_limit() == 1 && self.terms_revision == 0,
            hold_ms: campaign.rules.sale().map_or(0, Sale::hold_ms),
            parts: 1,
            phase: self.phase,
            part: None,
            watched: false,
        }
    }

    pub(super) fn change(&mut self, change: &CampaignChange) {
        self.phase = change.phase.unwrap_or(self.phase);
        self.granted += change.granted;
        self.returned += change.returned;
        self.refunded_minor += change.refunded;
        let campaign = &mut self.setup.campaign;
        if let Rules::Sale(sale) = &mut campaign.rules
            && change.supply != 0
        {
            let stock = sale.stock().saturating_add_signed(change.supply);
            if let Ok(changed) = sale.with_stock(stock) {
                *sale = changed;
            }
        }
        let later = change
            .terms
            .filter(|terms| terms.revision > self.terms_revision);
        if let Some((terms, given)) = later.and_then(|row| Some((row, terms_of(&row)?))) {
            self.terms_revision = terms.revision;
            given.give(campaign);
        }
    }
}

fn terms_of(row: &SaleSettingsRow) -> Option<SaleSettings> {
    let [from, upto] = [row.starts_at, row.ends_at].map(Timestamp::from_millis);
    Some(SaleSettings {
        window: Window::new(from, upto).ok()?,
        per_user_limit: row.per_user_limit.try_into().ok()?,
        unit_price_minor: row.unit_price,
        admission: AdmissionBound::from_percent(row.admission.try_into().ok()?).ok()?,
    })
}
