//! Window, limit, price and admission of a sale that has not ended. They change in its first shard, and the other
//! shards follow.
//!
//! The first shard decides. The revision of a change is the position of its entry in that shard's log, so later
//! revisions are higher, even after a repair. The calling node copies the terms to the other shards, which use the
//! highest revision that they have seen. If the node dies in between, a tick of the first shard does the same.

use futures_util::future::join_all;
use qiang_core::{
    admission::AdmissionBound,
    book::{Refusal, SaleCorrection},
    campaign::{
        AckLevel, CampaignError, Phase, STOCK_MAX, STOCK_PRICE_MINOR_MAX, SaleSettings,
        SaleSettingsChange, Tally, Transition, TransitionError,
    },
    event::{Event, PartitionId},
    id::CampaignId,
    ports::EngineError,
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    campaigns::commands::{MOVES_MAX, after_an_effect, text_of},
    connection::{Arguments, ScriptReply, unreadable},
    intake::reload_queue::ReloadNeed,
    node::Node,
    protocol::{
        campaign_meta::CachedCampaign,
        scripts::{FOLLOW_TERMS, SET_TERMS},
    },
    shards::{
        tally::{self, PartTally},
        transfer::moving,
    },
};

/// Argument of a script; empty if the admission does not change.
fn percent(admission: Option<AdmissionBound>) -> String {
    admission.map_or_else(String::new, |bound| bound.percent().to_string())
}

/// Argument of a script; empty if there is no number.
fn number(number: Option<i64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// A change of terms as the first shard decides it.
#[derive(Debug, Clone, Copy, Default)]
struct TermsRequest<'a> {
    change: SaleSettingsChange,
    /// Terms that the sale must have.
    expected: Option<&'a SaleSettings>,
    /// The new stock, if it changes together with the terms.
    stock: Option<u64>,
    /// Whether a scheduled sale starts at the moment of the decision.
    is_start: bool,
    /// Revision that all shards have followed.
    followed: Option<u64>,
    /// Id of the change's key.
    made: Option<Uuid>,
}

impl TermsRequest<'_> {
    /// Text of the new start for the script.
    fn start(&self) -> String {
        match self.is_start {
            true => "now".to_owned(),
            false => number(self.change.starts_at.map(Timestamp::as_millis)),
        }
    }

    fn transition(&self) -> Transition {
        match self.is_start {
            true => Transition::Start,
            false => Transition::ChangeTerms,
        }
    }

    fn changes(&self) -> bool {
        self.is_start || self.stock.is_some() || self.change != SaleSettingsChange::default()
    }
}

impl Node {
    /// Changes the terms of a sale in its first shard, and makes the others follow. With expected terms, a sale with
    /// other terms does not change. `made` is the id of the change's key.
    pub(crate) async fn set_terms(
        &self,
        (campaign, made): (CampaignId, Option<Uuid>),
        change: &SaleSettingsChange,
        expected: Option<&SaleSettings>,
    ) -> Result<Tally, EngineError> {
        let meta = self.whole_meta(campaign).await?;
        let request = TermsRequest {
            change: *change,
            expected,
            made,
            ..TermsRequest::default()
        };
        self.decide_and_follow(&meta, &request).await
    }

    /// Changes stock and terms of a sale in one step of its first shard. `made` is the id of the change's key.
    pub(crate) async fn set_sale(
        &self,
        (campaign, made): (CampaignId, Option<Uuid>),
        stock: u64,
        change: &SaleSettingsChange,
    ) -> Result<Tally, EngineError> {
        let meta = self.whole_meta(campaign).await?;
        let request = TermsRequest {
            change: *change,
            stock: Some(stock),
            made,
            ..TermsRequest::default()
        };
        self.decide_and_follow(&meta, &request).await
    }

    /// Starts a scheduled sale now. A live sale does not change. `made` is the id of the change's key.
    pub(crate) async fn start_sale(
        &self,
        campaign: CampaignId,
        made: Option<Uuid>,
    ) -> Result<Tally, EngineError> {
        let meta = self.whole_meta(campaign).await?;
        let request = TermsRequest {
            is_start: true,
            made,
            ..TermsRequest::default()
        };
        self.decide_and_follow(&meta, &request).await
    }

    /// Changes stock or terms of a sale that still has the values which a correction expects. `made` is the id of the
    /// change's key.
    ///
    /// Redis may lose all its keys, and with them the kept reply, after it carried out the call. The call is sent again
    /// after the repair, and finds its own values. The ledger then has the change under its id.
    pub(crate) async fn correct(
        &self,
        (campaign, made): (CampaignId, Option<Uuid>),
        correction: &SaleCorrection,
    ) -> Result<Tally, EngineError> {
        let wanted = (campaign, made);
        let corrected = match correction {
            SaleCorrection::Stock { expected, stock } => {
                self.stock_or_settled(wanted, *stock, Some(*expected)).await
            }
            SaleCorrection::Terms { expected, change } => {
                self.terms_or_settled(wanted, change, Some(expected)).await
            }
        };
        let (Err(EngineError::Refused(Refusal::Changed)), Some(id)) = (&corrected, made) else {
            return corrected;
        };
        let Some(ledger) = self.recalls.ledger() else {
            return corrected;
        };
        match ledger.is_change_made(id).await {
            Ok(false) => corrected,
            Ok(true) => {
                let tally = self.present_tally(campaign).await;
                let tally = tally.map_err(after_an_effect)?;
                tally.ok_or_else(|| after_an_effect(Refusal::UnknownCampaign.into()))
            }
            Err(error) => Err(EngineError::uncertain(error.to_string())),
        }
    }

    async fn decide_and_follow(
        &self,
        meta: &CachedCampaign,
        request: &TermsRequest<'_>,
    ) -> Result<Tally, EngineError> {
        let campaign = meta.id;
        let decide = || self.decide_terms(meta, request);
        let mut dry = None;
        let mut reply = self.call_back((campaign, ReloadNeed::Any), decide).await?;
        for _ in 0..MOVES_MAX {
            if reply.status != "short" {
                break;
            }
            dry = self.gather_for_less(meta, &reply.text(), dry).await?;
            reply = self.call_back((campaign, ReloadNeed::Any), decide).await?;
        }
        let rules = |error| Err(Refusal::Rules(error).into());
        match (reply.status.as_str(), reply.text().as_str()) {
            ("refused", phase) => {
                let from = tally::phase(phase).unwrap_or(Phase::Closed);
                let transition = request.transition();
                return Err(Refusal::Phase(TransitionError { from, transition }).into());
            }
            ("changed", _) => return Err(Refusal::Changed.into()),
            ("short", _) => return Err(moving()),
            ("rules", "stock") => return rules(CampaignError::Stock),
            ("rules", "opened") => return rules(CampaignError::HasOpened),
            ("rules", "past") => return rules(CampaignError::InThePast),
            ("rules", "window") => return rules(CampaignError::Window),
            ("rules", "limit") => return rules(CampaignError::Limit),
            ("rules", _) => return rules(CampaignError::Price),
            _ => {}
        }
        let text = reply.found(Refusal::UnknownCampaign)?;
        let part = PartTally::parse(&text).ok_or_else(unreadable)?;
        if meta.parts == 1 {
            return Ok(part.tally);
        }
        self.follow_terms(meta).await.map_err(after_an_effect)?;
        let tally = self.tally(campaign).await.map_err(after_an_effect)?;
        tally.ok_or_else(|| after_an_effect(Refusal::UnknownCampaign.into()))
    }

    /// Copies the terms of the first shard to all shards of a spread sale.
    pub(crate) async fn follow_terms(&self, meta: &CachedCampaign) -> Result<(), EngineError> {
        let look = TermsRequest::default();
        let reply = self.decide_terms(meta, &look).await?;
        let text = reply.found(Refusal::UnknownCampaign)?;
        let first = PartTally::parse(&text).ok_or_else(unreadable)?;
        let home = self.partitions.home(meta.id);
        let others = self.partitions.for_campaign(meta);
        let others = others.filter(|partition| *partition != home);
        // An unreachable shard does not delay the others.
        let followed = join_all(others.map(|other| self.follow(meta, other, &first))).await;
        followed.into_iter().collect::<Result<(), _>>()?;
        let done = TermsRequest {
            followed: Some(first.revision),
            ..look
        };
        let reply = self.decide_terms(meta, &done).await?;
        reply.found(Refusal::UnknownCampaign).map(drop)
    }

    async fn follow(
        &self,
        meta: &CachedCampaign,
        part: PartitionId,
        first: &PartTally,
    ) -> Result<(), EngineError> {
        let terms = first.tally.terms.ok_or_else(unreadable)?;
        let (window, campaign) = (terms.window, (meta.id, self.terms_ack(meta)));
        let arguments: Arguments<'_> = &|command| {
            command
                .arg(first.revision)
                .arg(window.starts_at().as_millis())
                .arg(window.ends_at().as_millis())
                .arg(terms.per_user_limit)
                .arg(terms.unit_price_minor)
                .arg(terms.admission.percent())
        };
        // The shard may have closed and been evicted before it follows.
        let follow = || {
            let partitions = &self.partitions;
            partitions.change(part, &FOLLOW_TERMS, campaign, arguments)
        };
        let reply = self.call_back((meta.id, ReloadNeed::Owed), follow).await;
        self.invalidate(meta.id);
        let text = reply?.found(Refusal::UnknownCampaign)?;
        let phase = PartTally::parse(&text).map(|part| part.tally.phase);
        if phase == Some(Phase::Closed) && first.tally.phase != Phase::Closed {
            let (campaign, partition) = (meta.id, part.0);
            tracing::warn!(%campaign, partition, "a shard of a sale closed before its terms changed");
        }
        Ok(())
    }

    /// Changes terms in the first shard, if it has the expected terms.
    async fn decide_terms(
        &self,
        meta: &CachedCampaign,
        request: &TermsRequest<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let home = self.partitions.home(meta.id);
        let (change, expected) = (&request.change, request.expected);
        let millis = |at: Option<Timestamp>| number(at.map(Timestamp::as_millis));
        let count = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
        let ack = self.terms_ack(meta);
        let reply = self
            .partitions
            .call(home, &SET_TERMS, meta.id, Some(ack), &|command| {
                command
                    .arg(request.start())
                    .arg(millis(change.ends_at))
                    .arg(number(change.per_user_limit.map(i64::from)))
                    .arg(number(change.unit_price_minor))
                    .arg(STOCK_PRICE_MINOR_MAX)
                    .arg(Timestamp::MAX.as_millis())
                    .arg(count(request.followed))
                    .arg(percent(change.admission))
                    .arg(millis(expected.map(|terms| terms.window.starts_at())))
                    .arg(millis(expected.map(|terms| terms.window.ends_at())))
                    .arg(number(expected.map(|terms| terms.per_user_limit.into())))
                    .arg(number(expected.map(|terms| terms.unit_price_minor)))
                    .arg(percent(expected.map(|terms| terms.admission)))
                    .arg(text_of(request.made))
                    .arg(count(request.stock))
                    .arg(STOCK_MAX)
            })
            .await;
        self.invalidate(meta.id);
        let reply = reply?;
        if request.changes() {
            self.keep_terms(meta, &reply);
        }
        if self.partitions.options().waits(ack) && reply.is_ok() {
            reply.level(ack)?;
        }
        Ok(reply)
    }

    /// Keeps the present terms, even if replicas do not confirm them, because users receive grants under them. A repair
    /// that knew only these grants could find some above the limit.
    fn keep_terms(&self, meta: &CachedCampaign, reply: &ScriptReply) {
        let part = reply.is_ok().then(|| PartTally::parse(&reply.text()));
        let Some((revision, Some(terms))) = part
            .flatten()
            .map(|part| (part.revision, part.tally.terms))
            .filter(|(revision, _)| *revision > 0)
        else {
            return;
        };
        let home = self.partitions.home(meta.id);
        let event = Event::TermsChanged { revision, terms };
        self.runtime(home).unsettled_answers.keep_step(meta, event);
    }

    /// If there are replicas, they have the change before it is answered, at any level that the campaign requests.
    fn terms_ack(&self, meta: &CachedCampaign) -> AckLevel {
        match self.partitions.options().replicas {
            0 => meta.ack,
            _ => AckLevel::Replica,
        }
    }
}
