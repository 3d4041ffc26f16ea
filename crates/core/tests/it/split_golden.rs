//! The values of version 1. Published commitments rest on them: when one of these tests fails, the algorithm has
//! changed and needs a new version; the expected values here are never edited.

use qiang_core::{
    id::CampaignId,
    split::{
        Entropy, Parts, SPLIT_VERSION, Secret, Seed, Split, SplitRule, commit, commit_to, promise,
    },
};

fn check(total: i64, count: u32, rule: SplitRule, commitment: &str, shares: &[i64]) {
    assert_eq!(SPLIT_VERSION, 1);
    let seed = Seed::from_bytes(std::array::from_fn(|index| index as u8));
    let split = Split::new(total, count, rule).unwrap();
    assert_eq!(split.shares(&seed), shares, "{split:?}");
    assert_eq!(commit(&seed, &split).to_string(), commitment, "{split:?}");
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
        "f65d9e5aebfc9009a931d599e2be5c5f1a1d816249108162149c58870196d0ed",
        &[863, 945, 985, 1104, 843, 1150, 821, 1177, 882, 1230],
    );
    check(
        10_007,
        10,
        SplitRule::Normal {
            min: 1,
            max: i64::MAX,
        },
        "dd491c4cf424c001819ddeaa4e5555044bc40342ce17e9301e9b79d7a5127712",
        &[1282, 609, 1187, 1026, 1470, 872, 697, 1081, 572, 1211],
    );
    check(
        17,
        10,
        SplitRule::Normal { min: 1, max: 3 },
        "e4f6c9c5b639a30743e8f51bed1462e5976144eba14918eb1186954137fd05d7",
        &[1, 1, 3, 2, 3, 2, 1, 2, 1, 1],
    );
    check(
        i64::MAX,
        4,
        SplitRule::Normal {
            min: 1,
            max: i64::MAX,
        },
        "0d4ae6aa3ce4018bb3b14c722e54a17371a9d2a4a6392c1a05dbf8cfa6b0cbf5",
        &[
            2477540025212212103,
            2255049828811953620,
            2672329671832201225,
            1818452510998408859,
        ],
    );
}

/// Bounds that the total does not let anybody reach.
#[test]
fn normal_tightened() {
    check(
        10_009,
        40,
        SplitRule::Normal {
            min: 200,
            max: 1_000_000,
        },
        "efb27e3742efcd43b025dd204cb3d0f5047e27e6c57623b8096ef9530dd8ce5f",
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
        "2ac9b07ea8e883c9362aba2127d681d1a92d1e9174d403734d039975be2ac562",
        &[10, 11, 11, 11, 11, 11, 11, 11, 11, 11],
    );
}

#[test]
fn double_average() {
    check(
        10_000,
        10,
        SplitRule::DoubleAverage { min: 1 },
        "a044ac9c3bad8cbfa51b79a95d381005bf78077045a49ca78643dd1c0127577c",
        &[1368, 2388, 829, 105, 826, 584, 395, 1089, 1191, 1225],
    );
    check(
        17,
        10,
        SplitRule::DoubleAverage { min: 1 },
        "489c19ccef705f39f48f4ae8160b785a2dfd96f9fef8fabd6f4353fa8a15b2b9",
        &[2, 3, 3, 1, 1, 1, 2, 2, 1, 1],
    );
    check(
        i64::MAX,
        4,
        SplitRule::DoubleAverage { min: 1 },
        "8296f34c73d408a61e6d5ff5391be4835b0084f5a388306687c861691d5ccf44",
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
        "67dc453370a5f2e89f0c93e1a5f6164977e222e4097a43f211501e27092e00ca",
        &[1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000],
    );
    check(
        10_003,
        10,
        SplitRule::Equal,
        "9990302ad0f26c90e2147de78aca4294675cb82fb85aeeb189ac6ee140f42899",
        &[1000, 1000, 1000, 1001, 1001, 1000, 1000, 1000, 1001, 1000],
    );
}

#[test]
fn lazy() {
    check(
        10_000,
        10,
        SplitRule::Lazy { min: 1 },
        "f4403d1dd2ec3926c4b7283dfcd2944c0397cec0d83406f02e32181b0b92b6cd",
        &[1075, 51, 112, 1163, 1858, 2043, 367, 1702, 1346, 283],
    );
    check(
        i64::MAX,
        4,
        SplitRule::Lazy { min: 500 },
        "b178fd28b27c634ed4467023b26bc75e7a736c4cef00a12e9e7c779ba05df090",
        &[
            4043027142824186671,
            321684520602057960,
            2977644713344242306,
            1881015660084288870,
        ],
    );
}

/// The second version binds the packet, too; its seed may be made by service and sender.
#[test]
fn what_a_packet_commits_to() {
    let id = |text: &str| text.parse::<CampaignId>().unwrap();
    let packet = id("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80");
    let secret = Secret::from_bytes(std::array::from_fn(|index| index as u8));
    let entropy = Entropy::from_bytes(std::array::from_fn(|index| 0xff - index as u8));
    assert_eq!(
        promise(packet, &secret).to_string(),
        "b50ad7a0c71f1b8068b6c633cedf514b4e4d9674f6e6d952191465883e6ac164"
    );
    let seed = Parts {
        secret: secret.clone(),
        entropy,
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
    let commitment = commit_to(packet, cny, &seed, &split);
    assert_eq!(
        commitment.to_string(),
        "0fa8be17af0d23b4a06cd8a8bb2b856c47346c7f8d0263e648995a6a9ef3a4c9"
    );

    // Whatever is another, the hash is.
    let other = id("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f81");
    let lazy = Split::new(10_000, 10, SplitRule::Lazy { min: 500 }).unwrap();
    let double = Split::new(10_000, 10, SplitRule::DoubleAverage { min: 500 }).unwrap();
    let other_seed = Seed::from_bytes([0; 32]);
    for differs in [
        commit(&seed, &split),
        commit_to(other, cny, &seed, &split),
        commit_to(packet, usd, &seed, &split),
        commit_to(packet, cny, &other_seed, &split),
        commit_to(packet, cny, &seed, &lazy),
        commit_to(packet, cny, &seed, &double),
    ] {
        assert_ne!(differs, commitment);
    }
    assert_ne!(promise(other, &secret), promise(packet, &secret));
    let entropy = Entropy::from_bytes([0; 32]);
    assert_ne!(Parts { secret, entropy }.seed(), seed);
}
