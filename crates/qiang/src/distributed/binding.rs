//! Binding between Redis and the ledger: a ledger accepts entries of one engine, and a node serves no other engine.
//!
//! The ledger records the name of its engine, and every partition in Redis carries that name. A node states the name in
//! each presence call. A partition of another engine refuses the node before it grants anything.
//!
//! If Redis comes up empty at the engine's location, a node takes it over under a new name. It first waits until no
//! process has seen the engine for [`SILENCE`]. Compare-and-swap in the ledger lets only one process do it. Any other
//! Redis is refused until `qiang partition adopt` moves the ledger there.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use qiang_core::ports::{EngineBinding, Ledger, LedgerError};
use qiang_redis::{Identity, RedisOptions, Topology, new_epoch};
use qiang_worker::host::{NextRun, ReconcileError, Reconciler, Schedule};

use super::old_log::{self, OldLog};

/// Interval at which a node reads the binding and records a sign of life of its engine.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// Maximum age of a sighting of the engine that counts as a sign of life. Presence calls run twice a second.
const SEEN_MAX: Duration = Duration::from_millis(1_500);
/// Time without a sign of life of the engine after which another engine may replace it.
const SILENCE: Duration = Duration::from_secs(3);
/// Maximum pause between two checks that belong to one watch.
const WATCH_GAP_MAX: Duration = Duration::from_millis(1_500);
/// Maximum length in bytes of a location in the ledger.
const LOCATION_MAX: usize = 1_000;

/// Maintains the binding of one process.
pub(crate) struct Binder {
    ledger: Arc<dyn Ledger>,
    identity: Arc<Identity>,
    location: String,
    /// Whether partitions have separate servers.
    is_sharded: bool,
    /// Whether this process has seen the ledger's engine in its Redis.
    is_known: bool,
    stillness: QuietPeriod,
}

/// Time without a new sign of life of the engine, watched by this process without a pause.
#[derive(Default)]
struct QuietPeriod(Option<WatchedBinding>);

struct WatchedBinding {
    beats: u64,
    since: Instant,
    last: Instant,
}

impl QuietPeriod {
    /// Whether the engine has shown no sign of life for [`SILENCE`]. `beats` is the number of signs of life by now.
    /// After a pause the watch starts again: other processes may have been unable to record a sign of life during it.
    fn is_silence(&mut self, beats: u64, now: Instant) -> bool {
        let before = self.0.take();
        let before = before.filter(|it| it.beats == beats && now - it.last <= WATCH_GAP_MAX);
        let since = before.map_or(now, |it| it.since);
        self.0 = Some(WatchedBinding {
            beats,
            since,
            last: now,
        });
        now - since >= SILENCE
    }

    /// Restarts the watch.
    fn forget(&mut self) {
        self.0 = None;
    }
}

impl Binder {
    /// Reads the engine of the ledger. A ledger without an engine gets one at this location.
    pub(crate) async fn start(
        ledger: Arc<dyn Ledger>,
        options: &RedisOptions,
    ) -> anyhow::Result<Self> {
        let location = location_of(options);
        let (bound, is_ours) = match ledger.binding().await? {
            Some(bound) => (bound, false),
            None => {
                let first = EngineBinding {
                    installation: new_epoch() + &new_epoch(),
                    engine: new_epoch(),
                    location: location.clone(),
                    beats: 0,
                };
                let bound = ledger.bind("", &first).await?;
                let is_ours = bound.engine == first.engine;
                (bound, is_ours)
            }
        };
        let identity = Arc::new(Identity::new(&bound.installation, &bound.engine));
        if is_ours {
            identity.follow(&bound.engine, true);
            identity.create();
        }
        ledger.settle_for(&bound.engine);
        let binder = Self {
            ledger,
            identity,
            location,
            is_sharded: options.topology == Topology::Cluster,
            is_known: false,
            stillness: QuietPeriod::default(),
        };
        binder.advise(&bound);
        Ok(binder)
    }

    /// Identity that presence calls state.
    pub(crate) fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity)
    }

    /// Refuses a Redis that is not the ledger's. Call it after the partitions answered. An empty Redis at the engine's
    /// location is no error.
    pub(crate) async fn check(&mut self) -> anyhow::Result<()> {
        if let Some(installation) = self.identity.foreign() {
            bail!(qiang_redis::foreign(&installation));
        }
        self.look().await?;
        let Some(bound) = self.ledger.binding().await? else {
            bail!("the ledger has lost the name of its engine");
        };
        let is_here = self.is_here(&bound);
        ensure!(is_here || !self.identity.is_missing(), self.refusal(&bound));
        Ok(())
    }

    /// Runs until this process serves the ledger's engine, at most as long as a takeover needs.
    pub(crate) async fn settle_in(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + 2 * SILENCE;
        self.check().await?;
        while self.identity.is_missing() && Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look().await?;
        }
        ensure!(
            !self.identity.is_missing(),
            "not all partitions carry the ledger's engine, and other processes use it: stop them, or run this \
             with their configuration"
        );
        Ok(())
    }

    async fn look(&mut self) -> Result<(), LedgerError> {
        let looked = self.look_once().await;
        match looked {
            Ok(()) => self.identity.note_ledger(),
            // If the ledger does not answer, other processes cannot record signs of life either.
            Err(_) => self.stillness.forget(),
        }
        looked
    }

    async fn look_once(&mut self) -> Result<(), LedgerError> {
        let engine = self.identity.engine();
        if self.identity.is_seen(SEEN_MAX) {
            self.stillness.forget();
            // A ledger in a file needs only the first beat: no other process reads it.
            let is_shown = self.is_known && !self.ledger.is_shared();
            if is_shown || self.ledger.beat(&engine).await? {
                return self.look_after_own(&engine).await;
            }
        }
        let Some(bound) = self.ledger.binding().await? else {
            return Err(LedgerError::damaged(
                "the ledger has lost the name of its engine",
            ));
        };
        if bound.engine != *engine {
            self.follow(&bound, false);
            tracing::warn!(
                location = bound.location,
                "the ledger has passed to another engine; this node serves it if it is here"
            );
            return Ok(());
        }
        if !self.identity.is_missing() || self.identity.foreign().is_some() {
            return Ok(());
        }
        let is_here = self.is_here(&bound);
        if is_here && self.is_silent(&bound) {
            self.take_over(&bound).await?;
        }
        Ok(())
    }

    /// Handles an engine that is in this process' Redis: records its location, and marks partitions again that lost
    /// their data alone.
    async fn look_after_own(&mut self, engine: &str) -> Result<(), LedgerError> {
        if self.identity.is_missing() && self.identity.mark_again(self.is_sharded) {
            tracing::warn!("partitions of Redis have lost their data; others still have theirs");
        }
        if self.is_known {
            return Ok(());
        }
        let bound = self.ledger.binding().await?;
        if let Some(bound) = bound.filter(|bound| bound.engine == *engine) {
            if bound.location != self.location {
                self.bind(&bound, engine).await?;
            }
            self.is_known = true;
        }
        Ok(())
    }

    /// Whether the engine was at this process' location. An engine that no process ever saw counts as here.
    fn is_here(&self, bound: &EngineBinding) -> bool {
        self.is_known || bound.location == self.location || bound.beats == 0
    }

    fn is_silent(&mut self, bound: &EngineBinding) -> bool {
        if !self.ledger.is_shared() {
            return true;
        }
        self.stillness.is_silence(bound.beats, Instant::now())
    }

    async fn take_over(&mut self, bound: &EngineBinding) -> Result<(), LedgerError> {
        let engine = new_epoch();
        let after = self.bind(bound, &engine).await?;
        let is_ours = after.engine == engine;
        self.follow(&after, is_ours);
        if is_ours && bound.beats == 0 {
            self.identity.create(); // no process ever served it
        }
        if is_ours {
            tracing::warn!(
                location = self.location,
                "Redis has lost its data; it is the ledger's engine again, and is repaired from the ledger"
            );
        }
        Ok(())
    }

    async fn bind(
        &self,
        bound: &EngineBinding,
        engine: &str,
    ) -> Result<EngineBinding, LedgerError> {
        let to = EngineBinding {
            engine: engine.to_owned(),
            location: self.location.clone(),
            ..bound.clone()
        };
        self.ledger.bind(&bound.engine, &to).await
    }

    fn follow(&mut self, bound: &EngineBinding, is_ours: bool) {
        self.ledger.settle_for(&bound.engine);
        self.identity.follow(&bound.engine, is_ours);
        self.is_known = false;
        self.stillness.forget();
        self.advise(bound);
    }

    fn advise(&self, bound: &EngineBinding) {
        let advice = match bound.location == self.location {
            true => {
                "Redis came up without the ledger's engine: it is taken over once no process sees that engine"
            }
            false => &self.refusal(bound),
        };
        self.identity.advise(advice);
    }

    fn refusal(&self, bound: &EngineBinding) -> String {
        format!(
            "the ledger belongs to the Redis at {}, and this process is configured for {}: correct `redis.prefix` and \
             `redis.urls`, or move the ledger here with `qiang partition adopt`",
            bound.location, self.location
        )
    }
}

impl Reconciler for Binder {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let looked = self.look().await;
        looked
            .map(|()| NextRun::Wait)
            .map_err(|error| ReconcileError(error.to_string()))
    }
}

impl Binder {
    pub(crate) const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);
}

/// Moves the ledger to the Redis of these options. Returns the locations before and after; `None` if they are the same.
///
/// # Errors
/// If processes still see the engine that the ledger belongs to, if the ledger lacks entries of it, or if the ledger or
/// that engine does not answer.
pub(crate) async fn adopt(
    ledger: &dyn Ledger,
    options: &RedisOptions,
    old: &OldLog,
) -> anyhow::Result<Option<(String, String)>> {
    let location = location_of(options);
    let Some(before) = ledger.binding().await? else {
        bail!("the ledger belongs to no Redis yet: start a node");
    };
    if before.location == location {
        return Ok(None);
    }
    let in_use = format!(
        "processes still use the Redis at {}: stop all nodes and workers, and repeat the command",
        before.location
    );
    if ledger.is_shared() {
        tokio::time::sleep(SILENCE).await;
    }
    let now = ledger.binding().await?;
    ensure!(now.as_ref() == Some(&before), in_use.clone());
    old_log::check(ledger, &before, options, old).await?;
    let to = EngineBinding {
        engine: new_epoch(),
        location: location.clone(),
        ..before.clone()
    };
    let after = ledger.bind(&before.engine, &to).await?;
    ensure!(after.engine == to.engine, in_use);
    Ok(Some((before.location, location)))
}

/// Location of an engine, without credentials. All spellings of the same servers give the same text.
fn location_of(options: &RedisOptions) -> String {
    let place = |url: &String| {
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        rest.split_once('?')
            .map_or(rest, |(rest, _)| rest)
            .trim_end_matches('/')
            .to_lowercase()
    };
    let mut places: Vec<String> = options.urls.iter().map(place).collect();
    places.sort_unstable();
    places.dedup();
    let mut location = format!("{}@{}", options.prefix, places.join(","));
    if let Topology::Sentinel { master } = &options.topology {
        location = format!("{location}#{master}");
    }
    if options.database != 0 {
        location = format!("{location}/{}", options.database);
    }
    let end = (0..=LOCATION_MAX)
        .rev()
        .find(|end| location.is_char_boundary(*end));
    location.truncate(end.unwrap_or_default());
    location
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_is_silent_only_while_it_was_watched() {
        let start = Instant::now();
        let mut stillness = QuietPeriod::default();
        let mut at =
            |millis: u64, beats| stillness.is_silence(beats, start + Duration::from_millis(millis));
        for millis in (0..3_000).step_by(400) {
            assert!(!at(millis, 7), "{millis}");
        }
        assert!(at(3_000, 7));
        assert!(!at(3_400, 8), "a sign of life");
        // This process or the ledger did not answer for a while, so other processes could not record anything either.
        assert!(!at(3_800, 8) && !at(9_000, 8));
        for millis in (9_400..12_000).step_by(400) {
            assert!(!at(millis, 8), "{millis}");
        }
        assert!(at(12_000, 8));
        stillness.forget();
        assert!(!stillness.is_silence(8, start + Duration::from_millis(12_400)));
    }

    #[test]
    fn location_is_one_for_all_spellings() {
        let check = |urls: &[&str], expected: &str| {
            let options = RedisOptions {
                urls: urls.iter().map(|url| (*url).to_owned()).collect(),
                ..RedisOptions::default()
            };
            assert_eq!(location_of(&options), expected);
        };
        check(&["redis://ann:secret@Redis:6379/"], "qiang@redis:6379");
        check(&["rediss://b:1", "redis://a:1"], "qiang@a:1,b:1");
    }
}
