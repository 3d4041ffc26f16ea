//! Events that wait for a retry to one endpoint: one queue per subject, of which only the first event is sent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use qiang_core::{
    time::Timestamp,
    webhook::{EventSubject, Filter, RetryState, WaitingEvent, WebhookEvent},
};

/// Waiting events of an endpoint, and changes of them that are not recorded yet.
#[derive(Debug, Default)]
pub(super) struct WaitingEvents {
    events: BTreeMap<i64, WaitingEvent>,
    queues: HashMap<EventSubject, BTreeSet<i64>>,
    /// Subjects of which a request is in flight.
    in_flight: HashSet<EventSubject>,
    changed: BTreeSet<i64>,
    finished: BTreeSet<i64>,
}

impl WaitingEvents {
    /// Waiting events as they are stored. Only the first event of a queue has a time.
    pub(super) fn from_stored(stored: Vec<WaitingEvent>, now: Timestamp) -> Self {
        let mut waiting = Self::default();
        for one in stored {
            waiting.insert(one);
        }
        let heads: Vec<i64> = waiting.heads().map(|one| one.retry.place).collect();
        let heads: HashSet<i64> = heads.into_iter().collect();
        for (place, one) in &mut waiting.events {
            let is_head = heads.contains(place);
            if is_head != one.retry.retry_at.is_some() {
                one.retry.retry_at = is_head.then_some(now);
                waiting.changed.insert(*place);
            }
        }
        waiting
    }

    pub(super) fn len(&self) -> u64 {
        self.events.len() as u64
    }

    pub(super) fn contains(&self, place: i64) -> bool {
        self.events.contains_key(&place)
    }

    /// Whether an event of this subject waits.
    pub(super) fn holds(&self, subject: &EventSubject) -> bool {
        self.queues.contains_key(subject)
    }

    /// State of the retries of an event; a fresh one if the event does not wait.
    pub(super) fn retry(&self, place: i64) -> RetryState {
        let waiting = self.events.get(&place).map(|one| one.retry);
        waiting.unwrap_or(RetryState {
            place,
            ..RetryState::default()
        })
    }

    /// Adds an event, or changes the state of its retries.
    pub(super) fn set(&mut self, event: WebhookEvent, retry: RetryState) {
        self.changed.insert(retry.place);
        self.insert(WaitingEvent { event, retry });
    }

    /// Adds an event that follows a waiting event of its subject.
    pub(super) fn follow(&mut self, event: WebhookEvent) {
        let retry = self.retry(event.place);
        self.set(event, retry);
    }

    /// Removes an event. The next one of its subject is due.
    pub(super) fn finish(&mut self, place: i64, now: Timestamp) {
        self.finished.insert(place);
        self.changed.remove(&place);
        let Some(subject) = self.events.remove(&place).and_then(|it| it.event.subject()) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(&subject) else {
            return;
        };
        queue.remove(&place);
        match queue.first().copied() {
            None => drop(self.queues.remove(&subject)),
            Some(next) => self.due_at(next, now),
        }
    }

    /// Makes all queues due.
    pub(super) fn release(&mut self, now: Timestamp) {
        let heads: Vec<i64> = self.heads().map(|one| one.retry.place).collect();
        for place in heads {
            self.due_at(place, now);
        }
    }

    /// Makes no queue due before a time.
    pub(super) fn hold_until(&mut self, end: Timestamp) {
        let is_early = |one: &&WaitingEvent| one.retry.retry_at.is_none_or(|at| at < end);
        let early: Vec<i64> = (self.heads().filter(is_early))
            .map(|one| one.retry.place)
            .collect();
        for place in early {
            self.due_at(place, end);
        }
    }

    /// Takes queues that are due, until requests of `max` subjects are in flight.
    pub(super) fn take_due(&mut self, now: Timestamp, max: usize) -> Vec<Vec<WebhookEvent>> {
        let room = max.saturating_sub(self.in_flight.len());
        let mut due: Vec<_> = (self.heads()).filter(|one| self.is_due(one, now)).collect();
        // The fewest attempts first, so that one event that always fails is not the only one that is tried.
        due.sort_by_key(|one| (one.retry.attempts, one.retry.retry_at, one.retry.place));
        let subjects: Vec<_> = (due.into_iter().take(room))
            .filter_map(|one| one.event.subject())
            .collect();
        let mut queues = Vec::with_capacity(subjects.len());
        for subject in subjects {
            let places = self.queues.get(&subject).into_iter().flatten();
            let events = places.filter_map(|place| self.events.get(place));
            queues.push(events.map(|one| one.event.clone()).collect());
            self.in_flight.insert(subject);
        }
        queues
    }

    /// Whether a queue is due of which no request is in flight.
    pub(super) fn has_due(&self, now: Timestamp) -> bool {
        self.heads().any(|one| self.is_due(one, now))
    }

    fn is_due(&self, one: &WaitingEvent, now: Timestamp) -> bool {
        let subject = one.event.subject();
        subject.is_none_or(|subject| !self.in_flight.contains(&subject))
            && one.retry.retry_at.is_none_or(|at| at <= now)
    }

    /// Places of events that a filter refuses.
    pub(super) fn unwanted(&self, filter: &Filter) -> Vec<i64> {
        let events = self.events.values().filter(|one| !filter.fits(&one.event));
        events.map(|one| one.retry.place).collect()
    }

    /// Ends the requests of a subject.
    pub(super) fn put_back(&mut self, subject: &EventSubject) {
        self.in_flight.remove(subject);
    }

    /// Whether there are changes to record.
    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty() || !self.finished.is_empty()
    }

    /// Takes the changes since the last call: changed states, and places of removed events.
    pub(super) fn take_changes(&mut self) -> (Vec<RetryState>, Vec<i64>) {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let changed = changed.filter_map(|place| Some(self.events.get(&place)?.retry));
        let changed = changed.collect();
        let finished = std::mem::take(&mut self.finished);
        (changed, finished.into_iter().collect())
    }

    fn insert(&mut self, waiting: WaitingEvent) {
        let place = waiting.retry.place;
        self.finished.remove(&place);
        if let Some(subject) = waiting.event.subject() {
            self.queues.entry(subject).or_default().insert(place);
        }
        self.events.insert(place, waiting);
    }

    fn heads(&self) -> impl Iterator<Item = &WaitingEvent> {
        let places = self.queues.values().filter_map(BTreeSet::first);
        places.filter_map(|place| self.events.get(place))
    }

    fn due_at(&mut self, place: i64, at: Timestamp) {
        if let Some(one) = self.events.get_mut(&place) {
            one.retry.retry_at = Some(at);
            self.changed.insert(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use qiang_core::{
        campaign::CampaignKind,
        id::{CampaignId, UserId},
        webhook::{EventData, EventType},
    };
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn waiting(place: i64, number: i64, retry_at: Option<i64>) -> WaitingEvent {
        let campaign = uuid::Builder::from_unix_timestamp_millis(1, &[0; 10]).into_uuid();
        let event = WebhookEvent {
            place,
            kind: EventType::OrderHeld,
            data: Some(EventData {
                campaign: CampaignId::new(campaign).unwrap(),
                campaign_kind: CampaignKind::Sale,
                owner: "shop".to_owned(),
                currency: "CNY".parse().unwrap(),
                number: Some(number),
                user: None,
                quantity: 1,
                amount_minor: 1,
                payment: None,
                reference: None,
            }),
            ..WebhookEvent::test(Uuid::nil(), NOW)
        };
        let retry = RetryState {
            place,
            retry_at: retry_at.map(Timestamp::from_millis),
            ..RetryState::default()
        };
        WaitingEvent { event, retry }
    }

    fn places(queues: Vec<Vec<WebhookEvent>>) -> Vec<Vec<i64>> {
        let places = |queue: Vec<WebhookEvent>| queue.iter().map(|event| event.place).collect();
        queues.into_iter().map(places).collect()
    }

    #[test]
    fn only_the_first_event_of_an_order_decides_when_it_is_due() {
        let stored = vec![
            waiting(1, 1, Some(2_000)),
            waiting(2, 2, Some(900)),
            waiting(3, 1, Some(0)),
            waiting(4, 2, None),
            waiting(5, 3, None),
        ];
        let mut all = WaitingEvents::from_stored(stored, NOW);
        assert!(all.has_due(NOW));
        assert_eq!(places(all.take_due(NOW, 9)), [vec![2, 4], vec![5]]);
        assert!(!all.has_due(NOW), "requests are in flight");
        // The event after a redelivered one lost its time, and the one without an earlier event got one.
        let (changed, finished) = all.take_changes();
        let times: Vec<_> = changed.iter().map(|it| (it.place, it.retry_at)).collect();
        assert_eq!((times, finished), (vec![(3, None), (5, Some(NOW))], vec![]));
        // The next event of the order is due once the first one is delivered.
        let subject = all.events[&2].event.subject().unwrap();
        all.finish(2, NOW);
        all.put_back(&subject);
        assert_eq!(places(all.take_due(NOW, 9)), [vec![4]]);
        let (changed, finished) = all.take_changes();
        assert_eq!((changed[0].place, finished), (4, vec![2]));
        let later = NOW.plus_millis(1_000);
        assert_eq!(places(all.take_due(later, 3)), [vec![1, 3]]);
    }

    #[test]
    fn events_of_a_campaign_that_has_another_owner_are_unwanted() {
        let mut other = waiting(2, 2, None);
        if let Some(data) = &mut other.event.data {
            data.owner = "other".to_owned();
        }
        let all = WaitingEvents::from_stored(vec![waiting(1, 1, None), other], NOW);
        let filter = Filter {
            owner: Some(UserId::new("shop").unwrap()),
            ..Filter::default()
        };
        assert_eq!(all.unwanted(&filter), [2]);
        assert_eq!(all.unwanted(&Filter::default()), Vec::<i64>::new());
    }
}
