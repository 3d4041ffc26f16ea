//! Everything that is asked of the engine beside claims.

use qiang_core::{
    book::{CampaignAction, Command, OrderView, PaymentOutcome, Refusal, Reply},
    campaign::{Phase, Tally, Transition, TransitionError},
    event::PartitionId,
    id::{CampaignId, OrderId, PaymentRef},
    order::{OrderState, OrderStep, OrderStepError},
    ports::EngineError,
};
use redis::Cmd;

use crate::{
    engine::RedisEngine,
    facts::Facts,
    node::Node,
    reply::{self, PartTally},
    scripts::{CANCEL, ORDER, PAY, PROBE, STEER, Script, TALLY, TICK},
    slot, spread,
};

/// Campaigns looked at by one tick of one partition.
const DUE_MAX: usize = 64;
/// How often a close is tried while units are on their way between parts.
const CLOSES_MAX: usize = 50;

impl RedisEngine {
    pub(crate) async fn run(&self, command: Command) -> Result<Reply, EngineError> {
        let node = &self.node;
        match command {
            Command::Open(setup) => node.open(&setup).await.map(|()| Reply::Opened),
            Command::Pay { order, payment } => node.pay(order, &payment).await,
            Command::Cancel { order } => node.cancel(order).await.map(Reply::Cancelled),
            Command::Act { campaign, action } => node.act(campaign, action).await.map(Reply::Acted),
            Command::Tick { events_max } => {
                let more = node.tick(events_max).await?;
                Ok(Reply::Ticked { more })
            }
        }
    }
}

impl Node {
    /// Calls a script of a campaign's part that changes something, and sees to the level that the campaign asks for.
    async fn change(
        &self,
        partition: PartitionId,
        script: &'static Script,
        facts: &Facts,
        arguments: &(dyn Fn(&mut Cmd) + Send + Sync),
    ) -> Result<slot::Reply, EngineError> {
        let wait = self.waits(facts.ack);
        let reply = self
            .call(partition, script, facts.id, wait, arguments)
            .await;
        self.gate.forget(facts.id);
        let reply = reply?;
        if wait && reply.is_ok() {
            self.level(facts.ack, reply.reached)?;
        }
        Ok(reply)
    }

    async fn pay(&self, order: OrderId, payment: &PaymentRef) -> Result<Reply, EngineError> {
        let facts = self.facts(order.campaign).await?;
        let facts = facts.ok_or(Refusal::UnknownOrder)?;
        let partition = self.of_order(&facts, order.number);
        let arguments = |command: &mut Cmd| {
            command.arg(order.number).arg(payment.as_str());
        };
        let reply = self.change(partition, &PAY, &facts, &arguments).await?;
        let text = known(&reply, Refusal::UnknownOrder)?;
        let outcome = match text.as_bytes().first() {
            Some(b'p') => PaymentOutcome::Paid,
            Some(b'r') => PaymentOutcome::Reinstated,
            _ => PaymentOutcome::RefundDue,
        };
        let view = text.get(2..).and_then(|text| reply::order(&facts, text));
        Ok(Reply::Payment(outcome, view.ok_or_else(unreadable)?))
    }

    async fn cancel(&self, order: OrderId) -> Result<OrderView, EngineError> {
        let facts = self.facts(order.campaign).await?;
        let facts = facts.ok_or(Refusal::UnknownOrder)?;
        let partition = self.of_order(&facts, order.number);
        let arguments = |command: &mut Cmd| {
            command.arg(order.number);
        };
        let reply = self.change(partition, &CANCEL, &facts, &arguments).await?;
        if reply.status == "refused" {
            let from = match reply.text().as_str() {
                "p" => OrderState::Paid,
                _ => OrderState::Expired,
            };
            let step = OrderStep::Cancel;
            return Err(Refusal::Order(OrderStepError { from, step }).into());
        }
        let text = known(&reply, Refusal::UnknownOrder)?;
        reply::order(&facts, &text).ok_or_else(unreadable)
    }

    pub(crate) async fn order(&self, order: OrderId) -> Result<Option<OrderView>, EngineError> {
        let Some(facts) = self.facts(order.campaign).await? else {
            return Ok(None);
        };
        let partition = self.of_order(&facts, order.number);
        let arguments = |command: &mut Cmd| {
            command.arg(order.number);
        };
        let reply = self
            .call(partition, &ORDER, facts.id, false, &arguments)
            .await?;
        match known(&reply, Refusal::UnknownOrder) {
            Ok(text) => reply::order(&facts, &text).map(Some).ok_or_else(unreadable),
            Err(_) => Ok(None),
        }
    }

    async fn act(
        &self,
        campaign: CampaignId,
        action: CampaignAction,
    ) -> Result<Tally, EngineError> {
        let facts = self.facts(campaign).await?;
        let facts = facts.ok_or(Refusal::UnknownCampaign)?;
        let mut parts = Vec::with_capacity(usize::from(facts.parts));
        for part in 0..facts.parts {
            let partition = self.of_part(campaign, part);
            parts.push(self.act_on_part(&facts, partition, action).await?);
        }
        Ok(sum(&parts))
    }

    async fn act_on_part(
        &self,
        facts: &Facts,
        partition: PartitionId,
        action: CampaignAction,
    ) -> Result<PartTally, EngineError> {
        let (word, transition) = match action {
            CampaignAction::Pause => ("pause", Transition::Pause),
            CampaignAction::Resume => ("resume", Transition::Resume),
            CampaignAction::Close => ("close", Transition::Close),
        };
        let arguments = |command: &mut Cmd| {
            command.arg(word);
        };
        for _ in 0..CLOSES_MAX {
            let reply = self.change(partition, &STEER, facts, &arguments).await?;
            match reply.status.as_str() {
                "busy" => {
                    spread::finish(self, facts, partition).await?;
                }
                "refused" => {
                    let from = reply::phase(&reply.text()).unwrap_or(Phase::Closed);
                    return Err(Refusal::Phase(TransitionError { from, transition }).into());
                }
                _ => {
                    let text = known(&reply, Refusal::UnknownCampaign)?;
                    return reply::tally(&text).ok_or_else(unreadable);
                }
            }
        }
        Err(EngineError::Unavailable {
            reason: "units are moving between partitions; ask again".to_owned(),
        })
    }

    pub(crate) async fn tally(&self, campaign: CampaignId) -> Result<Option<Tally>, EngineError> {
        let Some(facts) = self.facts(campaign).await? else {
            return Ok(None);
        };
        if facts.parts == 1
            && let Some(tally) = self.tally_by_replica(&facts).await
        {
            return Ok(Some(tally));
        }
        // Units on their way are in no part: what is missing is looked for until the sum is right.
        let mut tally = sum(&self.part_tallies(&facts).await?);
        for _ in 0..CLOSES_MAX {
            if facts.parts == 1 || !spread::finish_all(self, &facts).await? {
                break;
            }
            tally = sum(&self.part_tallies(&facts).await?);
        }
        Ok(Some(tally))
    }

    /// From a read replica, where there are any and one answers.
    async fn tally_by_replica(&self, facts: &Facts) -> Option<Tally> {
        let turn = self
            .turns
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let partition = self.home(facts.id);
        let mut command = redis::cmd("EVAL_RO");
        command.arg(&TALLY.text).arg(crate::keys::SCRIPT_KEYS);
        for key in self.wiring.keys.of_script(partition, "reads", facts.id) {
            command.arg(key);
        }
        // A replica may be behind: only the epoch is checked.
        command
            .arg(&self.partition(partition).epoch)
            .arg(0)
            .arg(self.wiring.now())
            .arg(0)
            .arg(0)
            .arg(facts.id.to_string());
        let asked = self.wiring.directory.ask_replica(turn, &command).await;
        let (status, text): (String, String) = asked?;
        (status == "ok")
            .then(|| reply::tally(&text))?
            .map(|part| part.tally)
    }

    /// Does what is due; tells whether there is more.
    pub(crate) async fn tick(&self, events_max: usize) -> Result<bool, EngineError> {
        let mut more = false;
        for partition in &self.partitions {
            more |= self.tick_partition(partition.id, events_max).await?;
        }
        Ok(more)
    }

    pub(crate) async fn tick_partition(
        &self,
        partition: PartitionId,
        events_max: usize,
    ) -> Result<bool, EngineError> {
        let now = match &self.wiring.options.clock {
            Some(clock) => clock.now().as_millis(),
            None => {
                let time: (i64, i64) = self.read(partition, &redis::cmd("TIME")).await?;
                1_000 * time.0 + time.1 / 1_000
            }
        };
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command
            .arg(self.wiring.keys.agenda(partition))
            .arg("-inf")
            .arg(now)
            .arg("LIMIT")
            .arg(0)
            .arg(DUE_MAX);
        let due: Vec<String> = self.read(partition, &command).await?;
        let mut more = due.len() >= DUE_MAX;
        for campaign in due {
            let Ok(campaign) = campaign.parse::<CampaignId>() else {
                continue;
            };
            more |= self.tick_campaign(partition, campaign, events_max).await?;
        }
        Ok(more)
    }

    async fn tick_campaign(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        events_max: usize,
    ) -> Result<bool, EngineError> {
        let Some(facts) = self.facts(campaign).await? else {
            // A part that is open before its home is: it is not known yet.
            return Ok(false);
        };
        let arguments = |command: &mut Cmd| {
            command.arg(events_max);
        };
        let reply = self.change(partition, &TICK, &facts, &arguments).await?;
        if reply.status == "busy" {
            spread::finish(self, &facts, partition).await?;
            return Ok(true);
        }
        let events: usize = reply.text().parse().unwrap_or(0);
        Ok(events >= events_max)
    }

    pub(crate) async fn probe(&self) -> Result<(), EngineError> {
        let nobody =
            CampaignId::new(uuid::Builder::from_unix_timestamp_millis(0, &[0; 10]).into_uuid());
        let nobody = nobody.map_err(|_| unreadable())?;
        let wait = self.wiring.options.replicas > 0;
        for partition in &self.partitions {
            self.call(partition.id, &PROBE, nobody, wait, &|_| {})
                .await?;
        }
        Ok(())
    }
}

/// The reply's text, or the refusal that stands for what is not there.
fn known(reply: &slot::Reply, unknown: Refusal) -> Result<String, EngineError> {
    match reply.status.as_str() {
        "ok" => Ok(reply.text()),
        "unknown" => Err(unknown.into()),
        status => Err(EngineError::Unavailable {
            reason: format!("Redis answered {status} {}", reply.text()),
        }),
    }
}

fn unreadable() -> EngineError {
    EngineError::Unavailable {
        reason: "a reply of Redis cannot be read".to_owned(),
    }
}

/// A spread campaign's numbers. Its phase is the one that most is still to come of.
fn sum(parts: &[PartTally]) -> Tally {
    let order = |phase: Phase| match phase {
        Phase::Draft | Phase::Scheduled => 0,
        Phase::Paused => 1,
        Phase::Live => 2,
        Phase::Ended => 3,
        Phase::Closed => 4,
    };
    let phases = parts.iter().map(|part| part.tally.phase);
    let mut total = Tally {
        phase: phases
            .min_by_key(|phase| order(*phase))
            .unwrap_or(Phase::Closed),
        supply: 0,
        granted: 0,
        remaining: 0,
        returned: 0,
        funded_minor: 0,
        claimed_minor: 0,
        remaining_minor: 0,
        refunded_minor: 0,
        grants: 0,
    };
    for PartTally { tally, .. } in parts {
        total.supply += tally.supply;
        total.granted += tally.granted;
        total.remaining += tally.remaining;
        total.returned += tally.returned;
        total.funded_minor += tally.funded_minor;
        total.claimed_minor += tally.claimed_minor;
        total.remaining_minor += tally.remaining_minor;
        total.refunded_minor += tally.refunded_minor;
        total.grants += tally.grants;
    }
    total
}
