//! The relay of one partition: from the log into the queue.
//!
//! One process relays a partition at a time: the one that has the exclusive queue of its name, which RabbitMQ takes
//! away with the connection.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use lapin::{
    BasicProperties, Channel, Confirmation, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::FieldTable,
};
use parking_lot::Mutex;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{EventLog, Ledger, LedgerError, TransportStatus},
};
use tokio::sync::Notify;

use crate::{
    link::{BrokerError, Link, in_time},
    message,
    options::{AHEAD_MAX, LOCK_POLL, MESSAGE_ENTRIES_MAX, PAUSES, POLL_EVERY, UNCONFIRMED_MAX},
};

/// Written to disk before it is confirmed.
const PERSISTENT: u8 = 2;
/// The reply code for a queue that is another connection's.
const RESOURCE_LOCKED: u16 = 405;

pub(crate) struct Relay {
    pub(crate) link: Arc<Link>,
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) partition: PartitionId,
    /// Notified when the queue was lost with what was in it.
    pub(crate) queue_lost: Arc<Notify>,
    pub(crate) shown: Arc<Mutex<TransportStatus>>,
}

/// How far a relay came.
#[derive(Default)]
struct Progress {
    /// Whether everything was confirmed at some time since it was last looked at.
    relayed: bool,
    /// The last entry that it has published, ever.
    published: Seq,
}

/// Why a relay stopped.
#[derive(Debug)]
enum Stopped {
    /// Another process relays the partition.
    NotOwner,
    /// The queue was lost: what was in it is to be published again.
    QueueLost,
    Failed(String),
}

impl From<BrokerError> for Stopped {
    fn from(error: BrokerError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<LedgerError> for Stopped {
    fn from(error: LedgerError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Relay {
    /// Relays until it is aborted.
    pub(crate) async fn run(self) {
        let partition = self.partition.0;
        let (mut pause, mut well) = (PAUSES.0, true);
        let mut progress = Progress::default();
        loop {
            match self.relay(&mut progress).await {
                Stopped::NotOwner => tokio::time::sleep(LOCK_POLL).await,
                Stopped::QueueLost => {
                    tracing::warn!(
                        partition,
                        "the queue was lost: relaying from the ledger's position"
                    );
                }
                Stopped::Failed(reason) => {
                    if std::mem::take(&mut progress.relayed) {
                        (pause, well) = (PAUSES.0, true);
                    }
                    if std::mem::replace(&mut well, false) {
                        tracing::warn!(partition, reason, "the relay is interrupted");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(PAUSES.1);
                }
            }
        }
    }

    async fn relay(&self, progress: &mut Progress) -> Stopped {
        match self.try_relay(progress).await {
            Ok(stopped) | Err(stopped) => stopped,
        }
    }

    async fn try_relay(&self, progress: &mut Progress) -> Result<Stopped, Stopped> {
        let channel = self.link.channel().await?;
        if !self.lock(&channel).await? {
            return Ok(Stopped::NotOwner);
        }
        self.link.declare(&channel, self.partition).await?;
        let confirms = ConfirmSelectOptions::default();
        in_time("confirms", channel.confirm_select(confirms)).await?;
        let mut settled = self.ledger.settled(self.partition).await?;
        let mut position = settled;
        let mut unconfirmed = VecDeque::new();
        loop {
            let run = if position.saturating_sub(settled) < AHEAD_MAX {
                let log = &self.log;
                log.read(self.partition, position, MESSAGE_ENTRIES_MAX)
                    .await?
            } else {
                settled = self.ledger.settled(self.partition).await?;
                Vec::new()
            };
            if run.is_empty() {
                confirm(&mut unconfirmed, 0).await?;
                progress.relayed = true;
                if !channel.status().connected() {
                    return Ok(Stopped::Failed("the channel is closed".to_owned()));
                }
                if self.is_queue_lost(POLL_EVERY).await {
                    return Ok(Stopped::QueueLost);
                }
                continue;
            }
            self.check(position, &run).await?;
            position = run.last().map_or(position, |entry| entry.seq);
            unconfirmed.push_back(self.publish(&channel, &run).await?);
            let again = run.iter().take_while(|e| e.seq <= progress.published);
            self.shown.lock().republished += again.count() as u64;
            progress.published = progress.published.max(position);
            confirm(&mut unconfirmed, UNCONFIRMED_MAX).await?;
            if self.is_queue_lost(Duration::ZERO).await {
                return Ok(Stopped::QueueLost);
            }
        }
    }

    async fn is_queue_lost(&self, wait_max: Duration) -> bool {
        let lost = tokio::time::timeout(wait_max, self.queue_lost.notified());
        lost.await.is_ok()
    }

    /// Makes sure that nobody else relays the partition.
    async fn lock(&self, channel: &Channel) -> Result<bool, Stopped> {
        let exclusive = QueueDeclareOptions {
            exclusive: true,
            ..QueueDeclareOptions::default()
        };
        let name = self.link.options.lock(self.partition);
        let declared =
            channel.queue_declare(name.as_str().into(), exclusive, FieldTable::default());
        match in_time("declare a lock", declared).await {
            Ok(_) => Ok(true),
            Err(BrokerError::Failed(error)) if is_locked(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What is read follows the position, unless the ledger has what lies between.
    async fn check(&self, position: Seq, run: &[Entry]) -> Result<(), Stopped> {
        let Some(first) = run.first().filter(|first| first.seq != position + 1) else {
            return Ok(());
        };
        if first.seq <= self.ledger.settled(self.partition).await? + 1 {
            return Ok(());
        }
        let reason = format!("entry {} is gone from the log", position + 1);
        Err(Stopped::Failed(reason))
    }

    async fn publish(&self, channel: &Channel, run: &[Entry]) -> Result<PublisherConfirm, Stopped> {
        let text = message::encode(self.partition, run);
        // Without a queue it comes back instead of getting lost.
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let queue = self.link.options.queue(self.partition);
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let queue = queue.as_str().into();
        let published =
            channel.basic_publish("".into(), queue, options, text.as_bytes(), properties);
        Ok(in_time("publish", published).await?)
    }
}

/// Waits until no more than so many messages are unconfirmed.
async fn confirm(
    unconfirmed: &mut VecDeque<PublisherConfirm>,
    left_max: usize,
) -> Result<(), BrokerError> {
    while unconfirmed.len() > left_max {
        let Some(oldest) = unconfirmed.pop_front() else {
            return Ok(());
        };
        match in_time("confirm", oldest).await? {
            Confirmation::Ack(None) => {}
            _ => return Err(BrokerError::NotTaken),
        }
    }
    Ok(())
}

fn is_locked(error: &lapin::Error) -> bool {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => error.get_id() == RESOURCE_LOCKED,
        _ => false,
    }
}
