//! Tests of the capacity model: sources of coefficients, points that were not fitted, and limits.

use super::{coefficients::ALL, *};
use crate::config::NodeConfig;

const RESULTS: &str = include_str!("../../../../docs/RESULTS.md");
const PAGE: &str = include_str!("../../../../docs/operate/capacity.md");

/// Section of the results with this heading, up to the next one.
fn section(heading: &str) -> &'static str {
    let begins = format!("\n## {heading}\n");
    let (_, rest) = RESULTS.split_once(&begins).expect(heading);
    rest.split("\n## ").next().unwrap_or(rest)
}

fn demand() -> CapacityDemand {
    CapacityDemand {
        engine: EngineKind::Redis,
        buyers_per_second: 0,
        stock: None,
        payments_per_second: 0,
        sign_ins_per_second: 0,
        watchers: 0,
        users: 0,
        new_connections_per_second: 0,
        tls: false,
        replicas: 0,
        aof: AofPolicy::No,
        ledger: LedgerStore::Postgres,
        orders_per_day: 1_000_000,
        cores_per_node: 2,
    }
}

fn value(demand: CapacityDemand, name: &str) -> f64 {
    CapacityPlan::new(demand).need(name).expect(name).value
}

#[test]
fn each_measured_coefficient_is_in_the_results() {
    for it in ALL {
        let CoefficientSource::Measured {
            section: heading,
            date,
            command,
            quote,
        } = it.source
        else {
            continue;
        };
        // Lines are wrapped in the page.
        let text = section(heading).split_whitespace().collect::<Vec<_>>();
        let text = text.join(" ");
        assert!(text.contains(quote), "{}: {heading} lacks {quote}", it.name);
        let program = command.trim_start_matches("qiang-bench ");
        let program = program.split_whitespace().next().expect("a command");
        assert!(
            text.contains(program),
            "{}: {heading} lacks {program}",
            it.name
        );
        assert!(text.contains(&date[5..]), "{}: {date}", it.name);
        let figure = model::grouped(it.value);
        let is_in = quote.contains(&figure) || quote.contains(&it.value.to_string());
        assert!(is_in, "{}: `{quote}` lacks {figure}", it.name);
    }
}

#[test]
fn configured_coefficients_are_the_defaults() {
    let config = NodeConfig::defaults().expect("the defaults are valid");
    for it in ALL {
        let CoefficientSource::Configured { key } = it.source else {
            continue;
        };
        let expected = match key {
            "server.connections_max" => f64::from(config.server.connections_max),
            "server.watchers_max" => config.server.watchers_max as f64,
            "settlement.lag_entries_max" => config.settlement.lag_entries_max as f64,
            "redis.retain_bytes" => config.redis.retain_bytes as f64,
            _ => panic!("{key} is not compared"),
        };
        assert!((it.value - expected).abs() < 0.5, "{key}: {expected}");
    }
}

/// A measurement from which no coefficient was made.
struct HeldOut {
    /// Text of the results that has it.
    quote: &'static str,
    measured: f64,
    modelled: f64,
    /// Row of the page: name of the point.
    name: &'static str,
}

/// Factor within which the model has to be.
const FACTOR: f64 = 1.35;

#[test]
fn points_that_were_not_fitted_are_near_the_model() {
    let batch = |waiting: f64| {
        let time = coefficients::COMMIT_US.value + coefficients::WRITER_GRANT_US.value * waiting;
        waiting / time * 1e6
    };
    // Client and node on the same two cores: the client costs 9 µs per request.
    let two_cores = |micros: f64| 2e6 / (micros + 9.0);
    let points = [
        HeldOut {
            name: "embedded engine, 20 claims waiting, grants/s",
            quote: "| 20 | 47,600 | 51,000 | −7 % |",
            measured: 51_000.0,
            modelled: batch(20.0),
        },
        HeldOut {
            name: "embedded engine, 200 claims waiting, grants/s",
            quote: "| 200 | 329,000 | 292,000 | +13 % |",
            measured: 292_000.0,
            modelled: batch(200.0),
        },
        HeldOut {
            name: "embedded engine, 8,192 claims waiting, grants/s",
            quote: "| 8,192 | 912,000 | 902,000 | +1 % |",
            measured: 902_000.0,
            modelled: batch(8_192.0),
        },
        HeldOut {
            name: "refusals of a node beside its client, per second",
            quote: "105,000 refusals/s; 106,000 were measured",
            measured: 106_000.0,
            modelled: two_cores(coefficients::REFUSAL_US.value),
        },
        HeldOut {
            name: "durable claims of a node beside its client, per second",
            quote: "91,000 claims/s; 78,000 were measured",
            measured: 78_000.0,
            modelled: two_cores(coefficients::EMBEDDED_CLAIM_US.value),
        },
        HeldOut {
            name: "claims on Redis that 400 streams watch, µs of the node each",
            quote: "With 400 streams that watch 1.73 times, 17.3 µs",
            measured: 17.3,
            modelled: coefficients::REDIS_CLAIM_US.value
                + 400.0 * coefficients::STREAM_US.value / 14_158.0,
        },
    ];
    let results = RESULTS.split_whitespace().collect::<Vec<_>>().join(" ");
    for point in points {
        let ratio = point.modelled / point.measured;
        println!(
            "{}: {}, model {:.1}, {ratio:.2}",
            point.name, point.measured, point.modelled
        );
        assert!(
            results.contains(point.quote),
            "the results lack {}",
            point.quote
        );
        let is_near = (1.0 / FACTOR..=FACTOR).contains(&ratio);
        assert!(is_near, "{}: {ratio}", point.name);
        let row = format!(
            "| {} | {} | {} | {ratio:.2} |",
            point.name,
            model::grouped(point.measured),
            model::grouped(point.modelled)
        );
        assert!(PAGE.contains(&row), "docs/operate/capacity.md lacks {row}");
    }
    assert!(
        PAGE.contains(&format!("factor of {FACTOR}")),
        "the page lacks the factor"
    );
}

#[test]
fn the_largest_need_decides_the_nodes() {
    let check = |change: fn(&mut CapacityDemand), expected: f64| {
        let mut demand = demand();
        change(&mut demand);
        let plan = CapacityPlan::new(demand);
        let nodes = plan.need("nodes").expect("nodes");
        assert!((nodes.value - expected).abs() < 0.1, "{nodes:?}");
    };
    check(|_| (), 2.0);
    check(|demand| demand.watchers = 100_000, 20.0);
    check(|demand| demand.users = 95_000, 10.0);
    // 10 µs each, at 60 % of a core.
    check(
        |demand| (demand.buyers_per_second, demand.stock) = (600_000, Some(0)),
        5.0,
    );
    check(
        |demand| (demand.engine, demand.watchers) = (EngineKind::Embedded, 100_000),
        1.0,
    );
}

#[test]
fn a_stock_bounds_the_grants() {
    let mut sold = demand();
    sold.buyers_per_second = 100_000;
    assert!((value(sold.clone(), "ledger-entries") - 100_000.0).abs() < 0.1);
    sold.stock = Some(1_000);
    assert!((value(sold.clone(), "ledger-entries") - 1_000.0).abs() < 0.1);
    sold.stock = Some(1_000_000);
    assert!((value(sold, "ledger-entries") - 100_000.0).abs() < 0.1);
}

#[test]
fn replicas_and_syncs_cost_more_redis() {
    let with = |replicas, aof| {
        let mut demand = demand();
        (demand.buyers_per_second, demand.replicas, demand.aof) = (300_000, replicas, aof);
        value(demand, "redis-cores")
    };
    let plain = with(0, AofPolicy::No);
    // 300,000 × 2 µs at 60 %.
    assert!((plain - 1.0).abs() < 1e-9, "{plain}");
    assert!(with(1, AofPolicy::No) > plain);
    assert!(with(0, AofPolicy::EverySec) > plain);
    assert!(with(0, AofPolicy::Always) > with(0, AofPolicy::EverySec));
    let mut demand = demand();
    (demand.buyers_per_second, demand.replicas) = (300_000, 2);
    let servers = value(demand, "redis-servers");
    assert!(servers >= 3.0 && servers % 3.0 == 0.0, "{servers}");
}

#[test]
fn one_embedded_node_has_its_limits() {
    let mut small = demand();
    small.engine = EngineKind::Embedded;
    small.buyers_per_second = 5_000;
    let plan = CapacityPlan::new(small);
    assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
    let commit = plan.need("commit-time").expect("a commit").value;
    assert!((0.399..0.41).contains(&commit), "{commit}");
    let mut large = demand();
    large.engine = EngineKind::Embedded;
    large.buyers_per_second = 2_000_000;
    let plan = CapacityPlan::new(large);
    let said = plan.warnings.join("\n");
    assert!(said.contains("one writer decides up to 859,599"), "{said}");
    assert!(said.contains("has one node, but"), "{said}");
    assert!(plan.need("commit-time").is_none());
}

#[test]
fn tls_costs_a_handshake_per_connection() {
    let with = |tls, connections| {
        let mut demand = demand();
        (demand.tls, demand.new_connections_per_second) = (tls, connections);
        demand.buyers_per_second = 1_000;
        value(demand, "node-cores")
    };
    assert!((with(false, 1_000) - with(false, 0)).abs() < 1e-9);
    let handshakes = with(true, 1_000) - with(true, 0);
    let expected = 1_000.0 * coefficients::TLS_HANDSHAKE_US.value / 1e6 / 0.6;
    assert!((handshakes - expected).abs() < 1e-9, "{handshakes}");
}

#[test]
fn numbers_are_grouped() {
    let check = |number, expected| assert_eq!(model::grouped(number), expected);
    check(0.0, "0");
    check(0.0123, "0.012");
    check(12.34, "12.3");
    check(999.6, "1,000");
    check(1_234_567.0, "1,234,567");
    check(100_000.0, "100,000");
}
