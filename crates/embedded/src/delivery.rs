//! Answers on their way back to a crowd.
//!
//! A commit answers a hundred claims and more. Were all of them woken at once, their connections would be polled one
//! after the other before anything else is, and whatever a connection keeps, here and in the kernel, would have left
//! the processor's caches each time its turn comes. So where the callers' runtime has couriers, these hand out a large
//! batch in small portions, and let the runtime look at what has arrived between two of them: whoever was just answered
//! asks again while all about them is still at hand.
//!
//! Couriers are a convenience and never relied on: when the last one goes, or the writer comes to its end, whatever
//! still waits is answered there and then.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use qiang_core::ports::{Answer, Claimed};
use tokio::{sync::Notify, task::yield_now};

/// Answers handed out at once. Measuring could not tell portions from 8 to 48 apart.
const PORTION: usize = 16;

/// A claim's answer, to be sent.
pub(crate) struct Decision {
    pub(crate) answer: Answer<Claimed>,
    pub(crate) claimed: Claimed,
}

impl Decision {
    pub(crate) fn send(self) {
        self.answer.send(Ok(self.claimed));
    }
}

/// Where committed decisions wait for couriers.
#[derive(Default)]
pub(crate) struct Delivery {
    outbox: Mutex<Outbox>,
    filled: Notify,
}

#[derive(Default)]
struct Outbox {
    decisions: VecDeque<Decision>,
    couriers: usize,
    closed: bool,
}

impl Delivery {
    /// Whether a batch of so many tasks is better left to couriers than sent at once.
    pub(crate) fn is_worth_it(&self, tasks: usize) -> bool {
        tasks > PORTION && self.outbox.lock().couriers > 0
    }

    /// Leaves decisions to the couriers; sends them itself if there are none.
    pub(crate) fn leave(&self, decisions: impl Iterator<Item = Decision>) {
        let mut outbox = self.outbox.lock();
        if outbox.couriers > 0 && !outbox.closed {
            outbox.decisions.extend(decisions);
            drop(outbox);
            self.filled.notify_waiters();
        } else {
            drop(outbox);
            decisions.for_each(Decision::send);
        }
    }

    /// Sends what waits, and sends the couriers home.
    pub(crate) fn close(&self) {
        let mut outbox = self.outbox.lock();
        outbox.closed = true;
        let left = std::mem::take(&mut outbox.decisions);
        drop(outbox);
        left.into_iter().for_each(Decision::send);
        self.filled.notify_waiters();
    }

    /// Hands out decisions until the delivery is closed.
    pub(crate) async fn courier(self: Arc<Self>) {
        let courier = Courier::hired(&self);
        let mut portion = Vec::with_capacity(PORTION);
        loop {
            // From here on nothing that is left goes unnoticed.
            let filled = self.filled.notified();
            while courier.take(&mut portion) {
                portion.drain(..).for_each(Decision::send);
                // Tokio looks for arrivals before it comes back to a task that yields.
                yield_now().await;
            }
            if self.outbox.lock().closed {
                break;
            }
            filled.await;
        }
    }
}

/// A courier at work, taken off the list whichever way its future ends.
struct Courier<'a>(&'a Delivery);

impl<'a> Courier<'a> {
    fn hired(delivery: &'a Delivery) -> Self {
        delivery.outbox.lock().couriers += 1;
        Self(delivery)
    }

    /// Takes the oldest decisions; tells whether there were any.
    fn take(&self, portion: &mut Vec<Decision>) -> bool {
        let decisions = &mut self.0.outbox.lock().decisions;
        let taken = decisions.len().min(PORTION);
        portion.extend(decisions.drain(..taken));
        taken > 0
    }
}

impl Drop for Courier<'_> {
    fn drop(&mut self) {
        let mut outbox = self.0.outbox.lock();
        outbox.couriers -= 1;
        if outbox.couriers == 0 {
            let left = std::mem::take(&mut outbox.decisions);
            drop(outbox);
            left.into_iter().for_each(Decision::send);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use qiang_core::{
        campaign::AckLevel,
        outcome::Outcome,
        ports::{EngineError, Ticket},
    };

    use super::*;

    type Tickets = Vec<Ticket<Claimed>>;

    /// Leaves so many decisions.
    fn leave(delivery: &Delivery, count: usize) -> Tickets {
        let (answers, tickets): (Vec<_>, _) = (0..count).map(|_| Ticket::new()).unzip();
        let claimed = Claimed {
            outcome: Outcome::Ended,
            ack: AckLevel::Fsync,
        };
        delivery.leave(
            answers
                .into_iter()
                .map(|answer| Decision { answer, claimed }),
        );
        tickets
    }

    fn take_turn(courier: &mut (impl Future<Output = ()> + Unpin)) -> Poll<()> {
        pin!(courier).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A courier that waits for decisions.
    fn at_work(delivery: &Arc<Delivery>) -> impl Future<Output = ()> + Unpin + use<> {
        let mut courier = Box::pin(Arc::clone(delivery).courier());
        assert!(take_turn(&mut courier).is_pending());
        courier
    }

    fn answered(tickets: &mut Tickets) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let mut answered = |ticket: &mut Ticket<Claimed>| match pin!(ticket).poll(&mut context) {
            Poll::Ready(answer) => {
                assert!(
                    !matches!(answer, Err(EngineError::Uncertain { .. })),
                    "lost"
                );
                true
            }
            Poll::Pending => false,
        };
        let before = tickets.len();
        tickets.retain_mut(|ticket| !answered(ticket));
        before - tickets.len()
    }

    #[test]
    fn without_couriers_everything_is_sent_at_once() {
        let delivery = Delivery::default();
        assert!(!delivery.is_worth_it(1_000));
        assert_eq!(answered(&mut leave(&delivery, 100)), 100);
    }

    #[test]
    fn a_courier_lets_others_have_their_turn_after_each_portion() {
        let delivery = Arc::new(Delivery::default());
        let mut courier = at_work(&delivery);
        assert!(delivery.is_worth_it(PORTION + 1) && !delivery.is_worth_it(PORTION));

        let mut tickets = leave(&delivery, 2 * PORTION + 1);
        let mut portions = vec![answered(&mut tickets)];
        for _ in 0..4 {
            assert!(take_turn(&mut courier).is_pending());
            portions.push(answered(&mut tickets));
        }
        assert_eq!(portions, [0, PORTION, PORTION, 1, 0]);
    }

    #[test]
    fn the_last_courier_to_go_leaves_nothing_behind() {
        let delivery = Arc::new(Delivery::default());
        let [first, last] = [at_work(&delivery), at_work(&delivery)];
        let mut tickets = leave(&delivery, 100);
        drop(first);
        assert_eq!(answered(&mut tickets), 0);
        drop(last);
        assert_eq!(answered(&mut tickets), 100);
        assert_eq!(answered(&mut leave(&delivery, 100)), 100);
    }

    #[test]
    fn a_closed_delivery_has_sent_all_and_needs_nobody() {
        let delivery = Arc::new(Delivery::default());
        let mut courier = at_work(&delivery);
        let mut tickets = leave(&delivery, 100);
        delivery.close();
        assert_eq!(answered(&mut tickets), 100);
        assert_eq!(answered(&mut leave(&delivery, 100)), 100);
        assert!(take_turn(&mut courier).is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_that_is_left_goes_unnoticed() {
        let delivery = Arc::new(Delivery::default());
        let courier = tokio::spawn(Arc::clone(&delivery).courier());
        while delivery.outbox.lock().couriers == 0 {
            yield_now().await;
        }
        // Each batch comes when the courier has just found that there is no more.
        for round in 0..20_000 {
            for ticket in leave(&delivery, 1 + round % 3) {
                let answer = tokio::time::timeout(Duration::from_secs(60), ticket).await;
                assert!(matches!(answer, Ok(Ok(_))), "round {round}: {answer:?}");
            }
        }
        delivery.close();
        assert!(courier.await.is_ok());
    }
}
