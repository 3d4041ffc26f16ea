//! One data file with many names is served by one process: no unit is granted twice.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
};

use qiang_core::{
    book,
    ports::{CampaignStore as _, Claimed, Engine as _, EngineError},
};
use qiang_embedded::{
    DataFileError, Embedded, SqliteLedger, SystemClock,
    copies::{self, Restore},
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
};
use tempfile::TempDir;

/// Environment of the child: the file, the child's task, and a folder to mount there, if any.
const FILE: &str = "QIANG_TEST_ONE_FILE";
const DOES: &str = "QIANG_TEST_ONE_FILE_DOES";
const MOUNT: &str = "QIANG_TEST_ONE_FILE_MOUNT";

fn try_open(path: &Path) -> Result<Embedded, DataFileError> {
    Embedded::open(path, ManualClock::new(OPENS))
}

fn open(path: &Path) -> Embedded {
    try_open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn is_in_use<T>(opened: Result<T, DataFileError>) -> bool {
    match opened {
        Ok(_) => false,
        Err(DataFileError::InUse { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// Opens a sale with some units.
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

/// Process that has a file open until it is dropped.
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

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.process.stdin.take()); // // the process closes the file at the end of its input
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
        // When the last connection of a process closes, it removes the write-ahead log if it can lock the file.
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

/// A closed file with other names: a symlink, a symlink in another folder, and a hard link.
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

/// A refused attempt closes no descriptor, because this process would lose SQLite's locks. Then another process could
/// remove the write-ahead log of the file.
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
    // As after a crash: the grants are in the write-ahead log.
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

/// A hard link has no write-ahead log under its own name. That is not taken for a log that a repair has emptied.
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
            matches!(refused, Err(DataFileError::Incomplete { .. })),
            "{refused:?}"
        );
        fs::write(&log, "").unwrap(); // // as a reader leaves it
    }
    let embedded = open(&path);
    assert_eq!(
        claim(&embedded, &target, "a").unwrap().outcome.name(),
        "already_granted"
    );
    embedded.close();
}
