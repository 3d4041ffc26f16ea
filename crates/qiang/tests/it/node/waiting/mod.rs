//! Waiting rooms: the queues of each engine, and the decider that empties them.

mod cases;
mod ground;
mod on_redis;

use crate::node::waiting::ground::{InOneFile, OnCluster, OnRedis};

macro_rules! cases {
    ($ground:ty: $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::node::waiting::cases::$case::<$ground>().await;
            }
        )*
    };
    ($ground:ty) => {
        cases! { $ground:
            a_user_has_one_place_and_keeps_it,
            the_line_is_bounded,
            what_became_of_a_place_is_kept_for_a_while,
            a_late_record_changes_no_other_place,
            places_survive_a_restart,
            who_came_first_is_decided_first,
            a_claim_that_was_not_recorded_is_one_order,
            two_deciders_grant_nothing_twice,
            a_pause_lets_wait_and_a_close_answers_all,
            who_waits_when_stock_ends_hears_so_at_once,
            units_that_come_back_go_to_who_waits,
            a_key_that_was_used_is_told,
        }
    };
}

mod in_one_file {
    use super::*;
    cases!(InOneFile);
}

mod redis {
    use super::*;
    cases!(OnRedis);
}

mod cluster {
    use super::*;
    cases! { OnCluster:
        a_user_has_one_place_and_keeps_it,
        a_late_record_changes_no_other_place,
        who_came_first_is_decided_first,
    }
}
