//! The places of those who are on their way to a decision of one sale. See `admission.rs`.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::connection::fnv1a;
use parking_lot::Mutex;
use qiang_core::{event::PartitionId, id::UserId};
use tokio::sync::Notify;

/// How a claim stands to its sale's admission.
#[derive(Default)]
pub(crate) enum Admission {
    /// It is not looked at yet, or waits.
    #[default]
    Asked,
    /// It needs no place: a retry of a user who holds a grant.
    Free,
    /// It has a place. Dropped with the claim, the place is free again.
    Admitted(#[expect(dead_code, reason = "its drop is what it is for")] Place),
}

/// That somebody waits, and that something has changed for those who do; of all sales.
pub(crate) struct Signal {
    /// Claims that wait, in all and of each partition.
    waiting: AtomicUsize,
    waiting_for: Vec<AtomicUsize>,
    changed: Notify,
}

impl Signal {
    /// Of so many partitions.
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            waiting_for: (0..partitions).map(|_| AtomicUsize::new(0)).collect(),
            changed: Notify::new(),
        }
    }

    /// Claims that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Those of one partition.
    pub(crate) fn waiting_for(&self, partition: PartitionId) -> usize {
        self.waiting_for[usize::from(partition.0)].load(Ordering::Acquire)
    }

    /// So many claims more wait.
    pub(crate) fn add(&self, partition: PartitionId, claims: usize) {
        self.waiting.fetch_add(claims, Ordering::AcqRel);
        self.waiting_for[usize::from(partition.0)].fetch_add(claims, Ordering::AcqRel);
    }

    /// So many wait no more.
    pub(crate) fn sub(&self, partition: PartitionId, claims: usize) {
        self.waiting.fetch_sub(claims, Ordering::AcqRel);
        self.waiting_for[usize::from(partition.0)].fetch_sub(claims, Ordering::AcqRel);
    }

    /// Says that something has changed.
    pub(crate) fn notify(&self) {
        if self.waiting() > 0 {
            self.changed.notify_one();
        }
    }

    /// Until something has changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// What a user is counted by. Two users with the same one count as one.
pub(crate) fn fingerprint(user: &UserId) -> u64 {
    fnv1a(user.as_str().as_bytes())
}

/// Users who are on their way, by fingerprint, with the number of their claims: a second click needs no place.
pub(crate) struct Places {
    users: Mutex<HashMap<u64, u32>>,
    signal: Arc<Signal>,
}

/// The place of a user.
pub(crate) struct Place {
    places: Arc<Places>,
    user: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.places.users.lock();
        if let Some(claims) = users.get_mut(&self.user) {
            *claims -= 1;
            if *claims == 0 {
                users.remove(&self.user);
            }
        }
        drop(users);
        self.places.signal.notify();
    }
}

impl Places {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self {
            users: Mutex::default(),
            signal,
        }
    }

    /// Users who are on their way.
    pub(crate) fn taken(&self) -> usize {
        self.users.lock().len()
    }

    /// A place, where fewer than `most` users are on their way, or this one is.
    pub(crate) fn take(self: &Arc<Self>, user: &UserId, most: usize) -> Option<Place> {
        let user = fingerprint(user);
        let mut users = self.users.lock();
        if !users.contains_key(&user) && users.len() >= most {
            return None;
        }
        *users.entry(user).or_default() += 1;
        Some(Place {
            places: Arc::clone(self),
            user,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_count_once_and_leave_with_their_last_claim() {
        let places = Arc::new(Places::new(Arc::new(Signal::new(1))));
        let user = |name: &str| UserId::new(name).expect("a good id");
        let first = places.take(&user("ann"), 1).expect("a free place");
        let again = places.take(&user("ann"), 1).expect("a second click");
        assert!(places.take(&user("bob"), 1).is_none());
        drop(first);
        assert!(places.take(&user("bob"), 1).is_none());
        drop(again);
        assert_eq!(places.taken(), 0);
        assert!(places.take(&user("bob"), 1).is_some());
    }
}
