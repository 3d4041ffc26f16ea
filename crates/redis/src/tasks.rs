//! What runs in the background on a node: invalidations, polls, and ticks.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use qiang_core::event::PartitionId;
use redis::RedisError;

use crate::{gate::POLL_EVERY, node::Node};

/// How often due holds and windows are looked for.
const TICK_EVERY: Duration = Duration::from_millis(250);
/// Events of one tick.
const TICK_EVENTS_MAX: usize = 1_000;

/// Passes invalidations on to the gate. While there is no subscription, they may be lost.
pub(crate) async fn listen(node: Arc<Node>) {
    loop {
        let ended = subscribe(&node).await;
        node.gate.invalidate_all();
        if let Err(error) = ended {
            tracing::debug!(%error, "the subscription to invalidations is interrupted");
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

async fn subscribe(node: &Node) -> Result<(), RedisError> {
    let context = &node.partitions.context;
    let mut pubsub = context.directory.connect_pubsub(PartitionId(0)).await?;
    pubsub.psubscribe(context.keys.invalidations()).await?;
    node.gate.invalidate_all();
    let mut messages = pubsub.on_message();
    while let Some(message) = messages.next().await {
        let campaign: Result<String, _> = message.get_payload();
        if let Some(campaign) = campaign.ok().and_then(|id| id.parse().ok()) {
            node.gate.invalidate(campaign);
        }
    }
    Ok(())
}

pub(crate) async fn poll(node: Arc<Node>) {
    loop {
        tokio::time::sleep(POLL_EVERY).await;
        node.gate.poll().await;
    }
}

/// Expires holds and ends windows when they are due. Every node does; a second one finds nothing to do.
pub(crate) async fn tick(node: Arc<Node>) {
    loop {
        tokio::time::sleep(TICK_EVERY).await;
        for partition in node.partitions.list() {
            if partition.is_halted() {
                continue;
            }
            if let Err(error) = node.tick(partition.id, TICK_EVENTS_MAX).await {
                tracing::debug!(partition = partition.id.0, %error, "a tick has failed");
            }
        }
    }
}
