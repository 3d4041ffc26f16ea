//! Opening of campaigns that are not spread and have few shares: one call opens all that arrive together. Each is
//! opened or refused independently.

use std::sync::Arc;

use qiang_core::{book::Setup, campaign::AckLevel, event::PartitionId, ports::EngineError};
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::{
    campaigns::opening::{CHUNK, ShardShare, fields_of},
    connection::{ScriptCall, ScriptReply, unreadable},
    intake::opening_queue::{Opening, OpeningResult},
    node::Node,
    partitions::nobody,
    protocol::{
        campaign_meta::{CachedCampaign, FIELDS},
        reply::share_text,
        scripts::OPEN_MANY,
    },
    shards::sums::sums_of,
};

impl Node {
    /// Opens a campaign together with others. False if it must be opened step by step: it is spread, has many shares,
    /// or may not be new.
    pub(crate) async fn open_together(&self, setup: &Setup) -> Result<bool, EngineError> {
        let campaign = &setup.campaign;
        if self.partitions.parts_for(campaign) > 1 || setup.shares.len() > CHUNK {
            return Ok(false);
        }
        let home = self.partitions.home(campaign.id);
        let (answer, mut answered) = oneshot::channel();
        let (opening, meta) = self.opening(home, setup, answer);
        let line = self.openings.line(home);
        line.enter(opening)?;
        let opened = loop {
            let turn = tokio::select! {
                biased;
                opened = &mut answered => break opened,
                turn = line.turn.lock() => turn,
            };
            // Another caller may have answered it by now; otherwise it is among the waiting ones.
            match answered.try_recv() {
                Err(TryRecvError::Empty) => {}
                Ok(opened) => break Ok(opened),
                Err(TryRecvError::Closed) => return Err(given_up()),
            }
            self.open_batch(home, line.next()).await;
            drop(turn);
        };
        match opened.map_err(|_| given_up())?? {
            OpeningResult::Now => {
                if let Some(meta) = meta {
                    self.partitions.remember(Arc::new(meta));
                }
                Ok(true)
            }
            OpeningResult::Before => self.partitions.meta(campaign.id).await.map(|_| true),
            OpeningResult::Otherwise => Ok(false),
        }
    }

    /// Request to open a campaign, and the meta that this node remembers once it is open.
    fn opening(
        &self,
        home: PartitionId,
        setup: &Setup,
        answer: oneshot::Sender<Result<OpeningResult, EngineError>>,
    ) -> (Opening, Option<CachedCampaign>) {
        let campaign = &setup.campaign;
        let part = ShardShare::from_setup(setup, 0, 1);
        let origin = (campaign, campaign.window.starts_at());
        let fields = fields_of(origin, (1, 0), part.supply, part.funded_minor);
        let sums = sums_of(&part.shares);
        let mut arguments = vec![
            campaign.id.to_string(),
            campaign.created_at.as_millis().to_string(),
            sums.len().to_string(),
            part.shares.len().to_string(),
            fields.len().to_string(),
        ];
        for (_, place, sum) in &sums {
            arguments.extend([place.to_string(), sum.to_string()]);
        }
        let shares = part.shares.iter();
        arguments.extend(shares.map(|(number, amount)| share_text(*number, *amount)));
        for (field, value) in &fields {
            arguments.extend([(*field).to_owned(), value.clone()]);
        }
        let value = |name: &&str| {
            let field = fields.iter().find(|(field, _)| field == name);
            field.map(|(_, value)| value.clone())
        };
        let values: Vec<_> = FIELDS.iter().map(value).collect();
        let keys = self.partitions.keys();
        let of_campaign = |rest: &str| keys.for_campaign(home, campaign.id, rest);
        let opening = Opening {
            ack: campaign.ack,
            shares: part.shares.len(),
            keys: [
                keys.campaign(home, campaign.id),
                of_campaign("shares"),
                of_campaign("sums"),
                keys.plan(home, campaign.id),
            ],
            arguments,
            answer,
        };
        (opening, CachedCampaign::read(campaign.id, &values))
    }

    /// Opens these campaigns, and answers each request.
    async fn open_batch(&self, home: PartitionId, batch: Vec<Opening>) {
        let options = self.partitions.options();
        let waits = batch
            .iter()
            .map(|it| it.ack)
            .find(|ack| options.waits(*ack));
        let more_keys: Vec<String> = batch.iter().flat_map(|it| it.keys.clone()).collect();
        let call = ScriptCall {
            script: &OPEN_MANY,
            campaign: nobody(),
            more_keys: &more_keys,
            arguments: &|command| {
                for opening in &batch {
                    command.arg(&opening.arguments);
                }
                command
            },
            asks: Some(waits.unwrap_or(AckLevel::Memory)),
        };
        let reply = self.partitions.carry_out(home, &call).await;
        let opened = reply.and_then(|reply| opened(&reply, batch.len()).map(|all| (reply, all)));
        match opened {
            Err(error) => {
                for opening in batch {
                    drop(opening.answer.send(Err(error.clone())));
                }
            }
            Ok((reply, all)) => {
                for (opening, opened) in batch.into_iter().zip(all) {
                    let level =
                        match options.waits(opening.ack) && opened != OpeningResult::Otherwise {
                            true => reply.level(opening.ack).map(drop),
                            false => Ok(()),
                        };
                    drop(opening.answer.send(level.map(|()| opened)));
                }
            }
        }
    }
}

/// Results in a reply about `count` campaigns.
fn opened(reply: &ScriptReply, count: usize) -> Result<Vec<OpeningResult>, EngineError> {
    let text = reply.text();
    let words = text.split(' ').map(|word| match word {
        "new" => Ok(OpeningResult::Now),
        "here" => Ok(OpeningResult::Before),
        "left" | "plan" | "gap" => Ok(OpeningResult::Otherwise),
        _ => Err(unreadable()),
    });
    let all: Vec<_> = words.collect::<Result<_, _>>()?;
    match reply.is_ok() && all.len() == count {
        true => Ok(all),
        false => Err(unreadable()),
    }
}

fn given_up() -> EngineError {
    EngineError::uncertain("the opening was abandoned")
}

#[cfg(all(test, feature = "servers"))]
mod tests;
