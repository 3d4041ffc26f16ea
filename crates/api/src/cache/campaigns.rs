//! What hardly changes about a campaign, remembered so that answers need not ask the ledger.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use qiang_core::{
    campaign::{AckLevel, CampaignKind, Phase, Requirements},
    id::{CampaignId, UserId},
    money::Currency,
    payment::PaymentPolicy,
    ports::{CampaignRecord, GrantRecord, LedgerError},
    time::{Timestamp, Window},
    two_generations::TwoGenerations,
};
use tokio::sync::{OnceCell, oneshot};

use crate::audience::Audience;

/// Campaigns remembered at a time; past it, those are forgotten that nobody has asked for lately.
const REMEMBERED_MAX: usize = 65_536;
/// A campaign takes as much memory as so many users whom campaigns name: fewer are remembered where these are many.
const WEIGHT: usize = 16;
/// For how long the window of a sale that can still be changed counts, in milliseconds.
const WINDOW_LASTS_MS: i64 = 1_000;

/// What answers need to know of a campaign. Only the window of a sale changes, until it has ended.
#[derive(Debug)]
pub(crate) struct CampaignMeta {
    pub(crate) kind: CampaignKind,
    pub(crate) currency: Currency,
    pub(crate) ack: AckLevel,
    /// As it was when this was read: see [`CampaignMeta::has_window`].
    pub(crate) window: Window,
    /// When that was, where it may have been changed since.
    window_read_at: Option<Timestamp>,
    pub(crate) requirements: Requirements,
    pub(crate) owner: UserId,
    /// Who may take part, where that is not everybody; and who may see the draws.
    /// It never changes: the next read of the campaign keeps it.
    pub(crate) audience: Option<Arc<Audience>>,
    /// Whether claims wait in line.
    pub(crate) waiting_room: bool,
    /// Which amounts pay an order of a sale beside the price. It never changes.
    pub(crate) payment_policy: PaymentPolicy,
    /// The largest share of a packet that is over, once somebody has asked for it.
    luckiest: OnceCell<Option<GrantRecord>>,
    /// Whether the next request reads the campaign again.
    is_outdated: AtomicBool,
}

impl CampaignMeta {
    pub(crate) fn new(
        record: &CampaignRecord,
        read_at: Timestamp,
        audience: Option<Arc<Audience>>,
        waiting_room: bool,
    ) -> Self {
        let campaign = &record.campaign;
        let is_sale = campaign.kind() == CampaignKind::Sale;
        let is_over = matches!(record.phase, Phase::Ended | Phase::Closed);
        Self {
            kind: campaign.kind(),
            currency: campaign.currency(),
            ack: campaign.ack,
            window: campaign.window,
            window_read_at: (is_sale && !is_over).then_some(read_at),
            requirements: campaign.requirements,
            owner: campaign.owner.clone(),
            audience,
            waiting_room,
            payment_policy: campaign.payment_policy,
            luckiest: OnceCell::new(),
            is_outdated: AtomicBool::new(false),
        }
    }

    /// The largest share of a packet that is over: nobody gets another one. It is read once, because it takes a sort
    /// of all shares.
    pub(crate) async fn luckiest(
        &self,
        read: impl Future<Output = Result<Option<GrantRecord>, LedgerError>>,
    ) -> Result<Option<GrantRecord>, LedgerError> {
        let read = self.luckiest.get_or_try_init(|| read).await;
        read.cloned()
    }

    /// Whether the window still counts: nobody can have changed it since it was read, or that was a moment ago.
    pub(crate) fn has_window(&self, now: Timestamp) -> bool {
        self.window_read_at.is_none_or(|read_at| {
            let until = read_at.plus_millis(WINDOW_LASTS_MS);
            (read_at..until).contains(&now)
        })
    }
}

/// What a read of the ledger found.
type Loaded = Result<Option<Arc<CampaignMeta>>, LedgerError>;

#[derive(Debug)]
pub(crate) struct CampaignCache {
    known: RwLock<TwoGenerations<CampaignId, Arc<CampaignMeta>>>,
    /// Campaigns that are being read, and who waits for them.
    loading: Mutex<HashMap<CampaignId, Vec<oneshot::Sender<Loaded>>>>,
}

impl Default for CampaignCache {
    fn default() -> Self {
        Self {
            known: RwLock::new(TwoGenerations::new(REMEMBERED_MAX * WEIGHT)),
            loading: Mutex::default(),
        }
    }
}

impl CampaignCache {
    /// A campaign, unless it must be read again.
    pub(crate) fn get(&self, id: CampaignId) -> Option<Arc<CampaignMeta>> {
        let read = self.last_read(id);
        read.filter(|meta| !meta.is_outdated.load(Ordering::Relaxed))
    }

    /// A campaign as the last read found it, also if it must be read again.
    pub(crate) fn last_read(&self, id: CampaignId) -> Option<Arc<CampaignMeta>> {
        let known = self.known.read();
        let (meta, is_old) = known.find(&id)?;
        let meta = Arc::clone(meta);
        drop(known);
        if is_old {
            self.known.write().keep(&id);
        }
        Some(meta)
    }

    /// Has the next request for a campaign read it again.
    pub(crate) fn outdate(&self, id: CampaignId) {
        if let Some(meta) = self.last_read(id) {
            meta.is_outdated.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn insert(&self, id: CampaignId, meta: Arc<CampaignMeta>) {
        let named = meta.audience.as_deref().map_or(0, Audience::named);
        self.known.write().insert_of(id, meta, WEIGHT + named);
    }

    /// Reads a campaign and remembers it. Whoever asks for it meanwhile waits for the same read: after a start, peak
    /// load asks the ledger once. None if the read panicked.
    pub(crate) async fn load(
        self: &Arc<Self>,
        id: CampaignId,
        read: impl Future<Output = Loaded> + Send + 'static,
    ) -> Option<Loaded> {
        let (waiter, loaded) = oneshot::channel();
        let is_first = {
            let mut loading = self.loading.lock();
            let waiters = loading.entry(id).or_default();
            waiters.push(waiter);
            waiters.len() == 1
        };
        if is_first {
            // Not dropped with the request that came first.
            let cache = Arc::clone(self);
            tokio::spawn(async move {
                let mut reading = Reading {
                    cache: &cache,
                    id,
                    has_ended: false,
                };
                let loaded = read.await;
                if let Ok(Some(meta)) = &loaded {
                    cache.insert(id, Arc::clone(meta));
                }
                for waiter in reading.end() {
                    drop(waiter.send(loaded.clone()));
                }
            });
        }
        loaded.await.ok()
    }
}

/// Ends a read, also one that panics: the next one who asks reads anew.
struct Reading<'a> {
    cache: &'a CampaignCache,
    id: CampaignId,
    has_ended: bool,
}

impl Reading<'_> {
    /// Who has waited for it.
    fn end(&mut self) -> Vec<oneshot::Sender<Loaded>> {
        self.has_ended = true;
        let mut loading = self.cache.loading.lock();
        loading.remove(&self.id).unwrap_or_default()
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            drop(self.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use qiang_core::time::Timestamp;

    use super::*;

    fn id() -> CampaignId {
        "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap()
    }

    #[tokio::test]
    async fn many_who_ask_at_once_read_once() {
        let (cache, reads) = (
            Arc::<CampaignCache>::default(),
            Arc::<AtomicUsize>::default(),
        );
        let ask = || {
            let (cache, reads) = (Arc::clone(&cache), Arc::clone(&reads));
            let read = async move {
                reads.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok(None)
            };
            async move { cache.load(id(), read).await }
        };
        let (first, second) = tokio::join!(ask(), ask());
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        assert!(matches!((first, second), (Some(Ok(None)), Some(Ok(None)))));
        assert!(matches!(ask().await, Some(Ok(None))));
        assert_eq!(reads.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_read_that_panics_keeps_nobody_waiting() {
        let cache = Arc::<CampaignCache>::default();
        for _ in 0..2 {
            assert!(
                cache
                    .load(id(), async { panic!("planned") })
                    .await
                    .is_none()
            );
        }
    }

    fn meta() -> CampaignMeta {
        CampaignMeta {
            kind: CampaignKind::RedPacket,
            currency: "CNY".parse().unwrap(),
            ack: AckLevel::Fsync,
            window: Window::new(Timestamp::from_millis(0), Timestamp::from_millis(1)).unwrap(),
            window_read_at: None,
            requirements: Requirements::default(),
            owner: UserId::new("sam").unwrap(),
            audience: None,
            waiting_room: false,
            payment_policy: PaymentPolicy::default(),
            luckiest: OnceCell::new(),
            is_outdated: AtomicBool::new(false),
        }
    }

    /// Whoever asks for a campaign all the time asks the ledger once, however many others are asked for.
    #[test]
    fn a_campaign_that_is_asked_for_is_never_forgotten() {
        let (cache, meta) = (CampaignCache::default(), Arc::new(meta()));
        cache.insert(id(), Arc::clone(&meta));
        let other = |n: u128| {
            let version_7 = 0x0193_2c07_8e5a_7a3c_9f1e_0000_0000_0000;
            CampaignId::new(uuid::Uuid::from_u128(version_7 + n)).unwrap()
        };
        for n in 0..200_000 {
            cache.insert(other(n), Arc::clone(&meta));
            assert!(cache.get(id()).is_some(), "after {n}");
        }
        assert!(cache.known.read().len() <= REMEMBERED_MAX);
        cache.outdate(id());
        assert!(cache.get(id()).is_none() && cache.last_read(id()).is_some());
    }

    #[tokio::test]
    async fn the_luckiest_is_read_until_it_is_known() {
        let meta = meta();
        let share = Some(GrantRecord {
            number: 1,
            user: UserId::new("ann").unwrap(),
            quantity: 1,
            amount_minor: 100,
            granted_at: Timestamp::from_millis(0),
            state: qiang_core::order::OrderState::Held,
            returned: 0,
        });
        let failed = LedgerError::Unavailable {
            reason: "planned".to_owned(),
        };
        let found = meta.luckiest(async { Err(failed.clone()) }).await;
        assert_eq!(found, Err(failed));
        let found = meta.luckiest(async { Ok(share.clone()) }).await;
        assert_eq!(found, Ok(share.clone()));
        let unread = async { panic!("it is known") };
        assert_eq!(meta.luckiest(unread).await, Ok(share));
    }
}
