//! Parts of spread campaigns: which one a partition has, and whether the others fit it.

use super::*;

impl Partitions {
    /// The part of a campaign that a partition has, as number of parts and place among them; none where it has no part.
    pub(super) async fn place(
        &self,
        ledger: &dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<(u16, u16)>, EngineError> {
        let settled = ledger.settled_part(campaign, partition).await;
        let Some(settled) = settled.map_err(of_ledger)? else {
            return Ok(None);
        };
        let parts = match settled.record.phase {
            Phase::Draft if settled.parts == 1 => {
                let home = self.home(campaign);
                let key = self.keys().plan(home, campaign);
                let plan: Option<u16> = self
                    .query_unfenced(home, redis::cmd("GET").arg(key))
                    .await?;
                plan.unwrap_or_else(|| self.parts_for(&settled.record.campaign))
            }
            _ => settled.parts,
        };
        let (home, count) = (self.home(campaign).0, self.options().partitions);
        let index = (partition.0 + count - home) % count;
        Ok((index < parts).then_some((parts, index)))
    }

    /// A part of which Redis has nothing, as it was before anything was granted.
    pub(super) async fn lost_part(
        &self,
        partition: PartitionId,
        (parts, index): (u16, u16),
        known: SettledSnapshot,
    ) -> Result<BothSides, EngineError> {
        let campaign = &known.settled.record.campaign;
        let facts = facts_of(campaign, parts, index);
        let meta = CampaignMeta {
            id: campaign.id,
            kind: campaign.kind(),
            window: campaign.window,
            limit: facts.limit,
            hold_ms: facts.hold_ms,
            parts,
            ack: campaign.ack,
        };
        let mut rows = PartRows::new(known.settled.phase);
        if rows.phase == Phase::Draft {
            rows.phase = Phase::Scheduled;
        }
        let mut engine = EnginePart {
            rows,
            shares: Vec::new(),
            supply: campaign.supply(),
            funded_minor: campaign.funded_minor(),
            numbered: 0,
        };
        if facts.fixed_shares {
            let own = known.rows.grants.iter();
            let own = own.map(|(number, row)| (*number, row.amount_minor));
            engine.shares = known.free.iter().copied().chain(own).collect();
            engine.shares.sort_unstable();
        }
        let sent = match parts > 1 {
            true => self.deal(partition, &facts, &known, &mut engine).await?,
            false => 0,
        };
        let mut fields = fields_of(campaign, (parts, index), engine.supply, engine.funded_minor);
        fields.push(("sent", sent.to_string()));
        Ok(BothSides {
            facts,
            meta,
            engine,
            ledger: known.rows,
            fields,
        })
    }

    /// What a lost part of a spread campaign gets: its own grants, and an even share of what neither the other parts
    /// have nor anybody. Shares go back to the part that they were dealt to at first.
    ///
    /// Returns the number of the last transfer that has arrived from it anywhere.
    ///
    /// # Errors
    /// When shares of this part have moved to one that is not lost: it is not known which.
    pub(super) async fn deal(
        &self,
        partition: PartitionId,
        facts: &PartFacts,
        known: &SettledSnapshot,
        engine: &mut EnginePart,
    ) -> Result<u64, EngineError> {
        let is_packet = facts.kind == CampaignKind::RedPacket;
        let (mut elsewhere, mut lost_before, mut lost, mut sent) = (0_u32, 0_u32, 0_u32, 0);
        for index in 0..facts.parts {
            let other = self.other_part(partition, facts.campaign, index).await?;
            match other.filter(|_| index != facts.index) {
                Some(other) if is_packet && other.arrived > 0 => {
                    return Err(unavailable(format!(
                        "partition {} has lost its part of campaign {}, and units were moved between it and others",
                        partition.0, facts.campaign
                    )));
                }
                Some(other) => {
                    elsewhere += other.supply;
                    sent = sent.max(other.arrived);
                }
                None => {
                    elsewhere += known.granted[usize::from(index)];
                    lost += 1;
                    lost_before += u32::from(index < facts.index);
                }
            }
        }
        if is_packet {
            let ours =
                |number: u32| (number - 1) % u32::from(facts.parts) == u32::from(facts.index);
            let own = &known.rows.grants;
            engine
                .shares
                .retain(|(number, _)| ours(*number) || own.contains_key(number));
            engine.supply = engine.shares.len() as u32;
            engine.funded_minor = engine.shares.iter().map(|(_, amount)| amount).sum();
        } else {
            let left = engine.supply.saturating_sub(elsewhere);
            let more = u32::from(lost_before < left % lost);
            engine.supply = known.granted[usize::from(facts.index)] + left / lost + more;
        }
        Ok(sent)
    }

    /// Refuses a part that has lost the step by which units left it: they are in another part, and here again.
    pub(super) async fn check_transfers(
        &self,
        partition: PartitionId,
        facts: &PartFacts,
    ) -> Result<(), EngineError> {
        let mut command = redis::cmd("HGET");
        command
            .arg(self.keys().campaign(partition, facts.campaign))
            .arg("sent");
        let sent: Option<u64> = self.query_unfenced(partition, &command).await?;
        for index in (0..facts.parts).filter(|index| *index != facts.index) {
            let other = self.other_part(partition, facts.campaign, index).await?;
            if other.is_some_and(|other| other.arrived > sent.unwrap_or(0)) {
                return Err(unavailable(format!(
                    "partition {} has lost the step by which units of campaign {} left it for another one",
                    partition.0, facts.campaign
                )));
            }
        }
        Ok(())
    }

    /// Another part of a spread campaign; none where Redis has nothing of it.
    async fn other_part(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        index: u16,
    ) -> Result<Option<OtherPart>, EngineError> {
        let other = self.of_part(campaign, index);
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys().campaign(other, campaign));
        command.arg(&["supply", "withheld"]);
        command.arg(format!("from:{}", partition.0));
        type Fields = (Option<u32>, Option<u32>, Option<u64>);
        let (supply, withheld, arrived): Fields = self.query_unfenced(other, &command).await?;
        let mut command = redis::cmd("HVALS");
        command.arg(self.keys().transfers(other, campaign));
        let moving: Vec<String> = self.query_unfenced(other, &command).await?;
        let units = |transfer: &String| transfer.split('\n').nth(1)?.parse::<u32>().ok();
        let moving: u32 = moving.iter().filter_map(units).sum();
        Ok(supply.map(|supply| OtherPart {
            supply: supply + withheld.unwrap_or(0) + moving,
            arrived: arrived.unwrap_or(0),
        }))
    }
}

/// Another part of a spread campaign.
struct OtherPart {
    /// Units that it has handed out, can hand out, withholds or is sending somewhere.
    supply: u32,
    /// The last transfer that has arrived there from the part in question.
    arrived: u64,
}
