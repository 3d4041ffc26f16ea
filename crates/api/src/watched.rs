//! The campaigns that somebody watches, and how they were when they were looked at last.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicUsize},
};

use parking_lot::Mutex;
use qiang_core::id::CampaignId;
use tokio::sync::watch;

/// A campaign as it was at the last look. What is sent is written once for all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) state: String,
    /// Of the numbers, without the time.
    pub(crate) etag: String,
    /// The number of the newest draw, and of the newest one in the view before.
    pub(crate) newest: u32,
    pub(crate) before: u32,
    /// The draws since the view before, and the newest ones whatever somebody had before.
    pub(crate) fresh: String,
    pub(crate) latest: String,
}

/// The campaigns that somebody watches.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<HashMap<CampaignId, Watch>>);

/// The views of one campaign.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) views: watch::Receiver<Arc<View>>,
    /// How many watch its draws too.
    pub(crate) draws_wanted: Arc<AtomicUsize>,
}

impl Watched {
    /// The views of a campaign from here on. Where nobody watches it yet, `start` has somebody look at it.
    pub(crate) fn watch(
        &self,
        id: CampaignId,
        start: impl FnOnce(watch::Sender<Arc<View>>, Arc<AtomicUsize>),
    ) -> Watch {
        let mut watched = self.0.lock();
        if let Some(watch) = watched.get(&id) {
            return watch.clone();
        }
        let (sender, views) = watch::channel(Arc::default());
        let draws_wanted = Arc::default();
        start(sender, Arc::clone(&draws_wanted));
        let watch = Watch {
            views,
            draws_wanted,
        };
        watched.insert(id, watch.clone());
        watch
    }

    /// Forgets a campaign that nobody watches any more. Returns whether nobody does.
    pub(crate) fn forget_unwatched(
        &self,
        id: CampaignId,
        views: &watch::Sender<Arc<View>>,
    ) -> bool {
        let mut watched = self.0.lock();
        // One receiver is kept here.
        let is_unwatched = views.receiver_count() <= 1;
        if is_unwatched {
            watched.remove(&id);
        }
        is_unwatched
    }

    /// Forgets a campaign, whoever watches it.
    pub(crate) fn forget(&self, id: CampaignId) {
        self.0.lock().remove(&id);
    }
}
