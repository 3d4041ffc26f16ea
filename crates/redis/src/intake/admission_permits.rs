//! Admission permits of users in flight to a decision of one sale. See `admission.rs`.

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

/// State of a claim at its sale's admission.
#[derive(Default)]
pub(crate) enum Admission {
    /// It was not checked yet, or waits.
    #[default]
    Asked,
    /// It needs no permit: a retry of a user who holds a grant, or an entry of a queue.
    Free,
    /// It has a permit, which is free again when the claim is dropped.
    Admitted(#[expect(dead_code, reason = "kept for its drop")] UserPermit),
}

/// Signal that claims wait, and that something has changed for them; of all sales.
pub(crate) struct AdmissionSignal {
    /// Waiting claims, in total and per partition.
    waiting: AtomicUsize,
    waiting_for: Vec<AtomicUsize>,
    changed: Notify,
}

impl AdmissionSignal {
    /// Signal for `partitions` partitions.
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            waiting_for: (0..partitions).map(|_| AtomicUsize::new(0)).collect(),
            changed: Notify::new(),
        }
    }

    /// Number of waiting claims.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Number of waiting claims of one partition.
    pub(crate) fn waiting_for(&self, partition: PartitionId) -> usize {
        self.waiting_for[usize::from(partition.0)].load(Ordering::Acquire)
    }

    /// Adds to the number of waiting claims.
    pub(crate) fn add(&self, partition: PartitionId, claims: usize) {
        self.waiting.fetch_add(claims, Ordering::AcqRel);
        self.waiting_for[usize::from(partition.0)].fetch_add(claims, Ordering::AcqRel);
    }

    /// Subtracts from the number of waiting claims.
    pub(crate) fn sub(&self, partition: PartitionId, claims: usize) {
        self.waiting.fetch_sub(claims, Ordering::AcqRel);
        self.waiting_for[usize::from(partition.0)].fetch_sub(claims, Ordering::AcqRel);
    }

    /// Signals a change.
    pub(crate) fn notify(&self) {
        if self.waiting() > 0 {
            self.changed.notify_one();
        }
    }

    /// Waits for a change.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Fingerprint by which a user is counted. Two users with the same one count as one.
pub(crate) fn fingerprint(user: &UserId) -> u64 {
    fnv1a(user.as_str().as_bytes())
}

/// Users in flight, by fingerprint, with the number of their claims: a second click needs no permit.
pub(crate) struct UserPermits {
    users: Mutex<HashMap<u64, u32>>,
    signal: Arc<AdmissionSignal>,
}

/// The permit of a user.
pub(crate) struct UserPermit {
    places: Arc<UserPermits>,
    user: u64,
}

impl Drop for UserPermit {
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

impl UserPermits {
    pub(crate) fn new(signal: Arc<AdmissionSignal>) -> Self {
        Self {
            users: Mutex::default(),
            signal,
        }
    }

    /// Number of users in flight.
    pub(crate) fn taken(&self) -> usize {
        self.users.lock().len()
    }

    /// Takes a permit, if fewer than `most` users are in flight, or this one is.
    pub(crate) fn take(self: &Arc<Self>, user: &UserId, most: usize) -> Option<UserPermit> {
        let user = fingerprint(user);
        let mut users = self.users.lock();
        if !users.contains_key(&user) && users.len() >= most {
            return None;
        }
        *users.entry(user).or_default() += 1;
        Some(UserPermit {
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
        let places = Arc::new(UserPermits::new(Arc::new(AdmissionSignal::new(1))));
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
