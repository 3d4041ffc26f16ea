//! Background tasks of a node: invalidations, polls and ticks.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use qiang_core::event::PartitionId;
use redis::RedisError;
use tokio::task::JoinSet;

use crate::{
    intake::{
        admission::LEASE_AGAIN,
        gate::{BEAT_EVERY, POLL_EVERY},
    },
    node::{EXPIRE_EVERY, Node},
    partitions::{
        key_types::CHECK_EVERY,
        ticking::{ClockGuard, NOTED_EVERY, Ticking},
    },
};

/// Interval of ticks.
const TICK_EVERY: Duration = Duration::from_millis(250);
/// Interval at which the Sentinels are asked for the primary.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// How often a node looks for campaigns that are out of service.
const SUSPENSIONS_EVERY: Duration = Duration::from_secs(5);
/// Events of one tick.
const TICK_EVENTS_MAX: usize = 1_000;

/// Passes invalidations to the gate. They may be lost while there is no subscription.
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
            node.invalidate(campaign);
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

/// Detects pauses of this process.
pub(crate) async fn beat(node: Arc<Node>) {
    loop {
        tokio::time::sleep(BEAT_EVERY).await;
        node.gate.beat().await;
    }
}

/// Reports to a partition repeatedly that this node is present.
pub(crate) async fn presence(node: Arc<Node>, id: PartitionId) {
    let partition = node.partitions.get(id);
    loop {
        partition.presence_due().await;
        if let Err(error) = node.partitions.present(id).await {
            partition.note_failure(error.to_string());
        }
    }
}

/// Records repeatedly that this node serves a partition, independent of slow ticks.
pub(crate) async fn serve(node: Arc<Node>, partition: PartitionId) {
    let known = node.partitions.get(partition);
    let mut redis = ClockGuard::begin();
    loop {
        tokio::time::sleep(NOTED_EVERY).await;
        if !known.is_open() {
            continue;
        }
        if let Err(error) = node.note_served_by(partition, &mut redis).await {
            tracing::debug!(partition = partition.0, %error, "cannot record partition uptime");
        }
    }
}

/// Looks which campaigns of a partition repairs have taken out of service, while the partition is open: a repair has
/// the connection to itself. If Redis does not answer, what was found last stays.
pub(crate) async fn look_for_suspensions(node: Arc<Node>, partition: PartitionId) {
    let known = node.partitions.get(partition);
    loop {
        tokio::time::sleep(SUSPENSIONS_EVERY).await;
        if !known.is_open() {
            continue;
        }
        match node.partitions.noted_campaigns(partition).await {
            Ok(campaigns) => *node.runtime(partition).suspended.lock() = campaigns,
            Err(error) => {
                tracing::debug!(partition = partition.0, %error, "cannot look for campaigns out of service");
            }
        }
    }
}

/// Removes keys of a partition that were overwritten with another type.
pub(crate) async fn check_types(node: Arc<Node>, partition: PartitionId) {
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        if let Err(error) = node.partitions.remove_wrong_types(partition).await {
            tracing::debug!(partition = partition.0, %error, "types of keys are not checked");
        }
    }
}

/// Follows the primary that the Sentinels name.
pub(crate) async fn follow(node: Arc<Node>) {
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        node.partitions.context.directory.follow().await;
    }
}

/// Expires holds and ends windows of a partition when they are due. Each node does this; a second tick finds nothing
/// due.
pub(crate) async fn tick(node: Arc<Node>, partition: PartitionId) {
    let known = node.partitions.get(partition);
    let mut ticking = Ticking::begin(None);
    loop {
        tokio::time::sleep(TICK_EVERY).await;
        if !known.is_open() {
            ticking.since = None;
            continue;
        }
        let ticked = node.tick(partition, TICK_EVENTS_MAX, &mut ticking).await;
        if let Err(error) = ticked {
            tracing::debug!(partition = partition.0, %error, "tick failed");
            // One campaign may have failed. If Redis does not answer at all, no payment report is accepted either.
            if node.now_ms(partition).await.is_err() {
                ticking.since = None;
            }
        }
    }
}

/// Reloads requested campaigns. The caller may give up in the meantime.
pub(crate) async fn recall(node: Arc<Node>) {
    let Some(mut asked) = node.recalls.take_asked() else {
        return;
    };
    let mut recalls = JoinSet::new();
    while let Some(wanted) = asked.recv().await {
        while recalls.try_join_next().is_some() {}
        let node = Arc::clone(&node);
        recalls.spawn(async move { node.recall_asked(wanted).await });
    }
}

/// Serves claims that wait for an admission permit.
pub(crate) async fn admit(node: Arc<Node>) {
    loop {
        match node.rooms.len() {
            0 => node.rooms.signal.changed().await,
            _ => drop(tokio::time::timeout(LEASE_AGAIN, node.rooms.signal.changed()).await),
        }
        node.look_after_waiting();
    }
}

/// Answers claims that have waited too long.
pub(crate) async fn expire(node: Arc<Node>) {
    loop {
        tokio::time::sleep(EXPIRE_EVERY).await;
        node.expire();
    }
}
