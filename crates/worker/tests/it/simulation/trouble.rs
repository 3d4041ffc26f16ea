//! The engine's process, and its faults.

use std::time::Duration;

use qiang_core::time::JUMP_MS_MAX;
use qiang_testkit::simulation::{Draw, Loss};
use tokio::time::sleep;

use crate::simulation::world::World;

/// Maximum checks before a death whether anything could be lost. Written data is synced a few milliseconds later.
const LOOKS_MAX: u64 = 1_000;

impl World {
    /// Commits and ticks, as a writer does.
    pub(crate) async fn writer(self, mut draw: Draw) {
        for turn in 0_u64.. {
            Self::millis(&mut draw, 100).await;
            if turn % 4 == 0 && self.engine.is_up() {
                self.engine.tick();
            }
            self.engine.write();
            Self::millis(&mut draw, 8).await;
            self.engine.commit();
        }
    }

    /// Reads campaigns that are not in memory. Sometimes a read takes long, and other events precede its end.
    pub(crate) async fn reader(self, mut draw: Draw) {
        loop {
            Self::millis(&mut draw, 50).await;
            self.engine.read_absent();
            let takes_ms = if draw.once_in(16) { 10_000 } else { 30 };
            Self::millis(&mut draw, takes_ms).await;
            self.engine.take_in_absent();
        }
    }

    /// Waits, for a limited time, until a fault would lose something.
    async fn until_at_stake(&self, is_written: bool) {
        let every_ms = if is_written { 2 } else { 10 };
        for _ in 0..LOOKS_MAX {
            if self.engine.is_at_stake(is_written) {
                break;
            }
            sleep(Duration::from_millis(every_ms)).await;
        }
    }

    fn die(&self, loss: Loss) {
        self.engine.die(loss);
        self.count(|numbers| match loss {
            Loss::Process => numbers.deaths += 1,
            Loss::Power => numbers.power_losses += 1,
        });
    }

    /// Causes deaths, power losses and jumps until the trouble ends.
    pub(crate) async fn nemesis(self, mut draw: Draw) {
        while self.is_troubled() {
            Self::millis(&mut draw, 30_000).await;
            let kind = draw.below(4);
            if kind == 3 {
                let ahead = draw.once_in(2);
                let off_ms = 2 * JUMP_MS_MAX + draw.below(36_000_000) as i64;
                self.clock.set_off(if ahead { off_ms } else { -off_ms });
                Self::millis(&mut draw, 30_000).await;
                self.clock.set_off(0);
                self.count(|numbers| numbers.jumps += 1);
                continue;
            }
            self.until_at_stake(kind == 1).await;
            self.die(match kind {
                2 => Loss::Power,
                _ => Loss::Process,
            });
            // Most outages are short. During a long one, all holds would end if they did not pause.
            let down_ms = if draw.once_in(4) { 60_000 } else { 2_000 };
            Self::millis(&mut draw, down_ms).await;
            self.engine.start();
            if draw.once_in(2) {
                // The second outage loses the rest of the first one.
                Self::millis(&mut draw, 5_000).await;
                self.die(Loss::Power);
                Self::millis(&mut draw, 2_000).await;
                self.engine.start();
            }
        }
        self.clock.set_off(0);
    }
}
