//! Whole lives of campaigns in a simulated world. Real parts are the book, settlement with its plans, the opening of
//! drafts, the close of claimed packets, and the eviction of idle campaigns. Users and sellers retry until they receive
//! an answer. Requests and replies are lost, the process dies, the power fails, and the clock jumps. An auditor that
//! shares no code with them recomputes the result.
//!
//! Everything follows from the seed. `QIANG_SEED` runs one seed.

mod judge;
mod people;
mod trouble;
mod world;

use qiang_testkit::simulation::Bug;
use world::{Ending, World};

/// Worlds of the ordinary run. `QIANG_WORLDS` sets another number.
const WORLDS: u64 = 20;
/// Maximum worlds until a planted bug must be found.
const WORLDS_WITH_BUG: u64 = 60;

fn run(seed: u64, bug: Option<Bug>) -> Ending {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(World::run(seed, bug))
}

#[test]
fn no_world_breaks_an_invariant() {
    let of = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().unwrap());
    let worlds = of("QIANG_WORLDS").unwrap_or(WORLDS);
    let seeds = of("QIANG_SEED").map_or(0..worlds, |seed| seed..seed + 1);
    let (mut all, count) = (world::Numbers::default(), seeds.clone().count() as u64);
    for seed in seeds {
        let ending = run(seed, None);
        let breaches = ending.breaches.join("\n");
        assert!(breaches.is_empty(), "QIANG_SEED={seed}: {breaches}");
        all.add(&ending.numbers);
    }
    let lives = count * world::CAMPAIGNS;
    println!("{lives} lives of campaigns in {count} worlds: {all:#?}");
    if count >= WORLDS {
        let faults = [all.requests_lost, all.replies_lost, all.ledger_lost];
        assert!(faults.iter().all(|lost| *lost > 100), "{faults:?}");
        let faults = [all.deaths, all.power_losses, all.jumps];
        assert!(faults.iter().all(|count| *count > 5), "{faults:?}");
        // A world has about ten orders, and a quarter of them expire: 30 to 70 are expected in 20 worlds.
        assert!(all.expired > 10, "{} orders have expired", all.expired);
        assert!(all.accepted > 5, "{} payments were accepted", all.accepted);
        let parts = all.parts_cancelled;
        assert!(parts > 5, "{parts} parts of orders were cancelled");
        let lives = [all.left, all.recalled, all.late_retries, all.seeds_shown];
        assert!(lives.iter().all(|count| *count > 50), "{lives:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..3 {
        assert_eq!(run(seed, None), run(seed, None));
    }
    assert_ne!(run(0, None).history, run(1, None).history);
}

/// Breaches in a world with a bug. The bug may also make the book panic, because its counts of units cannot be
/// negative.
fn breaches(seed: u64, bug: Bug) -> Vec<String> {
    let ending = std::panic::catch_unwind(|| run(seed, Some(bug)));
    let panicked = || vec!["the process has panicked".to_owned()];
    ending.map_or_else(|_| panicked(), |ending| ending.breaches)
}

/// Each bug is found in one of the first worlds, and is named.
#[test]
fn planted_bugs_are_found() {
    let mut missed = Vec::new();
    for (bug, word) in [
        (Bug::AnswersEarly, "grant"),
        (Bug::UnguardedClock, "dated by a jump of the clock"),
        (Bug::SettlesTwice, "other entries than the log"),
        (Bug::NoProbe, "grant"),
        (Bug::RetiresUnsettled, "has panicked"),
        (Bug::ForgetsDowntimes, "has not had its hold"),
        (Bug::ClosesEarly, "was closed early"),
        (Bug::ShowsSeedEarly, "whose seed was shown"),
        (Bug::KeepsAnotherSeed, "is not the one committed to"),
        (Bug::NeverExpires, "is still held"),
        (Bug::NeverRecalls, "asked again"),
    ] {
        let found = (0..WORLDS_WITH_BUG).find_map(|seed| {
            let mut breaches = breaches(seed, bug).into_iter();
            let breach = breaches.find(|breach| breach.contains(word));
            breach.map(|breach| (seed, breach))
        });
        let Some((seed, breach)) = found else {
            missed.push(bug);
            continue;
        };
        let lives = (seed + 1) * world::CAMPAIGNS;
        let breach: String = breach.chars().take(300).collect();
        println!("{bug:?} is found with seed {seed}, within {lives} lives: {breach}");
    }
    assert!(missed.is_empty(), "{missed:?} are not found");
}
