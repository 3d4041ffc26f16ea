//! Proof of commit and reveal: recomputes commitments and amounts from the seeds.

use qiang_core::{
    id::CampaignId,
    money::Currency,
    split::{
        ClientSeed, Commitment, SPLIT_VERSION, Seed, SeedParts, ServerSeed, Split, SplitRule,
        commit, lazy_amount,
    },
};
use rusqlite::{Connection, Row};

use super::{is_of_rows, report::CheckResult};

/// Number of checks in this file.
pub(super) const CHECKS: usize = 3;

/// Red packet, from its row.
struct SplitPacket {
    row: i64,
    parts: u16,
    split: Split,
    seed: Seed,
    commitment: Commitment,
    id: CampaignId,
    currency: Currency,
}

impl SplitPacket {
    fn committed(&self) -> Commitment {
        commit(self.id, self.currency, &self.seed, &self.split)
    }
}

/// Checks that each published commitment binds the packet's split, and that the shares or grants follow from the seed.
pub(super) fn checks(conn: &Connection, has_log: bool) -> rusqlite::Result<[CheckResult; CHECKS]> {
    let mut packets = Vec::new();
    let mut statement = conn.prepare(
        "SELECT ref, total, supply, split_rule, split_min, split_max, split_version, seed, commitment, \
         server_seed, client_seed, id, currency, parts FROM campaigns \
         WHERE kind = 'red_packet' ORDER BY ref",
    )?;
    let mut rows = statement.query([])?;
    let mut commitments = CheckResult::new("commitments", 0);
    while let Some(row) = rows.next()? {
        commitments.examine();
        if let Some(packet) = packet(row) {
            packets.push(packet);
        } else {
            let row: i64 = row.get("ref")?;
            commitments.offend(format!("campaign #{row}: its split is impossible"));
        }
    }

    for packet in &packets {
        if packet.commitment != packet.committed() {
            commitments.offend(format!(
                "campaign #{}: its commitment is to another split",
                packet.row
            ));
        }
    }

    let mut shares = CheckResult::new("shares_recomputed", 0);
    let mut draws = CheckResult::new("draws_recomputed", 0);
    for packet in &packets {
        let (check, recomputed) = match packet.split.rule() {
            // Parts of a spread packet may have moved money, so their draws cannot be recomputed.
            SplitRule::Lazy { .. } if packet.parts > 1 => (&mut draws, Ok(())),
            SplitRule::Lazy { min } => {
                let recomputed = recompute_draws(conn, has_log, packet, min, &mut draws);
                (&mut draws, recomputed)
            }
            _ => {
                let recomputed = recompute_shares(conn, packet, &mut shares);
                (&mut shares, recomputed)
            }
        };
        match recomputed {
            Err(error) if is_of_rows(&error) => {
                check.offend(format!(
                    "campaign #{}: cannot be computed: {error}",
                    packet.row
                ));
            }
            result => result?,
        }
    }
    Ok([commitments, shares, draws])
}

/// The packet, if its row is valid.
fn packet(row: &Row<'_>) -> Option<SplitPacket> {
    let (min, max) = (row.get("split_min").ok(), row.get("split_max").ok());
    let rule = match row.get::<_, String>("split_rule").ok()?.as_str() {
        "normal" => SplitRule::Normal {
            min: min?,
            max: max?,
        },
        "double_average" => SplitRule::DoubleAverage { min: min? },
        "equal" => SplitRule::Equal,
        "lazy" => SplitRule::Lazy { min: min? },
        _ => return None,
    };
    if row.get("split_version") != Ok(SPLIT_VERSION) {
        return None;
    }
    let seed = Seed::from_bytes(row.get("seed").ok()?);
    let (server_seed, client_seed): (Option<[u8; 32]>, Option<[u8; 32]>) =
        (row.get("server_seed").ok()?, row.get("client_seed").ok()?);
    // A seed of service and sender must follow from both contributions.
    let is_made = match (server_seed, client_seed) {
        (None, None) => true,
        (Some(server_seed), Some(client_seed)) => {
            let (server_seed, client_seed) = (
                ServerSeed::from_bytes(server_seed),
                ClientSeed::from_bytes(client_seed),
            );
            SeedParts {
                server_seed,
                client_seed,
            }
            .seed()
                == seed
        }
        _ => false,
    };
    if !is_made {
        return None;
    }
    Some(SplitPacket {
        row: row.get("ref").ok()?,
        parts: row.get("parts").ok()?,
        split: Split::new(row.get("total").ok()?, row.get("supply").ok()?, rule).ok()?,
        seed,
        commitment: Commitment::from_bytes(row.get("commitment").ok()?),
        id: row.get::<_, String>("id").ok()?.parse().ok()?,
        currency: row.get::<_, String>("currency").ok()?.parse().ok()?,
    })
}

/// Checks that the amounts made with the packet follow from the seed.
fn recompute_shares(
    conn: &Connection,
    packet: &SplitPacket,
    check: &mut CheckResult,
) -> rusqlite::Result<()> {
    let expected = packet.split.shares(&packet.seed);
    let mut statement = conn
        .prepare_cached("SELECT number, amount FROM shares WHERE campaign = ?1 ORDER BY number")?;
    let mut rows = statement.query([packet.row])?;
    while let Some(row) = rows.next()? {
        let (number, amount): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        let expected = usize::try_from(number - 1)
            .ok()
            .and_then(|at| expected.get(at).copied());
        check.examine();
        if amount != expected {
            check.offend(format!(
                "campaign #{}: share {number} has {amount:?}, and the seed gives {expected:?}",
                packet.row
            ));
        }
    }
    Ok(())
}

/// Checks that the amounts drawn at the claims follow from the seed, each from the remainder at that time.
fn recompute_draws(
    conn: &Connection,
    has_log: bool,
    packet: &SplitPacket,
    min: i64,
    check: &mut CheckResult,
) -> rusqlite::Result<()> {
    // Withheld money is not drawn from, and no record says between which draws it was withheld.
    let mut withheld =
        conn.prepare_cached("SELECT 1 FROM withheld WHERE campaign = ?1 AND units > 0")?;
    if withheld.exists([packet.row])? {
        return Ok(());
    }
    let mut left = packet.split.total();
    let mut to_come = packet.split.count();
    let mut statement = conn.prepare_cached(match has_log {
        true => {
            "SELECT number, amount FROM temp.log WHERE campaign = ?1 AND kind = 'granted' ORDER BY seq"
        }
        // Without a log, the numbers give the order.
        false => {
            "SELECT number, amount FROM shares WHERE campaign = ?1 AND user IS NOT NULL ORDER BY number"
        }
    })?;
    let mut rows = statement.query([packet.row])?;
    while let Some(row) = rows.next()? {
        let (number, amount): (u32, i64) = (row.get(0)?, row.get(1)?);
        let expected = lazy_amount(&packet.seed, u64::from(number), left, to_come, min);
        check.examine();
        if amount != expected {
            check.offend(format!(
                "campaign #{}: grant {number} has {amount}, and the seed gives {expected}",
                packet.row
            ));
        }
        left = left.saturating_sub(amount);
        to_come = to_come.saturating_sub(1);
    }
    Ok(())
}
