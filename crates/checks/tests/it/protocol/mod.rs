//! Model of a partition's protocol, checked exhaustively by a model checker within small bounds.
//!
//! It covers nodes, a primary and a replica, failovers that lose a suffix of the log, and late packets. It also covers
//! call numbers and kept replies, terms, settlement, repair, and transfers between partitions. Each fault that the
//! protocol must prevent is planted in turn, and the checker must find it. Run with `--nocapture` to see the number of
//! states and the depth.

mod partition;
mod rules;
mod transfers;

use partition::{Bounds, PartitionModel};
use rules::Rules;
use stateright::{Checker, Model};
use transfers::TransferModel;

/// Checks a model completely. If a fault is planted, the named properties must be violated; otherwise none may be.
fn check<M>(name: &str, model: M, broken: &[&str])
where
    M: Model + Send + Sync + 'static,
    M::State: std::hash::Hash + std::fmt::Debug + Clone + PartialEq + Send + Sync,
    M::Action: std::fmt::Debug + Clone + PartialEq + Send + Sync,
{
    let started = std::time::Instant::now();
    let always: Vec<&str> = model
        .properties()
        .iter()
        .filter(|property| property.expectation == stateright::Expectation::Always)
        .map(|property| property.name)
        .collect();
    let checker = model.checker().spawn_bfs().join();
    let discoveries = checker.discoveries();
    println!(
        "{name}: {} states, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f64()
    );
    for property in always {
        let found = discoveries.get(property);
        if let Some(path) = found {
            println!(
                "{name}: `{property}` is broken by {:?}",
                path.clone().into_actions()
            );
        }
        let expected = broken.contains(&property);
        assert!(
            found.is_some() == expected || found.is_some() && !broken.is_empty(),
            "{name}: {property}"
        );
    }
    if broken.is_empty() {
        // The model must also make progress: states that should be reachable are reached.
        checker.assert_properties();
    }
}

#[test]
fn nothing_is_granted_twice_whatever_fails() {
    check(
        "one failover",
        PartitionModel::new(Rules::SOUND, Bounds::ONE_FAILOVER),
        &[],
    );
}

#[test]
fn nothing_is_granted_twice_over_two_failovers() {
    check(
        "two failovers",
        PartitionModel::new(Rules::SOUND, Bounds::TWO_FAILOVERS),
        &[],
    );
}

/// A call is fenced only by the length of the log. After a failover that lost an entry, another node may have made the
/// log as long as before.
#[test]
fn lengths_are_no_fence() {
    let rules = Rules {
        terms: false,
        ..Rules::SOUND
    };
    check(
        "lengths",
        PartitionModel::new(rules, Bounds::ONE_FAILOVER),
        &[partition::ONE_USER_A_SHARE],
    );
}

/// A new term grants before all nodes have reported their observations.
#[test]
fn a_term_waits_for_its_nodes() {
    let rules = Rules {
        gathering: false,
        ..Rules::SOUND
    };
    check(
        "no gathering",
        PartitionModel::new(rules, Bounds::ONE_FAILOVER),
        &[partition::ONE_USER_A_SHARE],
    );
}

/// A node trusts any server that answers. Then an isolated primary looks like a loss.
#[test]
fn reads_of_a_stale_primary_halt_nobody() {
    let rules = Rules {
        fenced_reads: false,
        ..Rules::SOUND
    };
    check(
        "unfenced reads",
        PartitionModel::new(rules, Bounds::ONE_FAILOVER),
        &[partition::HALTED_FOR_A_LOSS],
    );
}

/// A call that is sent again is carried out again.
#[test]
fn calls_are_carried_out_once() {
    let rules = Rules {
        kept_replies: false,
        ..Rules::SOUND
    };
    check(
        "no kept replies",
        PartitionModel::new(rules, Bounds::CALLS),
        &[partition::ONE_GRANT_A_CALL],
    );
}

/// A repair starts while a node may still send an answer from an earlier term.
#[test]
fn a_repair_waits_for_all_nodes() {
    let rules = Rules {
        repair_waits: false,
        ..Rules::SOUND
    };
    check(
        "hasty repair",
        PartitionModel::new(rules, Bounds::ONE_FAILOVER),
        &[partition::ONE_USER_A_SHARE],
    );
}

#[test]
fn nothing_is_granted_twice_if_a_repair_is_done_again() {
    check(
        "two repairs",
        PartitionModel::new(Rules::SOUND, Bounds::TWO_REPAIRS),
        &[],
    );
}

/// A failover during a repair goes unnoticed, and a server continues without the repaired data.
#[test]
fn a_repair_ends_where_it_has_written() {
    let rules = Rules {
        repair_fenced: false,
        ..Rules::SOUND
    };
    check(
        "unfenced repair",
        PartitionModel::new(rules, Bounds::TWO_FAILOVERS),
        &[partition::ONE_USER_A_SHARE],
    );
}

/// A repair neither restores the nodes' answers nor withholds units of unknown entries.
#[test]
fn a_repair_withholds() {
    let rules = Rules {
        repair_from_answers: false,
        withhold: false,
        ..Rules::SOUND
    };
    check(
        "repair without withholding",
        PartitionModel::new(rules, Bounds::ONE_FAILOVER),
        &[partition::ONE_USER_A_SHARE, partition::A_RETRY_IS_A_REPLAY],
    );
}

#[test]
fn transfers_conserve_units() {
    check("transfers", TransferModel::SOUND, &[]);
}

/// A repair trusts only its own shard's memory, so units that were sent away exist again.
#[test]
fn a_repair_looks_at_the_other_parts() {
    let model = TransferModel {
        counts_others: false,
        ..TransferModel::SOUND
    };
    let broken = [transfers::NO_OVERSELL, transfers::NOTHING_VANISHES];
    check("repair of one part for itself", model, &broken);
}

/// A transfer that started before a repair arrives after it.
#[test]
fn a_repair_shuts_late_transfers_out() {
    let model = TransferModel {
        shuts_out: false,
        ..TransferModel::SOUND
    };
    let broken = [transfers::NO_OVERSELL, transfers::NOTHING_VANISHES];
    check("late transfers", model, &broken);
}

/// A transfer changes the stocks without a log entry, so the fence misses a failover that undoes it.
#[test]
fn transfers_outside_the_log_are_not_fenced() {
    check(
        "unlogged transfers",
        TransferModel {
            logged: false,
            ..TransferModel::SOUND
        },
        &[transfers::NO_OVERSELL, transfers::NOTHING_VANISHES],
    );
}
