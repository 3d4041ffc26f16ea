//! Cache of the fields of a campaign that hardly change, which spares reads of the ledger.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use qiang_core::{
    campaign::{AckLevel, CampaignKind, Phase, Requirements},
    id::{CampaignId, UserId},
    money::Currency,
    payment::PaymentPolicy,
    ports::{CampaignRecord, GrantRecord, LedgerError},
    time::{Timestamp, Window},
};
use quick_cache::{Weighter, sync::Cache};
use tokio::sync::OnceCell;

use crate::{audience::Audience, protect::single_flight::SingleFlight};

/// Maximum number of campaigns in the cache. Above it, campaigns that no request has used lately are dropped.
const REMEMBERED_MAX: usize = 65_536;
/// Weight of a campaign, in named users: campaigns with many named users leave room for fewer others.
const WEIGHT: u64 = 16;
/// Milliseconds for which a cached window of a sale is valid while the sale can still change.
const WINDOW_LASTS_MS: i64 = 1_000;

/// Fields of a campaign that answers need. Only the window of a sale changes, until the sale has ended.
#[derive(Debug)]
pub(crate) struct AnswerFields {
    pub(crate) kind: CampaignKind,
    pub(crate) currency: Currency,
    pub(crate) ack: AckLevel,
    /// Window as of the last read; see [`AnswerFields::has_window`].
    pub(crate) window: Window,
    /// Time of that read, if the window can have changed since.
    window_read_at: Option<Timestamp>,
    pub(crate) requirements: Requirements,
    pub(crate) owner: UserId,
    /// Audience, unless all users may take part and see the draws. It never changes, so the next read of the campaign
    /// keeps it.
    pub(crate) audience: Option<Arc<Audience>>,
    /// Whether claims wait in a queue.
    pub(crate) waiting_room: bool,
    /// Amounts other than the price that pay an order of a sale. It never changes.
    pub(crate) payment_policy: PaymentPolicy,
    /// The largest share of a packet that is over; set by the first read.
    luckiest: OnceCell<Option<GrantRecord>>,
    /// Whether the next request must read the campaign again.
    is_outdated: AtomicBool,
}

impl AnswerFields {
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

    /// The largest share of a packet that is over, so it is final. It is read once, because the ledger sorts all
    /// shares for it.
    pub(crate) async fn luckiest(
        &self,
        read: impl Future<Output = Result<Option<GrantRecord>, LedgerError>>,
    ) -> Result<Option<GrantRecord>, LedgerError> {
        let read = self.luckiest.get_or_try_init(|| read).await;
        read.cloned()
    }

    /// Whether the window is still valid: it cannot have changed since it was read, or that was a moment ago.
    pub(crate) fn has_window(&self, now: Timestamp) -> bool {
        self.window_read_at.is_none_or(|read_at| {
            let until = read_at.plus_millis(WINDOW_LASTS_MS);
            (read_at..until).contains(&now)
        })
    }
}

/// Result of a read of the ledger.
type Loaded = Result<Option<Arc<AnswerFields>>, LedgerError>;

/// Weighs a campaign by the users that it names, plus a constant.
#[derive(Clone)]
struct CampaignWeight;

impl Weighter<CampaignId, Arc<AnswerFields>> for CampaignWeight {
    fn weight(&self, _: &CampaignId, meta: &Arc<AnswerFields>) -> u64 {
        let named = meta.audience.as_deref().map_or(0, Audience::named);
        WEIGHT + named as u64
    }
}

#[derive(Debug)]
pub(crate) struct CampaignCache {
    known: Cache<CampaignId, Arc<AnswerFields>, CampaignWeight>,
    loading: SingleFlight<CampaignId, Option<Loaded>>,
}

impl Default for CampaignCache {
    fn default() -> Self {
        let weight_max = REMEMBERED_MAX as u64 * WEIGHT;
        Self {
            known: Cache::with_weighter(REMEMBERED_MAX, weight_max, CampaignWeight),
            loading: SingleFlight::default(),
        }
    }
}

impl CampaignCache {
    /// A cached campaign, unless it must be read again.
    pub(crate) fn get(&self, id: CampaignId) -> Option<Arc<AnswerFields>> {
        let read = self.last_read(id);
        read.filter(|meta| !meta.is_outdated.load(Ordering::Relaxed))
    }

    /// A cached campaign, even if it must be read again.
    pub(crate) fn last_read(&self, id: CampaignId) -> Option<Arc<AnswerFields>> {
        self.known.get(&id)
    }

    /// Makes the next request for a campaign read it again.
    pub(crate) fn outdate(&self, id: CampaignId) {
        if let Some(meta) = self.last_read(id) {
            meta.is_outdated.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn insert(&self, id: CampaignId, meta: Arc<AnswerFields>) {
        self.known.insert(id, meta);
    }

    /// Reads a campaign and caches it. Requests during the read wait for its result, so peak load after a start costs
    /// the ledger one read. `None` if the read panicked.
    pub(crate) async fn load(
        self: &Arc<Self>,
        id: CampaignId,
        read: impl Future<Output = Loaded> + Send + 'static,
    ) -> Option<Loaded> {
        let cache = Arc::clone(self);
        let read = async move {
            let loaded = read.await;
            if let Ok(Some(meta)) = &loaded {
                cache.insert(id, Arc::clone(meta));
            }
            loaded
        };
        // A task of its own, because the request that came first may be cancelled, and the read may panic.
        let read = async { tokio::spawn(read).await.ok() };
        self.loading.run(id, read).await
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

    fn meta() -> AnswerFields {
        AnswerFields {
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

    /// A campaign in constant use is read once, however many others are read.
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
        assert!(cache.known.len() <= REMEMBERED_MAX);
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
            cancelled: 0,
        });
        let failed = LedgerError::Unavailable {
            reason: "planned".to_owned(),
        };
        let found = meta.luckiest(async { Err(failed.clone()) }).await;
        assert_eq!(found, Err(failed));
        let found = meta.luckiest(async { Ok(share.clone()) }).await;
        assert_eq!(found, Ok(share.clone()));
        let unread = async { panic!("the largest share is cached") };
        assert_eq!(meta.luckiest(unread).await, Ok(share));
    }
}
