//! Tests of admission, waiting and refusal, with a controlled clock.

use qiang_core::{
    book::Claim,
    campaign::{AckLevel, CampaignKind},
    fair_share::OwnerDigest,
    id::{CampaignId, UserId},
    ports::{Claimed, PendingReply},
    time::{Timestamp, Window},
};
use uuid::Uuid;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A room of a sale that admits three users for two units, and the time of its creation.
fn room() -> (SaleAdmission, Instant) {
    let starts = Timestamp::from_millis(0);
    let bits = 1 | (0x7 << 76) | (0x2 << 62);
    let meta = Arc::new(CachedCampaign {
        id: CampaignId::new(Uuid::from_u128(bits)).expect("the version is 7"),
        owner: OwnerDigest::of(&UserId::new("owner").expect("a user id")),
        kind: CampaignKind::Sale,
        origin: starts,
        window: Window::new(starts, starts.plus_millis(1)).expect("a window"),
        limit: 1,
        hold_ms: 1,
        parts: 1,
        ack: AckLevel::Memory,
        admission: Some(AdmissionRatio::DEFAULT),
    });
    let (signal, now) = (Arc::new(AdmissionSignal::new(1)), Instant::now());
    let home = PartitionId(0);
    (
        SaleAdmission::new((&meta, home), AdmissionRatio::DEFAULT, &signal, now),
        now,
    )
}

/// Adds claims of these users. Returns the claims that may proceed at once, and the tickets of all.
fn enter(
    room: &mut SaleAdmission,
    users: std::ops::Range<usize>,
    now: Instant,
) -> (Vec<PendingClaim>, Vec<PendingReply<Claimed>>) {
    let (mut claims, mut tickets) = (Vec::new(), Vec::new());
    for n in users {
        let (answer, ticket) = PendingReply::new();
        claims.push(PendingClaim {
            claim: Claim {
                campaign: room.meta.id,
                kind: CampaignKind::Sale,
                user: UserId::new(&format!("user-{n}")).expect("a good id"),
                quantity: 1,
                key: None,
            },
            answer,
            since_ms: 0,
            admission: Admission::Asked,
            recalls: 0,
        });
        tickets.push(ticket);
    }
    (room.enter(claims, now), tickets)
}

/// Redis replies at once with no block and the number of units that are left.
fn no_block(room: &mut SaleAdmission, left: u64, asked_at: Instant) {
    let block = Block {
        users: 0,
        left,
        grants: 0,
        ratio: Some(AdmissionRatio::DEFAULT),
    };
    room.leased(asked_at, Some(block), asked_at);
}

fn waiting(room: &SaleAdmission) -> usize {
    assert_eq!(room.signal.waiting(), room.waiting.len());
    room.waiting.len()
}

/// Other nodes hold all permits, without an end.
#[test]
fn nobody_is_turned_away_while_fewer_ask_than_are_admitted() {
    let (mut room, t0) = room();
    let (mut on_the_way, _tickets) = enter(&mut room, 0..150, t0);
    assert_eq!(on_the_way.len(), 1);
    for at in [10, 500, 999] {
        let now = t0 + at * MS;
        no_block(&mut room, 100, now);
        assert_eq!(room.admit(now, usize::MAX).len(), 0);
        assert_eq!(room.turn_away(now).len(), 0);
    }
    let now = t0 + TURNED_AWAY_AFTER;
    no_block(&mut room, 100, now);
    assert_eq!(room.turn_away(now).len(), 0);
    let now = t0 + GOES_AFTER;
    no_block(&mut room, 100, now);
    on_the_way.extend(room.admit(now, usize::MAX));
    assert_eq!((on_the_way.len(), waiting(&room)), (150, 0));
}

/// Claims after as many users as the sale admits are refused, in order of arrival.
#[test]
fn who_waits_behind_all_who_are_admitted_is_turned_away() {
    let (mut room, t0) = room();
    let (on_the_way, _tickets) = enter(&mut room, 0..40, t0);
    // Half of them click again, and some have left.
    let _again = enter(&mut room, 1..20, t0);
    let (_, gone) = enter(&mut room, 40..60, t0);
    drop(gone);
    let now = t0 + TURNED_AWAY_AFTER;
    no_block(&mut room, 26, now);
    assert_eq!(room.turn_away(now).len(), 0, "39 users wait for 39 permits");
    no_block(&mut room, 20, now);
    let away = room.turn_away(now);
    let names: Vec<_> = away.iter().map(|away| away.claim.user.as_str()).collect();
    let last: Vec<_> = (31..40).map(|n| format!("user-{n}")).collect();
    assert_eq!(names, last, "30 permits");
    assert_eq!(waiting(&room), 30 + 19);
    drop(on_the_way);
    assert_eq!(room.admit(now, usize::MAX).len(), 30 + 19);
}

/// A reply from before a restock, or an old one, refuses no claim. Nor does a reply refuse claims that arrived after
/// its request.
#[test]
fn an_old_answer_turns_nobody_away() {
    let (mut room, t0) = room();
    let (_on_the_way, _tickets) = enter(&mut room, 0..40, t0);
    let overdue = t0 + TURNED_AWAY_AFTER;
    no_block(&mut room, 10, overdue);
    room.reopen(overdue + MS);
    assert_eq!(room.turn_away(overdue + MS).len(), 0);
    no_block(&mut room, 10, overdue + 2 * MS);
    let late = overdue + 2 * MS + LEFT_LASTS;
    assert_eq!(room.turn_away(late).len(), 0);
    assert_eq!(room.turn_away(late - MS).len(), 24);
    // The request preceded the claims, and the answer was late.
    let (mut room, t0) = self::room();
    let (_on_the_way, _tickets) = enter(&mut room, 0..40, t0 + 2 * MS);
    let block = Block {
        users: 0,
        left: 10,
        grants: 0,
        ratio: Some(AdmissionRatio::DEFAULT),
    };
    let overdue = t0 + 2 * MS + TURNED_AWAY_AFTER;
    room.leased(t0 + MS, Some(block), overdue);
    assert_eq!(room.turn_away(overdue).len(), 0);
}

/// Redis reports that no units are left, and the gate knows nothing: waiting claims proceed to receive the answer.
#[test]
fn who_waits_for_a_gate_that_is_late_hears_from_redis() {
    let (mut room, t0) = room();
    let (first, _tickets) = enter(&mut room, 0..1_000, t0);
    room.granted(1, 0, t0 + MS);
    drop(first);
    assert_eq!(room.admit(t0 + 2 * MS, usize::MAX).len(), 0);
    let now = t0 + GOES_AFTER;
    no_block(&mut room, 0, now);
    let heard = room.admit(now, usize::MAX);
    assert_eq!((heard.len(), room.turn_away(now).len()), (BATCH_MAX, 0));
    drop(heard);
    assert_eq!(room.admit(now, usize::MAX).len(), 999 - BATCH_MAX);
}

/// With much stock, some users proceed without a block. A block that arrives late is still used.
#[test]
fn where_there_is_plenty_a_few_go_without_a_block() {
    let (mut room, t0) = room();
    let (first, _ticket) = enter(&mut room, 0..1, t0);
    room.granted(1, 64_000, t0 + MS);
    drop(first);
    let (go, _tickets) = enter(&mut room, 1..2_001, t0 + 2 * MS);
    assert_eq!(go.len(), 1_500);
    let now = t0 + 3 * MS;
    assert_eq!(room.ask(now), Some(2_000));
    assert_eq!(room.ask(now), None, "it was asked for");
    let (users, left, grants) = (2_000, 64_000, 1);
    let block = Block {
        users,
        left,
        grants,
        ratio: Some(AdmissionRatio::DEFAULT),
    };
    let late = now + 2 * BLOCK_LASTS;
    room.leased(now, Some(block), late);
    assert_eq!(room.admit(late, usize::MAX).len(), 500);
}

/// Redis reports the ratio with each block. Until then, the ratio of the room's creation counts.
#[test]
fn ratio_of_last_lease_counts() {
    let (mut room, t0) = room();
    let left = RemainingUnits {
        units: 10,
        answered_at: t0,
    };
    assert_eq!(room.admitted(left), 15);
    for (percent, admitted) in [(300, 30), (100, 10), (0, usize::MAX)] {
        let text = format!("0 10 0 {percent}");
        room.leased(t0, Block::parse(&text), t0);
        assert_eq!(room.admitted(left), admitted, "{percent}");
    }
    // A missing answer changes nothing.
    room.leased(t0, None, t0);
    assert_eq!(room.admitted(left), usize::MAX);
}

/// The room is empty, no request is in flight, and no report is recent.
#[test]
fn a_room_that_nobody_asks_for_is_over() {
    let (mut room, t0) = room();
    let (go, _tickets) = enter(&mut room, 0..1, t0);
    assert!(!room.is_over(t0 + 2 * LEFT_LASTS));
    room.granted(1, 5, t0 + MS);
    drop(go);
    assert!(!room.is_over(t0 + 2 * MS));
    assert!(room.is_over(t0 + 2 * LEFT_LASTS));
}
