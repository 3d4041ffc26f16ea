//! Keeps Redis and ledger together: a ledger takes entries of one engine, and a node serves no other.
//!
//! The ledger names its engine, and every partition in Redis carries that name. A node states it in each presence call,
//! and a partition of another engine refuses the node before anything is granted.
//!
//! A Redis that came up empty at the engine's location is taken over under a new name, once no process has seen the
//! engine for [`SILENCE`]: by compare and swap in the ledger, so that one process does it. Any other Redis is refused
//! until `qiang partition adopt` moves the ledger there.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use qiang_core::ports::{EngineBinding, Ledger, LedgerError};
use qiang_redis::{Identity, Options, Topology, new_epoch};
use qiang_worker::host::{Next, Reconciler, Schedule, Stuck};

/// How often a node looks at the binding, and shows that its engine is there.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// How recent a sighting of the engine has to be to count as a sign of life: presence calls come twice a second.
const SEEN_MAX: Duration = Duration::from_millis(1_500);
/// How long an engine shows no sign of life before another takes its place.
const SILENCE: Duration = Duration::from_secs(3);
/// The longest pause between two looks at the signs of life that are one watch.
const WATCH_GAP_MAX: Duration = Duration::from_millis(1_500);
/// The longest location that the ledger keeps, in bytes.
const LOCATION_MAX: usize = 1_000;

/// Looks after the binding of one process.
pub(crate) struct Binder {
    ledger: Arc<dyn Ledger>,
    identity: Arc<Identity>,
    location: String,
    /// Whether partitions are on servers of their own.
    is_sharded: bool,
    /// Whether this process has seen the ledger's engine in its Redis.
    is_known: bool,
    stillness: Stillness,
}

/// How long the engine's signs of life have not changed, as this process has watched them without a pause.
#[derive(Default)]
struct Stillness(Option<Watched>);

struct Watched {
    beats: u64,
    since: Instant,
    last: Instant,
}

impl Stillness {
    /// Whether the engine has shown no sign of life for [`SILENCE`], now that so many were counted. After a pause in
    /// the watch, other processes may have been unable to show one during the same time: it begins again.
    fn is_silence(&mut self, beats: u64, now: Instant) -> bool {
        let before = self.0.take();
        let before = before.filter(|it| it.beats == beats && now - it.last <= WATCH_GAP_MAX);
        let since = before.map_or(now, |it| it.since);
        self.0 = Some(Watched {
            beats,
            since,
            last: now,
        });
        now - since >= SILENCE
    }

    /// Begins the watch again.
    fn forget(&mut self) {
        self.0 = None;
    }
}

impl Binder {
    /// Reads which engine the ledger belongs to. A ledger that has none gets one at this location.
    pub(crate) async fn start(ledger: Arc<dyn Ledger>, options: &Options) -> anyhow::Result<Self> {
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
        }
        ledger.settle_for(&bound.engine);
        let binder = Self {
            ledger,
            identity,
            location,
            is_sharded: options.topology == Topology::Cluster,
            is_known: false,
            stillness: Stillness::default(),
        };
        binder.advise(&bound);
        Ok(binder)
    }

    /// What presence calls state.
    pub(crate) fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity)
    }

    /// Refuses a Redis that is not the ledger's, once partitions were asked. One that came up empty where the engine
    /// was is no error.
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

    /// Runs until this process serves the ledger's engine, for as long as a takeover takes.
    pub(crate) async fn settle_in(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + 2 * SILENCE;
        self.check().await?;
        while self.identity.is_missing() && Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look().await?;
        }
        ensure!(
            !self.identity.is_missing(),
            "not all partitions carry the ledger's engine, and other processes use it: stop them, or run this where \
             they run"
        );
        Ok(())
    }

    async fn look(&mut self) -> Result<(), LedgerError> {
        let looked = self.look_once().await;
        match looked {
            Ok(()) => self.identity.note_ledger(),
            // Others cannot show signs of life either while the ledger does not answer.
            Err(_) => self.stillness.forget(),
        }
        looked
    }

    async fn look_once(&mut self) -> Result<(), LedgerError> {
        let engine = self.identity.engine();
        if self.identity.is_seen(SEEN_MAX) {
            self.stillness.forget();
            // A file needs no more than the first one: no other process looks at it.
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

    /// The engine is in this process' Redis: notes where that is, and marks partitions again that have lost their data
    /// alone.
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

    /// Whether the engine was where this process looks for it. One that no process ever saw was nowhere.
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
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        let looked = self.look().await;
        looked
            .map(|()| Next::Wait)
            .map_err(|error| Stuck(error.to_string()))
    }
}

impl Binder {
    pub(crate) const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);
}

/// Moves the ledger to the Redis of these options; returns where it was, none if it is there already.
///
/// # Errors
/// When processes still see the engine that the ledger belongs to, or the ledger does not answer.
pub(crate) async fn adopt(
    ledger: &dyn Ledger,
    options: &Options,
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
    let to = EngineBinding {
        engine: new_epoch(),
        location: location.clone(),
        ..before.clone()
    };
    let after = ledger.bind(&before.engine, &to).await?;
    ensure!(after.engine == to.engine, in_use);
    Ok(Some((before.location, location)))
}

/// Where an engine is, in a form that is the same for every spelling of the same servers, without credentials.
fn location_of(options: &Options) -> String {
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
        let mut stillness = Stillness::default();
        let mut at =
            |millis: u64, beats| stillness.is_silence(beats, start + Duration::from_millis(millis));
        for millis in (0..3_000).step_by(400) {
            assert!(!at(millis, 7), "{millis}");
        }
        assert!(at(3_000, 7));
        assert!(!at(3_400, 8), "a sign of life");
        // This process, or the ledger, did not answer for a while, and nor could other processes show anything.
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
            let options = Options {
                urls: urls.iter().map(|url| (*url).to_owned()).collect(),
                ..Options::default()
            };
            assert_eq!(location_of(&options), expected);
        };
        check(&["redis://ann:secret@Redis:6379/"], "qiang@redis:6379");
        check(&["rediss://b:1", "redis://a:1"], "qiang@a:1,b:1");
    }
}
