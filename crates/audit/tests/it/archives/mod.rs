//! Archiving old entries of a running engine's log. Answers do not change, and the audit still proves every entry. An
//! archiver that dies between two steps is resumed, and changed archives are detected.

mod proofs;
mod scene;

use std::fs;

use qiang_core::{
    book::{Command, PaymentOutcome},
    order::OrderState,
    outcome::Outcome,
    ports::{
        ArchiveLog as _, Clock as _, Engine as _, EventLog as _, LedgerError, QuarantineStore as _,
    },
    split::SplitRule,
    time::Month,
};
use qiang_embedded::copies::{Restore, back_up, restore};
use qiang_testkit::campaign::{OPENS, red_packet};
use rusqlite::types::Value;

use self::scene::{DAY_MS, PARTITION, Scene, block_on, ever, long_packet, long_sale, open, years};

const REPLACE: Restore = Restore {
    replace: true,
    as_it_is: false,
};

#[test]
fn months_leave_and_everything_is_answered_as_before() {
    let mut scene = Scene::new();
    let (packet, sale) = (scene.create(long_packet(1)), scene.create(long_sale(2)));
    let (share, order, january) = scene.month(packet, sale, 1);
    let (_, _, february) = scene.month(packet, sale, 2);
    let head = scene.settle();
    let archives = scene.archive();
    let [first, second] = &archives[..] else {
        panic!("{archives:?}")
    };
    let months = [first, second].map(|archive| archive.stretch.month.to_string());
    assert_eq!(months, ["2027-01", "2027-02"]);
    assert_eq!((first.stretch.first, first.stretch.last), (1, january));
    let stretch = (second.stretch.first, second.stretch.last);
    assert_eq!(stretch, (january + 1, february));
    assert_eq!(scene.entries(), head - february);
    for archive in &archives {
        let metadata = fs::metadata(&archive.file).unwrap();
        assert_eq!(metadata.len(), archive.bytes);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
    }
    scene.audit();
    let read = block_on(scene.engine.read(PARTITION, 0, 10));
    assert!(matches!(read, Err(LedgerError::Damaged { .. })), "{read:?}");

    for restarts in [false, true] {
        if restarts {
            scene.restart();
        }
        assert_eq!(scene.engine.positions(), (head, head));
        let again = scene.claim(packet.one("u1-0"));
        assert_eq!(again, Outcome::AlreadyGranted(share));
        let view = block_on(scene.engine.order(sale.order(order.number)));
        let state = view.unwrap().unwrap().grant.order.unwrap().state;
        assert_eq!(state, OrderState::Expired);
    }
    // A late payment of an order with an archived grant, and its return.
    let paid = scene.pay(sale, order.number, "late");
    assert_eq!(paid, PaymentOutcome::Reinstated);
    assert_eq!(scene.engine.positions().0, head + 1);
    scene.month(packet, sale, 3);
    let order = sale.order(order.number);
    scene
        .command(Command::Return { order, part: None })
        .unwrap();
    scene.settle();
    scene.audit();
    scene.pass(31);
    assert_eq!(
        scene.archive().len(),
        2,
        "the payment's month, and the return's"
    );
    scene.audit();
    let copy = scene.path("b.db");
    let copied = back_up(&scene.path("qiang.db"), &copy).unwrap();
    assert_eq!(copied.head, Some(scene.engine.positions().0));
    assert!(qiang_audit::audit(&copy).unwrap().ok);
}

/// All entries may have left the file. The next entry continues the numbering anyway.
#[test]
fn a_log_without_any_entry_goes_on_where_it_was() {
    let mut scene = Scene::new();
    let packet = scene.create(long_packet(1));
    let share = scene.grant(packet.one("a"));
    scene.pass(31);
    assert_eq!(scene.archive().len(), 1);
    let copy = scene.path("b.db");
    let copied = back_up(&scene.path("qiang.db"), &copy).unwrap();
    assert_eq!((scene.entries(), copied.head), (0, Some(2)));
    scene.restart();
    assert_eq!(scene.engine.positions(), (2, 2));
    assert_eq!(scene.claim(packet.one("a")), Outcome::AlreadyGranted(share));
    scene.grant(packet.one("b"));
    assert_eq!(scene.settle(), 3);
    scene.audit();
}

#[test]
fn what_is_not_over_or_not_settled_stays() {
    let scene = Scene::new();
    let packet = scene.create(long_packet(1));
    scene.grant(packet.one("a"));
    assert_eq!(scene.archive(), []);
    scene.pass(31);
    scene.settle();
    let log = scene.archives();
    scene.run("UPDATE settled SET seq = seq - 1");
    assert_eq!(block_on(log.archive_next(ever())), Ok(None));
    scene.run("UPDATE settled SET seq = seq + 1");
    let january = Month::containing(OPENS);
    assert_eq!(block_on(log.archive_next(january)), Ok(None), "only before");
    let archived = block_on(log.archive_next(january.next())).unwrap().unwrap();
    assert_eq!(archived.stretch.entries(), 2);
    // The folder of the archives does not exist.
    scene.pass(31);
    scene.grant(packet.one("b"));
    scene.settle();
    scene.pass(31);
    let nowhere = scene.engine.archives_in(scene.path("nowhere"));
    let refused = block_on(nowhere.archive_next(ever())).unwrap_err();
    assert!(
        refused.to_string().contains("there is no folder"),
        "{refused}"
    );
    assert_eq!(scene.entries(), 1);
}

/// Entries of a clock that was wrong for a moment. Those dated into the future belong to the month around them. Those
/// dated back before a month's end go into the next archive.
#[test]
fn entries_of_wrong_clocks_go_with_those_around_them() {
    let scene = Scene::new();
    // Within one packet, a later entry is never dated before an earlier one.
    let (packet, other) = (scene.create(long_packet(1)), scene.create(long_packet(2)));
    let at = scene.clock.now();
    scene.clock.set(at.plus_millis(900 * DAY_MS));
    scene.grant(other.one("future"));
    scene.clock.set(at);
    scene.grant(packet.one("now"));
    scene.pass(31);
    let archives = scene.archive();
    assert_eq!(archives.len(), 1);
    assert_eq!(archives[0].stretch.entries(), 4);
    let back = scene.clock.now();
    scene.clock.set(at);
    scene.grant(packet.one("past"));
    scene.clock.set(back);
    scene.grant(packet.one("present"));
    scene.pass(31);
    let archives = scene.archive();
    assert_eq!(archives.len(), 1);
    assert_eq!(archives[0].stretch.month.to_string(), "2027-02");
    scene.audit();
}

/// The process dies between any two steps, and the next one resumes.
#[test]
fn a_kill_between_any_two_steps_is_gone_on_from() {
    let mut scene = Scene::new();
    let (packet, sale) = (scene.create(long_packet(1)), scene.create(long_sale(2)));
    let (share, ..) = scene.month(packet, sale, 1);
    scene.settle();
    let copy = scene.path("before.db");
    let head = back_up(&scene.path("qiang.db"), &copy)
        .unwrap()
        .head
        .unwrap();
    let archives = scene.archive();
    let [archive] = &archives[..] else {
        panic!("{archives:?}")
    };
    let left = head - archive.stretch.last;
    let columns = |row: &rusqlite::Row<'_>| (0..7).map(|column| row.get(column)).collect();
    let recorded = "SELECT * FROM archives";
    let recorded: Vec<Value> = scene.sql().query_row(recorded, [], columns).unwrap();
    let record = |scene: &Scene| {
        let insert = "INSERT INTO archives VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let values = rusqlite::params_from_iter(recorded.clone());
        scene.sql().execute(insert, values).unwrap();
    };
    let written = fs::read(&archive.file).unwrap();
    // Cases: an incomplete file; a complete one; a recorded one; one with half of its entries removed from the log.
    for step in ["writing", "written", "recorded", "half"] {
        scene.engine.close();
        for name in ["qiang.db.replaced", "qiang.db.replaced-wal"] {
            drop(fs::remove_file(scene.path(name)));
        }
        restore(&copy, &scene.path("qiang.db"), REPLACE).unwrap();
        match step {
            "writing" => {
                fs::remove_file(&archive.file).unwrap();
                let unfinished = format!("{}.unfinished", archive.file);
                fs::write(unfinished, &written[..written.len() / 2]).unwrap();
            }
            "written" => {}
            "recorded" => record(&scene),
            _ => {
                record(&scene);
                assert_eq!(scene.run("DELETE FROM events WHERE seq <= 20"), 20);
            }
        }
        scene.engine = open(&scene.path("qiang.db"), &scene.clock);
        assert_eq!(scene.engine.positions().0, head, "{step}");
        let again = scene.claim(packet.one("u1-0"));
        assert_eq!(again, Outcome::AlreadyGranted(share));
        scene.audit();
        let again = scene.archive();
        let is_new = matches!(step, "writing" | "written");
        assert_eq!(again.len(), usize::from(is_new), "{step}");
        assert_eq!(fs::read(&archive.file).unwrap(), written, "{step}");
        assert_eq!(scene.entries(), left, "{step}");
        assert_eq!(scene.number("SELECT count(*) FROM archives"), 1, "{step}");
        scene.audit();
    }
}

/// No entry leaves the log for a changed file, and no file of another log is overwritten.
#[test]
fn entries_leave_only_for_the_file_that_was_written() {
    let mut scene = Scene::new();
    let (packet, sale) = (scene.create(long_packet(1)), scene.create(long_sale(2)));
    scene.month(packet, sale, 1);
    scene.settle();
    let copy = scene.path("before.db");
    back_up(&scene.path("qiang.db"), &copy).unwrap();
    let archives = scene.archive();
    let (file, left) = (&archives[0].file, scene.entries());
    let written = fs::read(file).unwrap();
    // The archive is recorded, and no entry has left yet.
    let sql = scene.sql();
    let copied = copy.to_str().unwrap();
    sql.execute("ATTACH ?1 AS copy", [copied]).unwrap();
    let back = "INSERT INTO main.events SELECT * FROM copy.events WHERE seq <= (SELECT max(last) FROM main.archives)";
    assert_eq!(
        sql.execute(back, []).unwrap() as u64,
        archives[0].stretch.entries()
    );
    drop(sql);
    let (log, all) = (scene.archives(), scene.entries());
    let mut changed = written.clone();
    *changed.last_mut().unwrap() ^= 1;
    for content in [Some(changed), None] {
        match content {
            Some(content) => fs::write(file, content).unwrap(),
            None => fs::remove_file(file).unwrap(),
        }
        let refused = block_on(log.archive_next(ever()));
        assert!(
            matches!(refused, Err(LedgerError::Damaged { .. })),
            "{refused:?}"
        );
        assert_eq!(scene.entries(), all);
    }
    fs::write(file, &written).unwrap();
    // The position was set back, so archived entries after it are not settled.
    let position = scene.number("SELECT seq FROM settled");
    scene.run("UPDATE settled SET seq = 5");
    let refused = block_on(log.archive_next(ever()));
    assert!(
        matches!(refused, Err(LedgerError::Damaged { .. })),
        "{refused:?}"
    );
    assert_eq!(scene.entries(), all);
    scene.run(&format!("UPDATE settled SET seq = {position}"));
    assert_eq!(block_on(log.archive_next(ever())), Ok(None));
    assert_eq!(scene.entries(), left);

    // The log has other entries or another campaign, so the archive belongs to another log.
    for other in [
        "UPDATE events SET at = at + 1 WHERE seq = 7",
        "UPDATE campaigns SET id = substr(id, 1, 35) || '1' WHERE ref = 1",
    ] {
        scene.engine.close();
        for name in ["qiang.db.replaced", "qiang.db.replaced-wal"] {
            drop(fs::remove_file(scene.path(name)));
        }
        restore(&copy, &scene.path("qiang.db"), REPLACE).unwrap();
        assert_eq!(scene.run(other), 1);
        scene.engine = open(&scene.path("qiang.db"), &scene.clock);
        let refused = block_on(scene.archives().archive_next(ever())).unwrap_err();
        assert!(
            refused.to_string().contains("is there already"),
            "{other}: {refused}"
        );
        assert_eq!(fs::read(file).unwrap(), written);
        assert_eq!(scene.entries(), all);
    }
}

/// A campaign with a refused entry is rebuilt from its log. The log stays in the file, or is read from archives if it
/// has left before.
#[test]
fn a_campaign_with_quarantined_entries_keeps_its_log() {
    let mut scene = Scene::new();
    let fixed = |n| years(red_packet(5_000, 500, SplitRule::Equal), n);
    let (one, other) = (scene.create(fixed(1)), scene.create(fixed(2)));
    let name = |n: u32| format!("u{n}");
    for n in 1..=10 {
        scene.grant(one.one(&name(n)));
        scene.grant(other.one(&name(n)));
    }
    scene.pass(31);
    assert_eq!(scene.archive().len(), 1);
    // After the archive, the ledger refuses a grant of one campaign.
    let hide = format!(
        "UPDATE shares SET number = number + 1000 WHERE number = 13 \
         AND campaign = (SELECT ref FROM campaigns WHERE id = '{}')",
        one.id
    );
    assert_eq!(scene.run(&hide), 1);
    for n in 11..=15 {
        scene.grant(one.one(&name(n)));
        scene.grant(other.one(&name(n)));
    }
    scene.settle();
    let count = block_on(scene.engine.count_quarantined(PARTITION)).unwrap();
    assert_eq!((count.refused, count.waiting), (1, 0));
    scene.pass(31);
    let archives = scene.archive();
    assert_eq!(archives[0].stretch.entries(), 10, "the archive has all");
    let campaigns = "SELECT count(DISTINCT campaign) FROM events";
    assert_eq!((scene.entries(), scene.number(campaigns)), (5, 1));

    scene.restart();
    for n in 1..=15 {
        for target in [one, other] {
            let again = scene.claim(target.one(&name(n)));
            assert!(
                matches!(again, Outcome::AlreadyGranted(_)),
                "{n}: {again:?}"
            );
        }
    }
    assert_eq!(scene.grant(one.one("u16")).number, 16);
    scene.settle();
    // Without the archives only that campaign cannot be read.
    let january = scene.path("qiang-2027-01.db");
    fs::rename(&january, scene.path("away")).unwrap();
    scene.restart();
    let refused = block_on(scene.engine.claim(one.one("u1"))).unwrap_err();
    assert!(
        refused.to_string().contains("qiang-2027-01.db"),
        "{refused}"
    );
    let again = scene.claim(other.one("u1"));
    assert!(matches!(again, Outcome::AlreadyGranted(_)), "{again:?}");
    fs::rename(scene.path("away"), &january).unwrap();
    let again = scene.claim(one.one("u1"));
    assert!(matches!(again, Outcome::AlreadyGranted(_)), "{again:?}");

    // Once the entry is settled, the campaign does not need its log.
    let mend = "UPDATE shares SET number = number - 1000 WHERE number > 1000";
    assert_eq!(scene.run(mend), 1);
    for row in block_on(scene.engine.list_quarantined(None, 10)).unwrap() {
        let redriven = block_on(scene.engine.redrive(PARTITION, row.entry.seq));
        assert_eq!(redriven, Ok(true));
    }
    assert_eq!(scene.archive(), []);
    assert_eq!(scene.entries(), 1, "the last user's");
    scene.audit();
}
