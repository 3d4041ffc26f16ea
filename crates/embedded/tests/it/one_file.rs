//! One data file under many names, and files that go while they are served: no unit is granted twice, and no grant is
//! answered that its file does not keep.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use qiang_core::{
    book,
    ports::{AccountStore as _, CampaignStore as _, Claimed, Engine as _, EngineError},
};
use qiang_embedded::{
    Embedded, SqliteLedger, StoreError, SystemClock,
    copies::{self, Restore},
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, sale, user},
    servers::wait_for,
};
use tempfile::TempDir;

/// In the child: the file, what it does with it, and the folder that it mounts there, if it does.
const FILE: &str = "QIANG_TEST_ONE_FILE";
const DOES: &str = "QIANG_TEST_ONE_FILE_DOES";
const MOUNT: &str = "QIANG_TEST_ONE_FILE_MOUNT";
/// How long a child may take until it has the file open.
const BEGIN_MAX: Duration = Duration::from_secs(60);

fn try_open(path: &Path) -> Result<Embedded, StoreError> {
    Embedded::open(path, ManualClock::new(OPENS))
}

fn open(path: &Path) -> Embedded {
    try_open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn is_in_use<T>(opened: Result<T, StoreError>) -> bool {
    match opened {
        Ok(_) => false,
        Err(StoreError::InUse { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// A sale of some units, which is open.
fn open_sale(embedded: &Embedded) -> Target {
    let setup = sale(50).setup(1);
    block_on(embedded.create(&setup)).unwrap();
    let target = Target::of(&setup);
    block_on(embedded.submit(book::Command::Open(Box::new(setup)))).unwrap();
    target
}

fn claim(embedded: &Embedded, target: &Target, name: &str) -> Result<Claimed, EngineError> {
    block_on(embedded.claim(target.one(name)))
}

/// A process that has a file open, until it is dropped.
struct Holder {
    process: Child,
    output: BufReader<ChildStdout>,
}

fn child(file: &Path, does: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "one_file::in_a_child", "--nocapture"])
        .env(FILE, file)
        .env(DOES, does);
    command
}

impl Holder {
    fn start(file: &Path) -> Self {
        Self::of(child(file, "hold"))
    }

    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("it holds the file") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the child ended");
        }
        Self { process, output }
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.process.stdin.take()); // it closes the file at the end of its input
        io::copy(&mut self.output, &mut io::sink()).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The child of the tests below.
#[test]
fn in_a_child() {
    let (Some(file), Ok(does)) = (std::env::var_os(FILE), std::env::var(DOES)) else {
        return;
    };
    if does == "read" {
        // The last connection of a process removes the write-ahead log when it closes, if it can lock the file.
        let conn = rusqlite::Connection::open(file).unwrap();
        let count = conn.query_row("SELECT count(*) FROM events", [], |row| {
            row.get::<_, i64>(0)
        });
        assert!(count.unwrap() > 0);
        return;
    }
    if let Some(folder) = std::env::var_os(MOUNT) {
        let to = Path::new(&file).parent().unwrap();
        let mounted = Command::new("mount")
            .arg("--bind")
            .arg(folder)
            .arg(to)
            .status();
        assert!(mounted.unwrap().success());
    }
    let embedded = Embedded::open(Path::new(&file), Arc::new(SystemClock)).unwrap();
    println!("\nit holds the file");
    io::copy(&mut io::stdin().lock(), &mut io::sink()).unwrap();
    embedded.close();
}

/// A closed file with other names: a symlink, one in another folder, and a hard link.
fn names(folder: &Path) -> [PathBuf; 4] {
    fs::create_dir(folder.join("elsewhere")).unwrap();
    let names = ["qiang.db", "link.db", "elsewhere/link.db", "hard.db"];
    let [path, link, elsewhere, hard] = names.map(|name| folder.join(name));
    open(&path).close();
    symlink("qiang.db", &link).unwrap();
    symlink(&link, &elsewhere).unwrap();
    fs::hard_link(&path, &hard).unwrap();
    [path, link, elsewhere, hard]
}

#[test]
fn a_second_process_is_refused_under_every_name_of_the_file() {
    let folder = TempDir::new().unwrap();
    let names = names(folder.path());
    for held in &names {
        let holder = Holder::start(held);
        for path in &names {
            assert!(is_in_use(try_open(path)), "{}", path.display());
        }
        fs::remove_file(folder.path().join("qiang.db.lock")).unwrap_or_default();
        fs::remove_file(folder.path().join("hard.db.lock")).unwrap_or_default();
        for path in &names {
            assert!(
                is_in_use(try_open(path)),
                "without .lock: {}",
                path.display()
            );
        }
        holder.end();
    }
    open(&names[3]).close();
}

#[test]
fn a_second_process_is_refused_through_another_mount() {
    let folder = TempDir::new().unwrap();
    let [data, mounted] = ["data", "mounted"].map(|name| folder.path().join(name));
    fs::create_dir(&data).unwrap();
    fs::create_dir(&mounted).unwrap();
    let path = data.join("qiang.db");
    open(&path).close();
    let mut command = child(&mounted.join("qiang.db"), "hold");
    command.env(MOUNT, &data);
    let holder = Holder::of(command);
    fs::remove_file(data.join("qiang.db.lock")).unwrap();
    assert!(is_in_use(try_open(&path)));
    holder.end();
    open(&path).close();
}

/// A refused attempt closes nothing by which SQLite loses its locks in this process: nobody else may take the file's
/// write-ahead log for left over.
#[test]
fn an_attempt_in_the_same_process_takes_no_lock_from_sqlite() {
    let folder = TempDir::new().unwrap();
    let names = names(folder.path());
    let embedded = open(&names[0]);
    let target = open_sale(&embedded);
    for path in &names {
        assert!(is_in_use(try_open(path)), "{}", path.display());
        let ledger = SqliteLedger::open(path, ManualClock::new(OPENS));
        assert!(is_in_use(ledger), "{}", path.display());
        let restored = copies::restore(
            &names[0],
            path,
            Restore {
                replace: true,
                as_it_is: false,
            },
        );
        assert!(is_in_use(restored), "{}", path.display());
    }
    let reader = child(&names[0], "read").status();
    assert!(reader.unwrap().success());
    assert!(folder.path().join("qiang.db-wal").metadata().unwrap().len() > 0);
    claim(&embedded, &target, "a").unwrap();
    embedded.close();
}

#[test]
fn a_symlink_serves_and_restores_the_file_behind_it() {
    let folder = TempDir::new().unwrap();
    let [path, link, backup] =
        ["real/qiang.db", "link.db", "backup.db"].map(|name| folder.path().join(name));
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink("real/qiang.db", &link).unwrap();
    let embedded = open(&link);
    let target = open_sale(&embedded);
    claim(&embedded, &target, "a").unwrap();
    assert_eq!(embedded.path(), path.canonicalize().unwrap());
    // As after a crash: what was granted is in the log beside the file.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["qiang.db", "qiang.db-wal"] {
        fs::copy(folder.path().join("real").join(name), copy.join(name)).unwrap();
    }
    let copy_link = folder.path().join("copy.db");
    symlink("copy/qiang.db", &copy_link).unwrap();
    assert!(Embedded::is_engine(&copy_link).unwrap());
    copies::back_up(&copy_link, &backup).unwrap();
    let again = open(&copy_link);
    assert_eq!(
        claim(&again, &target, "a").unwrap().outcome.name(),
        "already_granted"
    );
    again.close();
    embedded.close();

    let how = Restore {
        replace: true,
        as_it_is: false,
    };
    copies::restore(&backup, &link, how).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let restored = open(&path);
    assert_eq!(
        claim(&restored, &target, "a").unwrap().outcome.name(),
        "already_granted"
    );
    restored.close();
}

/// A log that another name of the file does not have is not taken for one that a repair has emptied.
#[test]
fn an_empty_log_beside_a_hard_link_is_not_the_files() {
    let folder = TempDir::new().unwrap();
    let [path, hard, log] =
        ["qiang.db", "hard.db", "hard.db-wal"].map(|name| folder.path().join(name));
    let embedded = open(&path);
    let target = open_sale(&embedded);
    claim(&embedded, &target, "a").unwrap();
    embedded.abort();
    drop(embedded);
    // `abort` has closed the file. Another start marks it again.
    Holder::start(&path).kill();
    fs::hard_link(&path, &hard).unwrap();
    for _ in 0..2 {
        let refused = try_open(&hard).map(drop);
        assert!(
            matches!(refused, Err(StoreError::Incomplete { .. })),
            "{refused:?}"
        );
        fs::write(&log, "").unwrap(); // as a reader leaves it
    }
    let embedded = open(&path);
    assert_eq!(
        claim(&embedded, &target, "a").unwrap().outcome.name(),
        "already_granted"
    );
    embedded.close();
}

/// Serves, does something to the files, and claims: the claim is refused, and so is the next one. Returns the folder,
/// the engine, and why it has stopped.
fn stops_behind(damage: impl FnOnce(&Path)) -> (TempDir, Embedded, Target, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("qiang.db");
    let embedded = open(&path);
    let target = open_sale(&embedded);
    claim(&embedded, &target, "a").unwrap();
    copies::back_up(&path, &folder.path().join("backup.db")).unwrap();
    claim(&embedded, &target, "b").unwrap();
    damage(&path);
    let lost = claim(&embedded, &target, "c");
    assert!(
        matches!(
            lost,
            Err(EngineError::Uncertain { .. } | EngineError::Unavailable { .. })
        ),
        "{lost:?}"
    );
    let ready = block_on(embedded.probe(qiang_core::event::PartitionId(0)));
    assert!(
        matches!(ready, Err(EngineError::Unavailable { .. })),
        "{ready:?}"
    );
    let reason = embedded.stopped().unwrap();
    (folder, embedded, target, reason)
}

fn moved(path: &Path, suffix: &str) {
    let name = |suffix| format!("{}{suffix}", path.display());
    fs::rename(name(suffix), name(&format!(".moved{suffix}"))).unwrap();
}

#[test]
fn nothing_is_granted_once_the_folder_is_removed() {
    let (_, embedded, target, reason) =
        stops_behind(|path| fs::remove_dir_all(path.parent().unwrap()).unwrap());
    assert!(reason.contains("qiang.db was removed"), "{reason}");
    assert!(claim(&embedded, &target, "d").is_err());
    embedded.close();
}

#[test]
fn nothing_is_granted_once_another_file_is_in_its_place() {
    let (_folder, embedded, _, reason) =
        stops_behind(|path| fs::rename(path.with_file_name("backup.db"), path).unwrap());
    assert!(reason.contains("replaced"), "{reason}");
    embedded.close();
}

#[test]
fn granting_goes_on_once_the_file_is_back() {
    let (_folder, embedded, target, _) = stops_behind(|path| moved(path, ""));
    let path = embedded.path();
    fs::rename(format!("{}.moved", path.display()), path).unwrap();
    wait_for("the repair", BEGIN_MAX, || {
        embedded.stopped().is_none().then_some(())
    });
    for (name, outcome) in [
        ("b", "already_granted"),
        ("c", "already_granted"),
        ("d", "granted"),
    ] {
        assert_eq!(
            claim(&embedded, &target, name).unwrap().outcome.name(),
            outcome
        );
    }
    embedded.close();
}

/// `cp` of a backup over the file, which keeps its inode. The log beside it belongs to the earlier content.
#[test]
fn a_file_that_is_overwritten_is_refused_until_it_is_restored() {
    let (folder, embedded, target, reason) = stops_behind(|path| {
        fs::write(path, fs::read(path.with_file_name("backup.db")).unwrap()).unwrap();
    });
    assert!(reason.contains("overwritten"), "{reason}");
    let path = embedded.path().to_owned();
    embedded.close();
    drop(embedded);
    for _ in 0..2 {
        let refused = try_open(&path).map(drop);
        assert!(
            matches!(refused, Err(StoreError::Overwritten { .. })),
            "{refused:?}"
        );
    }
    let how = Restore {
        replace: true,
        as_it_is: false,
    };
    copies::restore(&folder.path().join("backup.db"), &path, how).unwrap();
    let restored = open(&path);
    assert_eq!(
        claim(&restored, &target, "a").unwrap().outcome.name(),
        "already_granted"
    );
    restored.close();
}

/// What the log had is moved into the file, and the next start has every answered grant.
#[test]
fn no_grant_is_lost_with_the_log_of_a_running_service() {
    for suffix in ["-wal", "-shm"] {
        let (_folder, embedded, target, reason) =
            stops_behind(|path| fs::remove_file(format!("{}{suffix}", path.display())).unwrap());
        assert!(reason.contains(suffix), "{reason}");
        let path = embedded.path().to_owned();
        embedded.close();
        drop(embedded);
        let embedded = open(&path);
        for (name, outcome) in [
            ("a", "already_granted"),
            ("b", "already_granted"),
            ("d", "granted"),
        ] {
            assert_eq!(
                claim(&embedded, &target, name).unwrap().outcome.name(),
                outcome
            );
        }
        embedded.close();
    }
}

#[test]
fn an_idle_service_notices_that_its_file_is_gone() {
    let folder = TempDir::new().unwrap();
    let [engine, ledger] = ["engine.db", "ledger.db"].map(|name| folder.path().join(name));
    let embedded = open(&engine);
    let standalone = SqliteLedger::open(&ledger, ManualClock::new(OPENS)).unwrap();
    for path in [&engine, &ledger] {
        moved(path, "");
    }
    wait_for("the engine", BEGIN_MAX, || embedded.stopped());
    wait_for("the ledger", BEGIN_MAX, || standalone.stopped());
    embedded.close();
    standalone.close();
}

#[test]
fn a_ledger_alone_takes_nothing_into_a_file_that_is_gone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap();
    let deposit = |n| {
        let funds = qiang_core::money::Money::new(100, currency());
        block_on(ledger.deposit(uuid::Uuid::from_u128(n), &user("ann"), funds))
    };
    deposit(1).unwrap();
    moved(&path, "");
    assert!(deposit(2).is_err());
    assert!(
        ledger.stopped().unwrap().contains("moved"),
        "{:?}",
        ledger.stopped()
    );
    fs::rename(format!("{}.moved", path.display()), &path).unwrap();
    wait_for("the repair", BEGIN_MAX, || {
        ledger.stopped().is_none().then_some(())
    });
    deposit(3).unwrap();
    ledger.close();
}
