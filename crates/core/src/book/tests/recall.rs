//! Eviction of campaigns from a book, and their reload.

use super::*;

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
