//! Sends files of red packets, one per line, many per request.

use std::{fs, path::Path};

use anyhow::bail;
use qiang::UsageError;
use qiang_client::{CreationResult, KeyedRedPacket, RedPacketResult};

use crate::service::Service;

/// Bounds of one request: packets, bytes, and the service's default bound of shares.
const PACKETS_MAX: usize = 100;
const BYTES_MAX: usize = 60_000;
const SHARES_MAX: u64 = 100_000;

/// Sends the packets of a file in order, and prints the result of each.
pub(crate) async fn send(from: &Path, service: &Service) -> anyhow::Result<()> {
    let (mut sent, mut refused) = (0, 0);
    for packets in batches(&read(from)?) {
        for result in service.client.create_red_packets(&packets).await? {
            sent += 1;
            refused += usize::from(result.result == CreationResult::Refused);
            service.print(&result, line)?;
        }
    }
    if refused > 0 {
        bail!(
            "{refused} of {sent} packets were refused; repeat the command to send only those again"
        );
    }
    Ok(())
}

/// Packets of a file, with the lengths of their lines in bytes.
fn read(from: &Path) -> anyhow::Result<Vec<(KeyedRedPacket, usize)>> {
    let file = from.display();
    let text = fs::read_to_string(from)
        .map_err(|error| UsageError::new(format!("cannot read {file}: {error}")))?;
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let parsed = lines.map(|(number, line)| {
        let packet = serde_json::from_str(line);
        let packet =
            packet.map_err(|error| UsageError::new(format!("{file}:{number}: {error}")))?;
        Ok((packet, line.len()))
    });
    let packets: Vec<_> = parsed.collect::<anyhow::Result<_>>()?;
    if packets.is_empty() {
        return Err(UsageError::new(format!("{file} contains no red packets")).into());
    }
    Ok(packets)
}

/// Splits packets into requests within the bounds, each with at least one packet.
fn batches(packets: &[(KeyedRedPacket, usize)]) -> Vec<Vec<KeyedRedPacket>> {
    let mut batches: Vec<Vec<KeyedRedPacket>> = Vec::new();
    let (mut bytes, mut shares) = (0, 0);
    for (packet, length) in packets {
        bytes += length;
        shares += u64::from(packet.red_packet.shares);
        let fits = bytes <= BYTES_MAX && shares <= SHARES_MAX;
        match batches.last_mut() {
            Some(batch) if fits && batch.len() < PACKETS_MAX => batch.push(packet.clone()),
            _ => {
                batches.push(vec![packet.clone()]);
                (bytes, shares) = (*length, packet.red_packet.shares.into());
            }
        }
    }
    batches
}

fn line(result: &RedPacketResult) -> String {
    let became = match (&result.red_packet, &result.problem) {
        (Some(packet), _) => packet.id.to_string(),
        (None, Some(problem)) => problem.to_string(),
        (None, None) => "-".to_owned(),
    };
    format!("{:<8}  {}  {became}", result.result, result.idempotency_key)
}
