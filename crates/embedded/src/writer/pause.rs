//! Pauses of the process: a stopped container or thread, or a disk that did not answer. Holds pause, too.

use std::time::{Duration, Instant};

use qiang_core::{book::Downtime, time::Timestamp};

use super::Writer;
use crate::{downtimes, error::DataFileError};

/// A gap of the steady clock above this is a downtime. The idle writer works once a second.
const PAUSE_MIN: Duration = Duration::from_secs(5);

impl Writer {
    /// Records a pause of this thread as a downtime. The caller reads the time of its decision before: then no pause
    /// lies between that time and this check.
    pub(super) fn notice_pause(&mut self) {
        let now = (Instant::now(), self.clock.now());
        let before = std::mem::replace(&mut self.alive, now);
        let gap = now.0.saturating_duration_since(before.0);
        // While granting is stopped, the repair records the downtime. Holds do not pause in a process that handles
        // due times while no node runs.
        if gap < PAUSE_MIN || self.repair_at.is_some() || !self.holds_pause() {
            return;
        }
        let gap_ms = i64::try_from(gap.as_millis()).unwrap_or(i64::MAX);
        let downtime = Downtime {
            began: before.1.max(now.1.plus_millis(-gap_ms)),
            ended: now.1,
        };
        if downtime.began >= downtime.ended {
            return;
        }
        match self.record_pause(downtime) {
            Ok(()) => {
                self.shared.book.write().was_down(downtime);
                tracing::warn!(gap_ms, "the process was paused; holds continue from here");
            }
            Err(error) => self.stop(&error),
        }
    }

    fn holds_pause(&self) -> bool {
        self.shared.book.read().grace().since > Timestamp::default()
    }

    pub(super) fn record_pause(&self, downtime: Downtime) -> Result<(), DataFileError> {
        let _commit = self.shared.under_way.begin();
        let tx = self.conn.begin()?;
        downtimes::put(&tx, downtime.began, downtime.ended)?;
        self.watch.commit(&self.conn, tx)
    }
}

#[cfg(test)]
mod tests {
    use qiang_core::{
        book::{Command, Grace, Setup},
        order::OrderState,
        ports::PendingReply,
    };
    use qiang_testkit::campaign::{HOLD_MS, OPENS, Target, sale};
    use tempfile::TempDir;

    use super::*;
    use crate::{
        task::WriterTask,
        writer::manual_engine::{ManualEngine, creation, outcome},
    };

    const PAUSE_MS: i64 = 30_000;

    fn serving(folder: TempDir) -> ManualEngine {
        let since = OPENS;
        let engine = ManualEngine::open_with_grace(folder, Grace { ms: 0, since });
        engine.writer.shared.recalls.close(); // the writer reloads
        engine
    }

    impl ManualEngine {
        /// Stops the process for a while, as `docker pause` does.
        fn pause(&mut self, millis: i64) {
            self.clock.advance(millis);
            let gap = Duration::from_millis(millis.unsigned_abs());
            self.writer.alive.0 -= gap;
        }

        fn state(&self, setup: &Setup) -> OrderState {
            let book = self.writer.shared.book.read();
            let order = book.order(Target::of(setup).order(1)).unwrap();
            order.grant.order.unwrap().state
        }
    }

    fn open_sale(engine: &mut ManualEngine) -> Setup {
        let setup = sale(10).setup(1);
        let entered = engine.enter(creation(setup.clone(), None));
        engine.entered(entered).unwrap();
        let mut claim = engine.claim(&setup, "ann");
        engine.turn();
        assert_eq!(outcome(&mut claim).name(), "granted");
        setup
    }

    #[test]
    fn a_pause_of_the_process_ends_no_hold() {
        let mut engine = serving(TempDir::new().unwrap());
        let setup = open_sale(&mut engine);
        // The hold would have ended during the pause. A tick waits in the queue as the process continues.
        engine.clock.advance(HOLD_MS - 1_000);
        engine.turn();
        let (answer, _ticket) = PendingReply::new();
        engine.push(WriterTask::Command(
            Command::Tick { events_max: 100 },
            answer,
        ));
        engine.pause(PAUSE_MS);
        engine.turn();
        assert_eq!(engine.state(&setup), OrderState::Held);
        engine.clock.advance(999);
        engine.turn();
        assert_eq!(engine.state(&setup), OrderState::Held);
        engine.clock.advance(1);
        engine.turn();
        assert_eq!(engine.state(&setup), OrderState::Expired);
        assert_eq!(
            engine.count("SELECT max(ended - began) FROM downtimes"),
            30_000
        );
    }

    #[test]
    fn a_pause_counts_after_a_restart() {
        let mut engine = serving(TempDir::new().unwrap());
        let setup = open_sale(&mut engine);
        engine.pause(PAUSE_MS);
        engine.turn();
        let ManualEngine { folder, writer, .. } = engine;
        drop(writer);
        let mut engine = serving(folder);
        engine.clock.set(OPENS.plus_millis(PAUSE_MS + HOLD_MS - 1));
        let mut again = engine.claim(&setup, "ann");
        engine.turn();
        assert_eq!(outcome(&mut again).name(), "already_granted");
        assert_eq!(engine.state(&setup), OrderState::Held);
        engine.clock.advance(1);
        engine.turn();
        assert_eq!(engine.state(&setup), OrderState::Expired);
    }

    /// The file keeps as many downtimes as the book, and merges the oldest ones in the same way.
    #[test]
    fn holds_end_at_the_same_time_after_a_restart_with_many_pauses() {
        let mut engine = serving(TempDir::new().unwrap());
        let setup = open_sale(&mut engine);
        for _ in 0..70 {
            engine.clock.advance(100);
            // The turn waits for no task.
            let (answer, _ticket) = PendingReply::new();
            engine.push(WriterTask::Command(
                Command::Tick { events_max: 100 },
                answer,
            ));
            engine.pause(PAUSE_MS);
            engine.turn();
        }
        assert_eq!(engine.state(&setup), OrderState::Held);
        let end = |engine: &ManualEngine| {
            let book = engine.writer.shared.book.read();
            book.expires_at(OPENS, HOLD_MS)
        };
        let (before, now) = (end(&engine), engine.writer.clock.now());
        assert!(before >= OPENS.plus_millis(HOLD_MS + 70 * PAUSE_MS));
        let ManualEngine { folder, writer, .. } = engine;
        drop(writer);
        let mut engine = serving(folder);
        engine.clock.set(now);
        assert_eq!(end(&engine), before);
        let mut again = engine.claim(&setup, "ann");
        engine.turn();
        assert_eq!(outcome(&mut again).name(), "already_granted");
        assert_eq!(engine.state(&setup), OrderState::Held);
    }

    /// A step of the engine's clock alone is no pause, and neither is a short one.
    #[test]
    fn other_gaps_are_no_downtimes() {
        let mut engine = serving(TempDir::new().unwrap());
        let setup = open_sale(&mut engine);
        // A turn of the idle writer takes up to a second on top.
        engine.pause(3_000);
        engine.turn();
        engine.clock.advance(HOLD_MS - 3_000);
        engine.turn();
        assert_eq!(engine.state(&setup), OrderState::Expired);
        assert_eq!(engine.count("SELECT count(*) FROM downtimes"), 0);
    }

    /// A process that handles due times while no node runs records no downtime.
    #[test]
    fn holds_do_not_pause_without_service() {
        let mut engine = ManualEngine::new();
        let setup = open_sale(&mut engine);
        engine.pause(HOLD_MS);
        engine.turn();
        assert_eq!(engine.state(&setup), OrderState::Expired);
    }
}
