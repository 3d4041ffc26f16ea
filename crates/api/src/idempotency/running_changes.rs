//! Running changes of campaigns in this process, and the exclusive turn of a retry that decides.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use qiang_core::{id::CampaignId, time::Timestamp};
use tokio::sync::{
    Mutex as TurnMutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard,
    OwnedSemaphorePermit, RwLock, Semaphore,
};

/// Actions that may wait at once for a ledger that refused them.
const LATE_RECORDS_MAX: usize = 64;

/// Running changes of this process.
pub(crate) struct RunningChanges {
    lanes: Lanes,
    late_records: Arc<Semaphore>,
}

/// Lane of each campaign, and the number of its users.
type Lanes = Arc<Mutex<HashMap<CampaignId, (Arc<CampaignLane>, u32)>>>;

/// Changes of one campaign: any number at once, or one retry that checks for the effect of its first try.
#[derive(Default)]
struct CampaignLane {
    turn: Arc<RwLock<()>>,
    /// Changes of settings: any number at once, or one under a condition. A pause waits for none of them.
    settings: Arc<RwLock<()>>,
    /// Changes under a condition that wait for the campaign's turn among all nodes, or have it.
    conditional: Arc<TurnMutex<()>>,
    begun: Mutex<Vec<Timestamp>>,
}

impl Default for RunningChanges {
    fn default() -> Self {
        Self {
            lanes: Arc::default(),
            late_records: Arc::new(Semaphore::new(LATE_RECORDS_MAX)),
        }
    }
}

impl RunningChanges {
    /// Begins a change at time `now`. It waits for a retry that decides.
    pub(crate) async fn begin(&self, campaign: CampaignId, now: Timestamp) -> RunningChange {
        let entered = self.enter_lane(campaign);
        let turn = Arc::clone(&entered.lane.turn).read_owned().await;
        RunningChange::new(entered, turn, now)
    }

    /// The same without waiting; `None` while a retry decides.
    pub(crate) fn try_begin(&self, campaign: CampaignId, now: Timestamp) -> Option<RunningChange> {
        let entered = self.enter_lane(campaign);
        let turn = Arc::clone(&entered.lane.turn).try_read_owned().ok()?;
        Some(RunningChange::new(entered, turn, now))
    }

    /// Exclusive right to decide on a campaign in this process; `None` if a change is running.
    pub(crate) fn alone(&self, campaign: CampaignId) -> Option<Alone> {
        let entered = self.enter_lane(campaign);
        let turn = Arc::clone(&entered.lane.turn).try_write_owned().ok()?;
        Some(Alone {
            _turn: turn,
            _entered: entered,
        })
    }

    /// Permit for an action that is recorded later; `None` if there are too many.
    pub(crate) fn late_record(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.late_records).try_acquire_owned().ok()
    }

    fn enter_lane(&self, campaign: CampaignId) -> LaneEntry {
        let mut lanes = self.lanes.lock();
        let (lane, users) = lanes.entry(campaign).or_default();
        *users += 1;
        LaneEntry {
            lanes: Arc::clone(&self.lanes),
            campaign,
            lane: Arc::clone(lane),
        }
    }
}

struct LaneEntry {
    lanes: Lanes,
    campaign: CampaignId,
    lane: Arc<CampaignLane>,
}

impl Drop for LaneEntry {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        if let Some((_, users)) = lanes.get_mut(&self.campaign) {
            *users -= 1;
            if *users == 0 {
                lanes.remove(&self.campaign);
            }
        }
    }
}

/// Way in which a change shares the settings of its campaign with other changes of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingsUse {
    /// It changes no settings, or all of them in one step.
    Free,
    /// It may overlap other changes.
    Shared,
    /// It compares first, so no other change may overlap it.
    Alone,
}

/// Right of a change to the settings, until it is dropped.
enum SettingsGuard {
    Shared(#[expect(dead_code, reason = "it is held")] OwnedRwLockReadGuard<()>),
    Alone(#[expect(dead_code, reason = "it is held")] OwnedRwLockWriteGuard<()>),
}

/// A change that runs until this is dropped.
pub(crate) struct RunningChange {
    begun: Timestamp,
    settings: Option<SettingsGuard>,
    _turn: OwnedRwLockReadGuard<()>,
    entered: LaneEntry,
}

impl RunningChange {
    fn new(entered: LaneEntry, turn: OwnedRwLockReadGuard<()>, begun: Timestamp) -> Self {
        entered.lane.begun.lock().push(begun);
        Self {
            begun,
            settings: None,
            _turn: turn,
            entered,
        }
    }

    /// Waits until no other change under a condition of this process has the campaign's turn, or waits for it.
    pub(crate) async fn enter_turn_queue(&self) -> OwnedMutexGuard<()> {
        let conditional = Arc::clone(&self.entered.lane.conditional);
        conditional.lock_owned().await
    }

    /// Waits for the right to the settings.
    pub(crate) async fn use_settings(&mut self, how: SettingsUse) {
        let settings = Arc::clone(&self.entered.lane.settings);
        self.settings = match how {
            SettingsUse::Free => None,
            SettingsUse::Shared => Some(SettingsGuard::Shared(settings.read_owned().await)),
            SettingsUse::Alone => Some(SettingsGuard::Alone(settings.write_owned().await)),
        };
    }

    /// Begin of the oldest running change of the campaign.
    pub(crate) fn oldest(&self) -> Timestamp {
        let begun = self.entered.lane.begun.lock();
        begun.iter().copied().min().unwrap_or(self.begun)
    }
}

impl Drop for RunningChange {
    fn drop(&mut self) {
        let mut begun = self.entered.lane.begun.lock();
        if let Some(at) = begun.iter().position(|at| *at == self.begun) {
            begun.swap_remove(at);
        }
    }
}

/// Exclusive right to decide, until it is dropped.
pub(crate) struct Alone {
    _turn: OwnedRwLockWriteGuard<()>,
    _entered: LaneEntry,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_under_a_condition_has_the_settings_alone() {
        let campaign = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap();
        let changes = RunningChanges::default();
        let begin = async |how: SettingsUse| {
            let mut change = changes.begin(campaign, Timestamp::from_millis(10)).await;
            change.use_settings(how).await;
            change
        };
        let shared = [
            begin(SettingsUse::Shared).await,
            begin(SettingsUse::Shared).await,
        ];
        let waits = tokio::time::Duration::from_millis(20);
        let alone = tokio::time::timeout(waits, begin(SettingsUse::Alone)).await;
        assert!(alone.is_err());
        drop(shared);
        let alone = begin(SettingsUse::Alone).await;
        // A pause goes its way.
        let pause = begin(SettingsUse::Free).await;
        let other = tokio::time::timeout(waits, begin(SettingsUse::Shared)).await;
        assert!(other.is_err());
        drop((alone, pause));
        drop(begin(SettingsUse::Shared).await);
        assert!(changes.lanes.lock().is_empty());
    }

    #[tokio::test]
    async fn a_retry_decides_alone_and_a_key_is_as_old_as_the_oldest_change() {
        let [campaign, other]: [CampaignId; 2] = [
            "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap(),
            "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f81".parse().unwrap(),
        ];
        let changes = RunningChanges::default();
        let first = changes.begin(campaign, Timestamp::from_millis(10)).await;
        let second = changes.begin(campaign, Timestamp::from_millis(20)).await;
        assert_eq!(second.oldest(), Timestamp::from_millis(10));
        assert!(changes.alone(campaign).is_none());
        drop(first);
        assert_eq!(second.oldest(), Timestamp::from_millis(20));
        drop(second);
        let alone = changes.alone(campaign).unwrap();
        assert!(changes.try_begin(campaign, Timestamp::MAX).is_none());
        assert!(changes.try_begin(other, Timestamp::MAX).is_some());
        drop(alone);
        assert!(changes.lanes.lock().is_empty());
    }
}
