//! Two engines on one file, without any lock between them: the later start fences the earlier one.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use qiang_core::{
    book::{Downtime, Setup},
    ports::PendingReply,
};
use qiang_testkit::campaign::{OPENS, Target, sale};
use tempfile::TempDir;

use super::*;
use crate::{
    job::Job,
    ledger::accounts,
    writer::manual_engine::{ManualEngine, block_on, creation, packet},
};

const REASON: &str = "another process serves";

/// Environment of a child process: the file that it serves.
const FILE: &str = "QIANG_TEST_SUPERSEDED";
/// First line of a child that serves, and of one that was refused.
const SERVES: &str = "serves";
const REFUSED: &str = "refused";

impl ManualEngine {
    /// Takes a turn, after which granting may be stopped.
    fn any_turn(&mut self) {
        self.writer.turn(&mut Vec::new(), &mut Vec::new());
    }

    fn grants(&mut self, setup: &Setup, name: &str) {
        assert_eq!(self.outcome_of(setup, name), Ok("granted"), "{name}");
    }

    /// Result of a claim. Granting may be stopped before or by it.
    fn outcome_of(&mut self, setup: &Setup, name: &str) -> Result<&'static str, String> {
        let (answer, mut ticket) = PendingReply::new();
        let claim = Target::of(setup).one(name);
        match self
            .writer
            .shared
            .queue
            .push(WriterTask::Claim(claim, answer))
        {
            Ok(()) => self.any_turn(),
            Err((_, task)) => task.refuse(&EngineError::unavailable(self.stop_reason())),
        }
        match block_on(&mut ticket) {
            Ok(claimed) => Ok(claimed.outcome.name()),
            Err(EngineError::Uncertain { reason } | EngineError::Unavailable { reason }) => {
                Err(reason)
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Reason while granting is stopped; otherwise empty.
    fn stop_reason(&self) -> String {
        self.writer
            .shared
            .stopped
            .read()
            .clone()
            .unwrap_or_default()
    }

    /// Asserts that a claim is refused and that granting is stopped because of the other process.
    fn refuses(&mut self, setup: &Setup, name: &str) {
        let refused = self.outcome_of(setup, name);
        assert!(refused.is_err(), "{name}: {refused:?}");
        assert!(
            self.stop_reason().contains(REASON),
            "{}",
            self.stop_reason()
        );
    }

    /// Asserts that the repair does not resume granting.
    fn stays_stopped(&mut self) {
        for _ in 0..3 {
            self.writer.repair_at = Some(Instant::now());
            self.any_turn();
            assert!(
                self.stop_reason().contains(REASON),
                "{}",
                self.stop_reason()
            );
        }
    }

    /// Decides the waiting tasks without the work between batches.
    fn decide_waiting(&mut self) {
        let mut tasks = self.take();
        self.writer.batch(&mut tasks, &mut Vec::new());
    }

    fn sold(&self) -> u32 {
        self.count("SELECT count(*) FROM events WHERE kind = 1")
    }
}

fn stock(units: u32) -> Setup {
    sale(units).setup(1)
}

fn open_sale(engine: &mut ManualEngine, units: u32) -> Setup {
    let setup = stock(units);
    let entered = engine.enter(creation(setup.clone(), None));
    engine.entered(entered).unwrap();
    setup
}

#[test]
fn the_earlier_of_two_engines_on_one_file_is_refused() {
    let mut first = ManualEngine::new();
    let path = first.writer.path.clone();
    let setup = open_sale(&mut first, 3);
    first.grants(&setup, "ann");
    let mut second = ManualEngine::open_beside(&path).unwrap();
    first.refuses(&setup, "bob");
    first.stays_stopped();
    second.grants(&setup, "carl");
    // The other order: the first engine's file is opened again.
    let mut third = ManualEngine::open_beside(&path).unwrap();
    second.refuses(&setup, "dora");
    third.grants(&setup, "dora");
    second.stays_stopped();
    first.stays_stopped();
    for engine in [&mut first, &mut second] {
        engine.refuses(&setup, "emil");
    }
    assert_eq!(third.outcome_of(&setup, "emil"), Ok("sold_out"));
    assert_eq!(third.sold(), 3);
    // A restart of one of them would serve the file.
    assert!(!path.with_file_name("qiang.db.overwritten").exists());
}

/// The check of the files once a second notices the other process without a commit.
#[test]
fn an_idle_engine_notices_the_later_one() {
    let mut first = ManualEngine::new();
    let second = ManualEngine::open_beside(&first.writer.path).unwrap();
    for _ in 0..2 {
        // The other process may also have ended since.
        first.writer.watched_at -= IDLE_WAIT_MAX;
        first.writer.look_at_files();
        assert!(
            first.stop_reason().contains(REASON),
            "{}",
            first.stop_reason()
        );
    }
    let path = second.writer.path.clone();
    let mut third = ManualEngine::open_beside(&path).unwrap();
    let ManualEngine { writer, .. } = second;
    writer.end(); // it did not notice the third one
    assert!(third.writer.watch.check(&third.writer.conn).is_ok());
    assert!(!path.with_file_name("qiang.db.overwritten").exists());
    third.turn();
}

/// Each way in which the writer changes the file.
#[test]
fn an_earlier_engine_changes_nothing_on_any_path() {
    type Path = (&'static str, fn(&mut ManualEngine));
    let paths: [Path; 11] = [
        ("claim", |it| {
            drop(it.claim(&stock(9), "bob"));
            it.decide_waiting();
        }),
        ("probe", |it| {
            it.push(WriterTask::Probe(PendingReply::new().0));
            it.decide_waiting();
        }),
        ("deposit", |it| {
            let (job, _) = Job::boxed(0, |context| {
                let funds = qiang_core::money::Money::new(7, "CNY".parse().unwrap());
                let user = qiang_testkit::campaign::user("bob");
                let id = uuid::Uuid::from_u128(7);
                accounts::deposit(context.conn, OPENS, id, (&user, funds), None)
            });
            it.push(WriterTask::Ledger(job));
            it.decide_waiting();
        }),
        ("creation", |it| {
            drop(it.enter(packet(2, 1_000, 10)));
            it.decide_waiting();
        }),
        ("large creation", |it| {
            let _waits = it.enter(packet(2, 20_000, 20_000));
            it.decide_waiting();
            it.writer.prepare();
        }),
        ("settlement", |it| {
            let settled = it.writer.settle_slice();
            assert!(matches!(settled, Err(DataFileError::Superseded { .. })));
            it.writer.stop(&settled.unwrap_err());
        }),
        ("tick", |it| {
            it.clock
                .advance(qiang_testkit::campaign::HOLD_MS + 3_600_000);
            it.writer.tick();
        }),
        ("pause", |it| {
            let (began, ended) = (OPENS, OPENS.plus_millis(60_000));
            let recorded = it.writer.record_pause(Downtime { began, ended });
            it.writer.stop(&recorded.unwrap_err());
        }),
        ("listing", |it| {
            let listed = it.writer.list_slice();
            assert!(matches!(listed, Err(DataFileError::Superseded { .. })));
            it.writer.stop(&listed.unwrap_err());
        }),
        ("sign of life", |it| {
            it.writer.up_at = (Instant::now() - UP_EVERY, Seq::MAX);
            it.writer.say_that_it_is_up();
        }),
        ("repair", |it| {
            it.writer.stop(&DataFileError::damaged("any"));
            it.writer.repair_at = Some(Instant::now());
            it.writer.try_repair();
        }),
    ];
    for (name, change) in paths {
        let mut first = ManualEngine::new();
        let setup = open_sale(&mut first, 9);
        // Not settled yet.
        drop(first.claim(&setup, "ann"));
        first.decide_waiting();
        let second = ManualEngine::open_beside(&first.writer.path).unwrap();
        let commits = || -> u32 {
            let version = |row: &rusqlite::Row<'_>| row.get(0);
            let pragma = "PRAGMA data_version";
            second.reader.query_row(pragma, [], version).unwrap()
        };
        let before = commits();
        change(&mut first);
        let reason = first.stop_reason();
        assert!(reason.contains(REASON), "{name}: {reason:?}");
        let ManualEngine { writer, .. } = first;
        writer.end();
        assert_eq!(commits(), before, "{name}");
    }
}

/// Process that serves a file.
struct Other {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Starts a process on the file. Returns the reason if it refuses the file.
    fn start(file: &Path) -> Result<Self, String> {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "writer::superseded::in_a_child",
                "--nocapture",
                "-q",
            ])
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut other = Self {
            process,
            input,
            output,
        };
        match other.line() {
            line if line == SERVES => Ok(other),
            line => Err(line),
        }
    }

    /// The next line of the child, not of the test program.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the child ended");
            if let Some(line) = line.strip_prefix("> ") {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Outcome or error of a claim.
    fn claim(&mut self, name: &str) -> String {
        writeln!(self.input, "{name}").unwrap();
        self.line()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The child of the tests below: an engine that claims for each line.
#[test]
fn in_a_child() {
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    let path = Path::new(&path);
    let mut engine = match ManualEngine::open_beside(path) {
        Ok(engine) => engine,
        Err(error) => return println!("\n> {REFUSED}: {}", error.chain()),
    };
    println!("\n> {SERVES}");
    for name in io::stdin().lines() {
        match engine.outcome_of(&stock(2), &name.unwrap()) {
            Ok(outcome) => println!("> {outcome}"),
            Err(reason) => println!("> {reason}"),
        }
    }
}

fn names(folder: &TempDir, name: &str) -> [std::path::PathBuf; 3] {
    ["", "-wal", ".overwritten"].map(|suffix| folder.path().join(format!("{name}{suffix}")))
}

/// A hard link has a write-ahead log of its own, so a generation in the log is not seen through the other name.
#[cfg(target_os = "linux")]
#[test]
fn the_earlier_of_two_processes_is_refused_behind_a_hard_link() {
    let folder = TempDir::new().unwrap();
    let [path, log, overwritten] = names(&folder, "qiang.db");
    let [hard, hard_log, hard_overwritten] = names(&folder, "hard.db");
    let mut first = ManualEngine::open(folder);
    let setup = open_sale(&mut first, 2);
    first.grants(&setup, "ann");
    fs::hard_link(&path, &hard).unwrap();
    let refused = Other::start(&hard).err().unwrap();
    assert!(refused.contains("was not closed"), "{refused}");
    // An operator follows the message and puts a log there.
    fs::copy(&log, &hard_log).unwrap();
    let mut second = Other::start(&hard).unwrap();
    first.refuses(&setup, "bob");
    first.stays_stopped();
    assert_eq!(second.claim("bob"), "granted");
    assert_eq!(second.claim("carl"), "sold_out");
    first.refuses(&setup, "carl");
    // The first one's log lacks the second one's grant.
    assert!(overwritten.exists() && !hard_overwritten.exists());
    let refused = Other::start(&path).err().unwrap();
    assert!(refused.contains("was overwritten"), "{refused}");
    assert_eq!(second.claim("ann"), "already_granted");
}

/// The earlier process ends before it commits again. It must not checkpoint its log over the later one's
/// file.
#[cfg(target_os = "linux")]
#[test]
fn the_end_of_the_earlier_of_two_processes_leaves_the_file() {
    let folder = TempDir::new().unwrap();
    let [path, log, _] = names(&folder, "qiang.db");
    let [hard, hard_log, _] = names(&folder, "hard.db");
    let mut first = ManualEngine::open(folder);
    let setup = open_sale(&mut first, 2);
    first.grants(&setup, "ann");
    fs::hard_link(&path, &hard).unwrap();
    fs::copy(&log, &hard_log).unwrap();
    let mut second = Other::start(&hard).unwrap();
    assert_eq!(second.claim("bob"), "granted");
    let before = fs::read(&path).unwrap();
    let ManualEngine {
        folder: _folder,
        writer,
        reader,
        ..
    } = first;
    drop(reader);
    writer.end();
    assert!(fs::read(&path).unwrap() == before, "the data file changed");
    assert_eq!(second.claim("carl"), "sold_out");
    assert_eq!(second.claim("bob"), "already_granted");
}

/// A process dies. Another one serves the file under another name, with a copy of the log. The log beside the first
/// name is old then, and SQLite would lay its pages over the file.
#[cfg(target_os = "linux")]
#[test]
fn a_log_that_is_older_than_its_file_is_refused() {
    for closes in [true, false] {
        let folder = TempDir::new().unwrap();
        let [path, log, _] = names(&folder, "qiang.db");
        let [hard, hard_log, _] = names(&folder, "hard.db");
        let mut first = ManualEngine::open(folder);
        let setup = open_sale(&mut first, 3);
        first.grants(&setup, "ann");
        let ManualEngine {
            folder: _folder,
            writer,
            reader,
            ..
        } = first;
        drop((writer, reader));
        fs::hard_link(&path, &hard).unwrap();
        fs::copy(&log, &hard_log).unwrap();
        let mut second = ManualEngine::open_beside(&hard).unwrap();
        second.grants(&setup, "bob");
        let ManualEngine { writer, reader, .. } = second;
        drop(reader);
        match closes {
            true => writer.end(),
            false => drop(writer),
        }
        let refused = ManualEngine::open_beside(&path).map(drop);
        let refused = refused.map_err(|error| error.chain());
        let reason = refused.err().unwrap_or_default();
        assert!(reason.contains("is older than the data file"), "{reason:?}");
        // The operator follows the message.
        let served = match closes {
            true => {
                fs::remove_file(&log).unwrap();
                &path
            }
            false => &hard,
        };
        let mut again = ManualEngine::open_beside(served).unwrap();
        for name in ["ann", "bob"] {
            assert_eq!(again.outcome_of(&setup, name), Ok("already_granted"));
        }
    }
}

/// A reader can keep the mark of a start out of the data file. The mark of a later process is noticed there still.
#[cfg(target_os = "linux")]
#[test]
fn the_earlier_of_two_processes_is_refused_before_its_mark_is_in_the_file() {
    let folder = TempDir::new().unwrap();
    let [path, log, _] = names(&folder, "qiang.db");
    let [hard, hard_log, _] = names(&folder, "hard.db");
    let mut engine = ManualEngine::open(folder);
    let setup = open_sale(&mut engine, 2);
    let ManualEngine { folder, writer, .. } = engine;
    // As after a kill, the file has the mark of this start.
    drop(writer);
    let reader = crate::file::open_reader(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM events").unwrap();
    let mut first = ManualEngine::open(folder);
    first.grants(&setup, "ann");
    first.writer.watch.check(&first.writer.conn).unwrap();
    let mark = "SELECT open_as FROM file_kind";
    let mark: String = first.reader.query_row(mark, [], |row| row.get(0)).unwrap();
    let in_file = crate::open_mark::in_file(&first.reader, &path).unwrap();
    assert!(
        in_file.as_ref().is_some_and(|it| *it != mark),
        "{in_file:?}"
    );
    fs::hard_link(&path, &hard).unwrap();
    fs::copy(&log, &hard_log).unwrap();
    let mut second = Other::start(&hard).unwrap();
    first.refuses(&setup, "bob");
    assert_eq!(second.claim("bob"), "granted");
    first.stays_stopped();
}

#[cfg(target_os = "linux")]
#[test]
fn the_earlier_of_two_processes_is_refused_that_opened_the_hard_link() {
    let folder = TempDir::new().unwrap();
    let [path, log, _] = names(&folder, "qiang.db");
    let [hard, hard_log, hard_overwritten] = names(&folder, "hard.db");
    let mut engine = ManualEngine::open(folder);
    let setup = open_sale(&mut engine, 2);
    let ManualEngine { folder, writer, .. } = engine;
    writer.end();
    fs::hard_link(&path, &hard).unwrap();
    let mut first = Other::start(&hard).unwrap();
    assert_eq!(first.claim("ann"), "granted");
    fs::copy(&hard_log, &log).unwrap();
    let mut second = ManualEngine::open(folder);
    let refused = first.claim("bob");
    assert!(refused.contains(REASON), "{refused}");
    second.grants(&setup, "bob");
    assert_eq!(second.outcome_of(&setup, "carl"), Ok("sold_out"));
    let refused = first.claim("carl");
    assert!(refused.contains(REASON), "{refused}");
    assert!(hard_overwritten.exists());
}
