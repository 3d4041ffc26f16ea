//! Eviction of campaigns from a book, and their reload.

use super::*;

/// Asserts that the entries of a tick follow from the counters and the oldest held orders alone.
pub(super) fn excerpt_ticks_as_the_book_does(fixture: &Fixture, setup: &Setup, events_max: usize) {
    let (id, now) = (setup.campaign.id, at(fixture.now));
    let mut whole = Book::new();
    whole.restore(setup.clone());
    for entry in &fixture.log {
        whole.replay(entry);
    }
    let state = &whole.campaigns[&id];
    let mut campaign = setup.campaign.clone();
    campaign.window = state.window;
    if let Some(sale) = state.offer.sale() {
        campaign.rules = Rules::Sale(*sale);
    }
    let tally = state.tally_at(now);
    let stored = StoredCampaign {
        standing: CampaignCounters {
            phase: state.phase,
            granted: state.granted,
            returned: state.returned,
            refunded_minor: state.refunded_minor,
        },
        escrow_minor: tally.remaining_minor,
        last_number: state.grants.next_number() - 1,
        skipped: &[],
    };
    let orders = (1..state.grants.next_number()).filter_map(|number| state.order(number));
    let is_held =
        |view: &OrderView| view.grant.order.map(|order| order.state) == Some(OrderState::Held);
    let is_longer = |view: &OrderView| view.grant.order.is_some_and(|it| it.extension_ms > 0);
    let (mut held, others): (Vec<_>, Vec<_>) = orders.filter(is_held).partition(is_longer);
    held.extend(others.into_iter().take(events_max + 1));
    held.sort_by_key(|view| view.grant.number);
    let numbers: Vec<_> = held.iter().map(|view| view.grant.number).collect();
    let mut excerpt = Excerpt::new(campaign, &numbers);
    for view in &held {
        let former = FormerGrant {
            number: view.grant.number,
            user: &view.user,
            quantity: view.grant.quantity,
            amount_minor: view.grant.amount_minor,
            granted_at: view.grant.granted_at,
            key: None,
            state: OrderState::Held,
            returned: 0,
            cancelled: 0,
            extension_ms: view.grant.order.map_or(0, |order| order.extension_ms),
        };
        excerpt.add(&former).unwrap();
    }
    let excerpt = excerpt.finish(&stored).unwrap();
    let mut absent = Book::new();
    absent.begin_at(whole.head());
    absent.expect(at(0), id);
    let (mut expected, mut entries) = (Vec::new(), Vec::new());
    absent.tick_absent(now, excerpt, events_max, &mut entries);
    whole.tick(now, events_max, &mut expected);
    assert_eq!(entries, expected);
    assert_eq!(absent.head(), whole.head());
    assert!(!absent.has(id));
    let next_due = whole.due_of(id);
    assert!(absent.agenda.due.iter().map(|(due, _)| *due).eq(next_due));
}

/// Rows that were read before a campaign was ticked outside the book lack the entries of that tick.
#[test]
fn rows_read_before_a_tick_of_an_absent_campaign_are_read_again() {
    let [ticked, other] = [sale(1, 5, 1), sale(2, 5, 1)];
    let mut book = Book::new();
    book.begin_at(7);
    let scheduled = CampaignCounters {
        phase: Phase::Scheduled,
        granted: 0,
        returned: 0,
        refunded_minor: 0,
    };
    let stored = StoredCampaign {
        standing: scheduled,
        escrow_minor: 0,
        last_number: 0,
        skipped: &[],
    };
    let excerpt = || {
        let excerpt = Excerpt::new(ticked.campaign.clone(), &[]);
        excerpt.finish(&stored).unwrap()
    };
    let read = |setup: &Setup, standing, upto| {
        let read = CampaignSnapshot::opened(setup.clone(), standing, upto);
        read.finish().unwrap()
    };
    let mut entries = Vec::new();
    book.tick_absent(at(END - 1), excerpt(), 10, &mut entries);
    assert_eq!(entries, [], "nothing is due");
    assert_eq!(book.next_due(), Some(at(END)));
    book.tick_absent(at(END), excerpt(), 10, &mut entries);
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!((book.head(), book.next_due()), (9, None));
    let now = at(END);
    assert!(!book.recall(now, read(&ticked, scheduled, 8)));
    assert!(book.recall(now, read(&other, scheduled, 7)));
    let closed = CampaignCounters {
        phase: Phase::Closed,
        returned: 5,
        ..scheduled
    };
    assert!(book.recall(now, read(&ticked, closed, 9)));
    assert!(book.absent_last.is_empty());
}

/// Rows that were read before a campaign was last in the book lack its changes since then.
#[test]
fn what_was_read_too_early_is_read_again() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let id = setup.campaign.id;
    let Outcome::Granted(grant) = fixture.claim(&setup, "a") else {
        panic!("the first claim must be granted")
    };
    // Rows that were read after the first grant.
    let standing = CampaignCounters {
        phase: Phase::Scheduled,
        granted: 1,
        returned: 0,
        refunded_minor: 0,
    };
    let read = || {
        let mut read = CampaignSnapshot::opened(setup.clone(), standing, 2);
        read.add(&FormerGrant {
            number: grant.number,
            user: &UserId::new("a").unwrap(),
            quantity: 1,
            amount_minor: grant.amount_minor,
            granted_at: grant.granted_at,
            key: None,
            state: OrderState::Held,
            returned: 0,
            cancelled: 0,
            extension_ms: 0,
        })
        .unwrap();
        read.finish().unwrap()
    };
    let now = at(START);
    let book = &mut fixture.book;
    assert!(book.recall(now, read()), "the campaign is in the book");
    assert!(book.retire(id, 1).is_none(), "its grant is not settled");
    let left = book.retire(id, 2).unwrap();
    assert!(book.recall(now, read()));
    assert_eq!(book.tally(now, id), Some(left.tally(now)));
    // The campaign changes, and is evicted again.
    fixture.claim(&setup, "b");
    let book = &mut fixture.book;
    let left = book.retire(id, 3).unwrap();
    assert!(!book.recall(now, read()), "the rows lack a grant");
    assert!(!book.has(id));
    assert!(book.recall(now, left));
    assert_eq!(book.tally(now, id).map(|tally| tally.granted), Some(2));
}

/// A few rows answer in the same way as the whole campaign.
#[test]
fn an_excerpt_answers_about_its_grants_as_the_book_does() {
    let setup = sale(1, 10, 2);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let id = setup.campaign.id;
    let users = ["a", "b", "a", "c", "d"];
    let grants = users.map(|user| match fixture.claim(&setup, user) {
        Outcome::Granted(grant) => grant,
        other => panic!("{other:?}"),
    });
    let now = at(START + 1);
    let (book, last) = (&mut fixture.book, grants[4]);
    for user in ["a", "c", "nobody"] {
        let of_user = grants.iter().zip(users).filter(|(_, name)| *name == user);
        let of_user: Vec<_> = of_user.map(|(grant, _)| *grant).collect();
        let numbers: Vec<_> = of_user.iter().map(|grant| grant.number).collect();
        let mut excerpt = Excerpt::new(setup.campaign.clone(), &numbers);
        for grant in &of_user {
            let former = FormerGrant {
                number: grant.number,
                user: &UserId::new(user).unwrap(),
                quantity: 1,
                amount_minor: grant.amount_minor,
                granted_at: grant.granted_at,
                key: None,
                state: OrderState::Held,
                returned: 0,
                cancelled: 0,
                extension_ms: 0,
            };
            excerpt.add(&former).unwrap();
        }
        let stored = StoredCampaign {
            standing: CampaignCounters {
                phase: Phase::Scheduled,
                granted: 5,
                returned: 0,
                refunded_minor: 0,
            },
            escrow_minor: 0,
            last_number: last.number,
            skipped: &[],
        };
        let excerpt = excerpt.finish(&stored).unwrap();
        assert_eq!(Some(excerpt.tally(now)), book.tally(now, id));
        for number in 1..=6 {
            let order = OrderId {
                campaign: id,
                number,
            };
            let expected = book.order(order).filter(|_| numbers.contains(&number));
            assert_eq!(excerpt.order(number), expected, "{user}: order {number}");
        }
        let claim = Claim {
            campaign: id,
            kind: CampaignKind::Sale,
            user: UserId::new(user).unwrap(),
            quantity: 1,
            key: None,
        };
        assert_eq!(
            excerpt.try_gate_outcome(now, &claim),
            book.try_gate_outcome(now, &claim, book.head()),
            "{user}"
        );
    }
    let stored = |granted, returned, last_number| StoredCampaign {
        standing: CampaignCounters {
            phase: Phase::Scheduled,
            granted,
            returned,
            refunded_minor: 0,
        },
        escrow_minor: 0,
        last_number,
        skipped: &[(2, 4), (7, 7)],
    };
    let empty = || Excerpt::new(setup.campaign.clone(), &[]);
    let skipping = empty().finish(&stored(4, 0, 8)).unwrap();
    assert_eq!(skipping.tally(now).grants, 4, "the numbers 1, 5, 6 and 8");
    assert!(
        empty().finish(&stored(9, 2, 11)).is_err(),
        "users and owner have more units than the supply"
    );
}
