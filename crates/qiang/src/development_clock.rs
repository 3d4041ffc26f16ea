//! Clock of a service for development. It is ahead of the system's by a step that requests add to, and that a file
//! beside the data keeps over restarts. Without it, entries of the data would lie in the future.

use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::Context as _;
use parking_lot::Mutex;
use qiang_api::UsageError;
use qiang_core::{
    ports::Clock,
    time::{AdjustableClock, ClockState, Timestamp},
};
use uuid::Uuid;

/// End of the file's name, after that of the data.
const SUFFIX: &str = ".test-clock";
/// Largest total of all steps: ten years.
const AHEAD_MS_MAX: i64 = 10 * 366 * 86_400_000;
/// Last steps whose ids the file keeps.
const STEPS_KEPT: usize = 100;

/// A clock that moves forward on request.
pub(crate) struct DevelopmentClock {
    system: Arc<dyn Clock>,
    ahead_ms: AtomicI64,
    /// Locked while it is written.
    file: Mutex<ClockFile>,
}

/// The file: the total of all steps in milliseconds, and then the ids of the last ones, oldest first, one per line.
struct ClockFile {
    path: PathBuf,
    steps: Vec<Uuid>,
}

impl DevelopmentClock {
    /// Opens the clock of this data. It is as far ahead as before. Its file marks the data as made for development.
    ///
    /// # Errors
    /// If its file cannot be read or made.
    pub(crate) fn open(system: Arc<dyn Clock>, data: &Path) -> anyhow::Result<Arc<Self>> {
        let file = file_beside(data);
        let (ahead_ms, steps) = read(&file)?;
        if !file.exists() {
            write(&file, ahead_ms, &steps)
                .with_context(|| format!("cannot make {}", file.display()))?;
        }
        Ok(Arc::new(Self {
            system,
            ahead_ms: ahead_ms.into(),
            file: Mutex::new(ClockFile { path: file, steps }),
        }))
    }
}

impl DevelopmentClock {
    fn state(&self, advanced_ms: i64) -> ClockState {
        ClockState {
            now: self.now(),
            advanced_ms,
        }
    }
}

/// Milliseconds by which the clock of this data is ahead of the system's.
///
/// # Errors
/// If its file cannot be read.
pub(crate) fn ahead_ms(data: &Path) -> anyhow::Result<i64> {
    Ok(read(&file_beside(data))?.0)
}

/// Whether a service for development made this data, or will make it. Others have no test clock and no sample shop.
pub(crate) fn is_for_development(data: &Path) -> bool {
    file_beside(data).exists() || !data.exists()
}

/// Refuses data whose clock was moved: its entries lie in the future of the system's clock.
///
/// # Errors
/// If the data has such a clock, or its file cannot be read.
pub(crate) fn refuse_moved(data: &Path) -> anyhow::Result<()> {
    if ahead_ms(data)? == 0 {
        return Ok(());
    }
    let line = format!(
        "the clock of {} was moved for development: serve it with --dev only ({} says by how much)",
        data.display(),
        file_beside(data).display()
    );
    Err(UsageError::new(line).into())
}

fn file_beside(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

fn read(file: &Path) -> anyhow::Result<(i64, Vec<Uuid>)> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((0, Vec::new())),
        read => read.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let mut lines = text.lines();
    let ahead_ms = lines.next().and_then(|line| line.trim().parse().ok());
    let ahead_ms = ahead_ms.filter(|ahead_ms| (0..=AHEAD_MS_MAX).contains(ahead_ms));
    let ahead_ms =
        ahead_ms.with_context(|| format!("{} is no number of milliseconds", file.display()))?;
    let steps: Result<_, _> = lines.map(|line| Uuid::parse_str(line.trim())).collect();
    let steps = steps.with_context(|| format!("{} has a bad id of a step", file.display()))?;
    Ok((ahead_ms, steps))
}

/// Replaces the file, durably.
fn write(file: &Path, ahead_ms: i64, steps: &[Uuid]) -> io::Result<()> {
    let mut next = file.as_os_str().to_owned();
    next.push(".new");
    let next = PathBuf::from(next);
    let mut written = fs::File::create(&next)?;
    let lines: String = steps.iter().map(|id| format!("{id}\n")).collect();
    write!(written, "{ahead_ms}\n{lines}")?;
    written.sync_all()?;
    fs::rename(&next, file)?;
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

impl Clock for DevelopmentClock {
    fn now(&self) -> Timestamp {
        let ahead_ms = self.ahead_ms.load(Ordering::Relaxed);
        self.system.now().plus_millis(ahead_ms)
    }
}

impl AdjustableClock for DevelopmentClock {
    fn advance(&self, id: Uuid, step_ms: i64) -> Result<ClockState, String> {
        let mut file = self.file.lock();
        let ahead_ms = self.ahead_ms.load(Ordering::Relaxed);
        if file.steps.contains(&id) {
            return Ok(self.state(ahead_ms));
        }
        let after_ms = ahead_ms.saturating_add(step_ms.max(0));
        if after_ms > AHEAD_MS_MAX {
            return Err("the clock is ten years ahead already".to_owned());
        }
        // In the order of ids: an id before the first one may be forgotten.
        let mut steps = file.steps.clone();
        let place = steps.partition_point(|kept| *kept < id);
        steps.insert(place, id);
        let forgotten = steps.len().saturating_sub(STEPS_KEPT);
        steps.drain(..forgotten);
        // Written first: entries of the later time must not outlive the file's step.
        write(&file.path, after_ms, &steps)
            .map_err(|error| format!("{}: {error}", file.path.display()))?;
        file.steps = steps;
        self.ahead_ms.store(after_ms, Ordering::Relaxed);
        Ok(self.state(after_ms))
    }

    fn keeps_steps_since(&self, id: Uuid) -> bool {
        let file = self.file.lock();
        file.steps.len() < STEPS_KEPT || file.steps[0] <= id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    struct Fixed;

    impl Clock for Fixed {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(1_000)
        }
    }

    #[test]
    fn the_clock_keeps_its_steps_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("qiang.db");
        let open = || DevelopmentClock::open(Arc::new(Fixed), &data);
        let clock = open().unwrap();
        assert_eq!(clock.now(), Timestamp::from_millis(1_000));
        assert!(refuse_moved(&data).is_ok());
        clock.advance(step(1), 500).unwrap();
        let state = clock.advance(step(2), 1_500).unwrap();
        assert_eq!((state.now.as_millis(), state.advanced_ms), (3_000, 2_000));
        assert_eq!(open().unwrap().now(), clock.now());
        // A step is made once, also after a restart.
        for clock in [&clock, &open().unwrap()] {
            for id in [1, 2] {
                assert_eq!(clock.advance(step(id), 500).unwrap(), state);
            }
        }
        let refused = refuse_moved(&data).unwrap_err().to_string();
        assert!(refused.contains("--dev"), "{refused}");
        // It never moves back, nor by more than ten years.
        assert_eq!(clock.advance(step(3), -9).unwrap().advanced_ms, 2_000);
        assert!(clock.advance(step(4), AHEAD_MS_MAX).is_err());
        assert_eq!(clock.now(), Timestamp::from_millis(3_000));
        // It keeps the ids of the last steps.
        assert!(clock.keeps_steps_since(step(0)));
        for n in 0..STEPS_KEPT as u128 {
            clock.advance(step(10 + n), 1).unwrap();
        }
        let clock = open().unwrap();
        assert!(clock.keeps_steps_since(step(10)) && !clock.keeps_steps_since(step(9)));
        assert_eq!(clock.advance(step(10), 1).unwrap().advanced_ms, 2_100);
        fs::write(file_beside(&data), "soon").unwrap();
        assert!(open().is_err() && refuse_moved(&data).is_err());
    }
}
