//! Golden values of version 1. Published commitments depend on them. If one of these tests fails, the algorithm has
//! changed and needs a new version. The expected values are never edited.

use qiang_core::{
    id::CampaignId,
    split::{
        ClientSeed, SPLIT_VERSION, Seed, SeedParts, ServerSeed, Split, SplitRule, commit,
        server_seed_hash,
    },
};

const PACKET: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";

fn check(total: i64, count: u32, rule: SplitRule, commitment: &str, shares: &[i64]) {
    assert_eq!(SPLIT_VERSION, 1);
    let seed = Seed::from_bytes(std::array::from_fn(|index| index as u8));
    let split = Split::new(total, count, rule).unwrap();
    assert_eq!(split.shares(&seed), shares, "{split:?}");
    let (packet, cny) = (PACKET.parse().unwrap(), "CNY".parse().unwrap());
    let committed = commit(packet, cny, &seed, &split);
    assert_eq!(committed.to_string(), commitment, "{split:?}");
}

#[test]
fn normal() {
    check(
        10_000,
        10,
        SplitRule::Normal {
            min: 500,
            max: 2000,
        },
        "85e043d5ad5b9c3b2bc01fd2c5da4a71b4a2ad0035f1d3bad8f989f652728557",
        &[863, 945, 985, 1104, 843, 1150, 821, 1177, 882, 1230],
    );
    check(
        10_007,
        10,
        SplitRule::Normal {
            min: 1,
            max: i64::MAX,
        },
        "e2a1e585adaa2a088a0d767b11de3e439c4597c499da27fa878ccc4b7ed85114",
        &[1282, 609, 1187, 1026, 1470, 872, 697, 1081, 572, 1211],
    );
    check(
        17,
        10,
        SplitRule::Normal { min: 1, max: 3 },
        "3a25233270c730fd70c753250b49c549b9b64fe7da2669260c0ab5eaab338b23",
        &[1, 1, 3, 2, 3, 2, 1, 2, 1, 1],
    );
    check(
        i64::MAX,
        4,
        SplitRule::Normal {
            min: 1,
            max: i64::MAX,
        },
        "d81149aa1ac551f5e2c40918c9521f2d79dbd772204afa28b474c82fbe0156bc",
        &[
            2477540025212212103,
            2255049828811953620,
            2672329671832201225,
            1818452510998408859,
        ],
    );
}

/// Bounds that no share can reach with this total.
#[test]
fn normal_tightened() {
    check(
        10_009,
        40,
        SplitRule::Normal {
            min: 200,
            max: 1_000_000,
        },
        "a004ed7f1f4b2a58ce3999032fab7a12756aece5cffe64c1b90e47df6fc742f1",
        &[
            264, 273, 239, 239, 242, 253, 221, 243, 252, 256, 256, 237, 257, 277, 223, 274, 253,
            263, 227, 249, 268, 261, 231, 234, 250, 272, 252, 248, 240, 263, 247, 240, 232, 257,
            252, 246, 257, 263, 255, 243,
        ],
    );
    check(
        109,
        10,
        SplitRule::Normal { min: 1, max: 11 },
        "dcbd82faecb064225a12863a617c81ded088e9290a10308ea93211289533858a",
        &[10, 11, 11, 11, 11, 11, 11, 11, 11, 11],
    );
}

#[test]
fn double_average() {
    check(
        10_000,
        10,
        SplitRule::DoubleAverage { min: 1 },
        "bd2105f0fd11ced4db6e4fbcbb415c2626057a6279e86ad526d223e02bdcdbf8",
        &[1368, 2388, 829, 105, 826, 584, 395, 1089, 1191, 1225],
    );
    check(
        17,
        10,
        SplitRule::DoubleAverage { min: 1 },
        "e68ae6144d67b1d91a28ceb0271e7e9928801dc6291ce69e6e80849d6dd31ce5",
        &[2, 3, 3, 1, 1, 1, 2, 2, 1, 1],
    );
    check(
        i64::MAX,
        4,
        SplitRule::DoubleAverage { min: 1 },
        "4e6690c9df93f64c09cffe62988c0a5d6da8baba518894d10c2ec4b3faecf869",
        &[
            1719823315232140306,
            3522172421469969448,
            2661057250684127330,
            1320319049468538723,
        ],
    );
}

#[test]
fn equal() {
    check(
        10_000,
        10,
        SplitRule::Equal,
        "0f55c531b0cc70ed183c83328ec732b39ce7dfe24edb65d15b0a09754e2fd089",
        &[1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000],
    );
    check(
        10_003,
        10,
        SplitRule::Equal,
        "1a3f4f182529bf5bcfa6d5125ebc8c5551593a3288ee189b2d09b8eeeab5dcad",
        &[1000, 1000, 1000, 1001, 1001, 1000, 1000, 1000, 1001, 1000],
    );
}

#[test]
fn lazy() {
    check(
        10_000,
        10,
        SplitRule::Lazy { min: 1 },
        "acc3b6f24826383d26986ba2c645576431ff231c8157b6e813687f2e2cb12df6",
        &[1075, 51, 112, 1163, 1858, 2043, 367, 1702, 1346, 283],
    );
    check(
        i64::MAX,
        4,
        SplitRule::Lazy { min: 500 },
        "a6fa6d4bbca0d9dba836dbbcb1cb5647933c2ef4fce8ca6c0ce355cc42fc89f0",
        &[
            4043027142824186671,
            321684520602057960,
            2977644713344242306,
            1881015660084288870,
        ],
    );
}

/// A commitment binds the packet. Its seed may come from service and sender.
#[test]
fn what_a_packet_commits_to() {
    let id = |text: &str| text.parse::<CampaignId>().unwrap();
    let packet = id(PACKET);
    let server_seed = ServerSeed::from_bytes(std::array::from_fn(|index| index as u8));
    let client_seed = ClientSeed::from_bytes(std::array::from_fn(|index| 0xff - index as u8));
    assert_eq!(
        server_seed_hash(packet, &server_seed).to_string(),
        "b50ad7a0c71f1b8068b6c633cedf514b4e4d9674f6e6d952191465883e6ac164"
    );
    let seed = SeedParts {
        server_seed: server_seed.clone(),
        client_seed,
    }
    .seed();
    assert_eq!(
        seed.to_string(),
        "ac952f3e1412836d4b6259d3f7eb1547371ea5ebf8669f33b3c03bdf8122a6ff"
    );
    let rule = SplitRule::Normal {
        min: 500,
        max: 2000,
    };
    let split = Split::new(10_000, 10, rule).unwrap();
    let (cny, usd) = ("CNY".parse().unwrap(), "USD".parse().unwrap());
    let commitment = commit(packet, cny, &seed, &split);
    assert_eq!(
        commitment.to_string(),
        "864e69af4743001275501a7ee0abdcfe6d59b678052f6186f35965484b2034ab"
    );

    // Any changed input changes the hash.
    let other = id("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f81");
    let lazy = Split::new(10_000, 10, SplitRule::Lazy { min: 500 }).unwrap();
    let double = Split::new(10_000, 10, SplitRule::DoubleAverage { min: 500 }).unwrap();
    let other_seed = Seed::from_bytes([0; 32]);
    for differs in [
        commit(other, cny, &seed, &split),
        commit(packet, usd, &seed, &split),
        commit(packet, cny, &other_seed, &split),
        commit(packet, cny, &seed, &lazy),
        commit(packet, cny, &seed, &double),
    ] {
        assert_ne!(differs, commitment);
    }
    assert_ne!(
        server_seed_hash(other, &server_seed),
        server_seed_hash(packet, &server_seed)
    );
    let client_seed = ClientSeed::from_bytes([0; 32]);
    assert_ne!(
        SeedParts {
            server_seed,
            client_seed
        }
        .seed(),
        seed
    );
}
