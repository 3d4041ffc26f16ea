//! Suite that every engine must pass together with its log and its ledger.
//!
//! An engine's tests implement [`Subject`] and call [`engine_conformance!`](crate::engine_conformance), which makes one
//! `#[test]` per case. Cases set a [`ManualClock`] and send [`Command::Tick`](qiang_core::book::Command::Tick) to make
//! the engine do due work, so that no case waits for a timer. A case records all requests and replies. At its end the
//! auditor checks them, and the ledger is compared with the log.

#![allow(clippy::unwrap_used, reason = "a panic is a report here")]

pub mod accepted_amounts;
pub mod actions;
pub mod amounts;
mod any_subject;
pub mod audiences;
pub mod clock;
pub mod corrections;
pub mod downtimes;
pub mod free;
pub mod gate;
pub mod histories;
pub mod history_lists;
pub mod hold_extensions;
pub mod keyed_changes;
pub mod keys;
pub mod ledger;
pub mod lifecycle;
pub mod limits;
pub mod listing;
pub mod metadata;
pub mod money_corrections;
pub mod orders;
pub mod outcomes;
pub mod packets;
pub mod partial_cancellations;
pub mod partial_returns;
pub mod payouts;
pub mod restart;
pub mod returns;
mod scenario;
pub mod settled;
pub mod standalone;
pub mod stock;
pub mod terms;
pub mod transport;
pub mod users;

use std::{future::Future, sync::Arc, time::Duration};

use qiang_core::{
    book::Setup,
    money::Money,
    ports::{Engine, EventLog, Ledger},
};

use self::any_subject::{AnySubject, Start};
pub use self::{any_subject::Boxed, scenario::Scenario};
use crate::{
    ManualClock,
    auditor::History,
    campaign::{OPENS, currency},
};

/// Maximum duration of a case. Usual cases take a second or two.
const CASE_MAX: Duration = Duration::from_secs(120);

/// Subject of the suite: an engine, its log and a ledger, wired as in production.
pub trait Subject: Sized + Send + Sync + 'static {
    /// Starts an empty subject that uses this clock.
    fn start(clock: Arc<ManualClock>) -> impl Future<Output = Self> + Send;

    /// The engine.
    fn engine(&self) -> &dyn Engine;

    /// The ledger.
    fn ledger(&self) -> &dyn Ledger;

    /// The engine's log.
    fn log(&self) -> &dyn EventLog;

    /// Whether the subject settles automatically. Otherwise the cases settle.
    fn settles(&self) -> bool {
        false
    }

    /// Stops without a clean shutdown and without further settlement, and starts again on the stored data. All answered
    /// changes must still be there.
    fn restart(self) -> impl Future<Output = Self> + Send;

    /// Stops, runs `while_down`, and starts again on the stored data. It does not read the clock while it is stopped.
    /// Only cases with downtimes need it.
    fn down(self, while_down: impl FnOnce() + Send) -> impl Future<Output = Self> + Send {
        drop(while_down);
        async { panic!("the subject cannot be down") }
    }

    /// Stops finally.
    fn stop(self) -> impl Future<Output = ()> + Send {
        async { drop(self) }
    }
}

/// One case of the suite.
pub type Case = for<'a> fn(&'a mut Scenario) -> Boxed<'a, ()>;

/// Runs one case on a new subject, then audits its history.
///
/// # Panics
/// If the case fails.
pub fn run<S: Subject>(case: Case) {
    run_any(any_subject::start::<S>, case);
}

fn run_any(start: Start<dyn AnySubject>, case: Case) {
    to_its_end(async {
        let clock = ManualClock::new(OPENS);
        let subject = start(Arc::clone(&clock)).await;
        let mut scenario = Scenario::new(subject, clock);
        case(&mut scenario).await;
        scenario.finish().await;
    });
}

/// Enters a campaign in the ledger after a deposit of the money that its owner needs, and records both.
pub(crate) async fn enter(ledger: &dyn Ledger, setup: &Setup, history: &mut History) {
    let minor = setup.campaign.funded_minor();
    if minor > 0 {
        let owner = &setup.campaign.owner;
        let amount = Money::new(minor, currency());
        let deposited = ledger.deposit(setup.campaign.id.uuid(), owner, amount);
        deposited.await.unwrap();
        history.deposits.push((owner.clone(), minor));
    }
    ledger.create(setup).await.unwrap();
    history.setups.push(setup.clone());
}

/// Runs a future on a new runtime, and aborts the process if it does not finish in time.
fn to_its_end(whole: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        if tokio::time::timeout(CASE_MAX, whole).await.is_err() {
            abort_case();
        }
    });
}

/// Prints the name of the case and aborts the process. A subject that hangs might hang at its stop too, and block the
/// whole run.
fn abort_case() -> ! {
    let thread = std::thread::current();
    let case = thread.name().unwrap_or("a case");
    eprintln!("{case} has not ended within {CASE_MAX:?}");
    std::process::abort();
}

/// Makes one test per case of the suite, for one [`Subject`](crate::conformance::Subject). The prefix `settling`
/// selects the cases of the ledger: every kind of entry, restarts, and reads. The prefix `downtimes` selects the cases
/// with downtimes.
#[macro_export]
macro_rules! engine_conformance {
    ($subject:ty) => {
        $crate::engine_conformance! { $subject:
            outcomes::the_earlier_outcome_wins,
            outcomes::a_claim_of_the_wrong_kind_knows_no_campaign,
            outcomes::a_campaign_is_unknown_until_it_is_opened,
            outcomes::opening_again_changes_nothing,
            limits::a_thousand_claims_of_one_user_are_one_grant,
            limits::a_thousand_claims_under_one_key_are_one_order,
            limits::several_orders_of_one_user_reach_the_limit_and_no_further,
            limits::a_key_replays_its_order_and_no_other,
            limits::a_key_means_nothing_to_another_user_or_campaign,
            limits::a_limit_of_one_needs_no_key,
            limits::a_second_key_never_buys_what_it_was_answered_with,
            stock::concurrent_claims_get_the_stock_and_no_more,
            stock::concurrent_quantities_get_the_stock_and_no_more,
            stock::who_is_held_back_gets_what_comes_back,
            stock::the_last_unit_is_sold_once,
            stock::asking_for_too_much_is_no_ones_loss,
            stock::the_stock_is_changed_while_a_sale_is_live,
            stock::the_largest_stock_is_counted_to_the_unit,
            terms::the_window_is_moved_and_ends_at_its_moment,
            terms::the_limit_is_raised_and_lowered,
            terms::orders_keep_the_price_at_which_they_were_granted,
            terms::a_change_is_refused_or_made_once,
            terms::stock_and_terms_change_in_one_step,
            terms::the_start_of_an_opened_sale_moves_until_it_sells,
            terms::a_start_among_claims_moves_or_is_refused,
            keyed_changes::a_change_is_logged_with_the_id_of_its_key,
            keyed_changes::a_description_is_recorded_with_the_id_of_its_key,
            keyed_changes::a_key_is_bound_anew_by_one_retry,
            keyed_changes::a_description_is_changed_once_if_it_is_as_expected,
            corrections::a_correction_is_made_if_the_sale_is_as_compared,
            corrections::a_correction_does_not_overwrite_another_change,
            terms::who_is_held_back_goes_by_the_present_stock_and_limit,
            orders::a_hold_expires_and_its_units_are_sold_again,
            orders::a_hold_ends_on_its_millisecond,
            orders::a_late_payment_reinstates_while_units_are_left,
            orders::a_late_payment_without_units_is_owed_back,
            orders::a_late_payment_above_the_limit_is_owed_back,
            orders::a_late_payment_after_the_end_is_owed_back,
            orders::a_second_payment_is_owed_back,
            orders::the_same_payment_twice_is_one_payment,
            orders::a_thousand_payments_at_once_pay_once,
            orders::an_order_takes_as_many_payments_as_can_be_owed_back,
            orders::cancelling_returns_the_units_once,
            orders::what_is_paid_or_expired_cannot_be_cancelled,
            orders::giving_back_is_bounded,
            orders::an_unknown_order_is_refused,
            orders::a_packet_has_no_orders,
            amounts::another_amount_is_owed_back_and_pays_nothing,
            amounts::another_amount_reinstates_nothing,
            amounts::money_for_a_free_order_is_owed_back,
            amounts::the_price_pays_an_order_with_all_refunds_due,
            accepted_amounts::more_than_the_price_pays_where_it_is_accepted,
            accepted_amounts::a_tolerance_is_exact_on_both_sides,
            accepted_amounts::an_accepted_amount_pays_late_or_is_owed_back,
            free::an_order_that_costs_nothing_is_paid_at_its_grant,
            free::a_free_order_is_given_back_and_nothing_is_owed,
            free::the_price_at_the_grant_says_whether_an_order_is_free,
            returns::a_return_gives_units_and_price_back_once,
            returns::payments_of_a_returned_order_are_owed_back,
            returns::what_is_not_paid_cannot_be_returned,
            returns::a_return_after_the_close_is_the_owners,
            partial_cancellations::units_of_a_held_order_are_cancelled_once_per_key,
            partial_cancellations::the_rest_of_an_order_pays_its_price_and_is_returned_in_parts,
            partial_cancellations::the_last_units_cancel_the_order,
            partial_cancellations::cancellations_at_once_cancel_what_is_held,
            partial_cancellations::payments_and_cancellations_at_once_keep_units_and_money,
            partial_cancellations::cancelled_units_are_sold_again,
            partial_cancellations::a_reduced_order_expires_and_is_reinstated,
            partial_cancellations::cancellations_after_the_close_are_the_owners,
            partial_cancellations::cancelled_parts_of_a_free_order_are_returned,
            partial_cancellations::cancellations_of_parts_are_bounded,
            hold_extensions::an_extended_hold_ends_at_its_new_end,
            hold_extensions::a_payment_in_the_extension_pays,
            hold_extensions::a_payment_after_the_extension_reinstates,
            hold_extensions::a_hold_is_extended_once,
            hold_extensions::extensions_at_once_extend_once,
            hold_extensions::an_extended_order_is_cancelled,
            hold_extensions::a_hold_is_extended_after_the_close,
            partial_returns::parts_of_an_order_owe_exactly_what_was_paid,
            partial_returns::the_rest_of_an_order_is_returned_after_a_part,
            partial_returns::returns_at_once_return_what_was_bought,
            partial_returns::a_return_of_too_much_is_refused,
            partial_returns::returned_units_are_sold_again,
            partial_returns::parts_after_the_close_are_the_owners,
            partial_returns::a_free_order_is_returned_in_parts,
            partial_returns::returns_of_parts_are_bounded,
            lifecycle::the_window_includes_its_start_and_excludes_its_end,
            lifecycle::a_pause_stops_and_a_resumption_goes_on,
            lifecycle::a_hold_expires_while_its_sale_is_paused,
            lifecycle::a_scheduled_campaign_is_paused_and_resumed,
            lifecycle::a_scheduled_sale_is_started_once,
            lifecycle::acting_again_changes_nothing,
            lifecycle::acting_against_the_phase_is_refused,
            lifecycle::a_close_returns_what_is_left_exactly_once,
            lifecycle::a_close_among_claims_loses_no_unit,
            lifecycle::the_end_of_the_window_closes,
            lifecycle::units_given_back_after_the_close_are_the_owners,
            packets::every_rule_hands_out_its_total,
            packets::every_rule_hands_out_its_total_to_concurrent_users,
            packets::a_user_has_one_share_and_the_same_one,
            packets::what_nobody_took_is_refunded,
            packets::a_packet_is_refunded_at_its_end_and_once,
            packets::a_single_share_is_the_whole_packet,
            packets::a_claimed_packet_is_found_until_it_is_closed,
            clock::a_clock_that_jumps_breaks_nothing,
            clock::days_of_the_calendar_are_ordinary,
            clock::closed_stays_closed_when_the_clock_goes_back,
            clock::a_holder_has_the_grant_whatever_the_clock_says,
            clock::a_grant_in_a_glitch_dates_no_later_ones,
            gate::the_gate_says_what_a_claim_would,
            gate::the_gate_keeps_to_itself_what_is_not_kept,
            gate::a_probe_is_answered_and_leaves_no_trace,
            ledger::the_ledger_follows_the_log,
            ledger::settling_again_changes_nothing,
            ledger::settling_with_a_gap_is_refused,
            ledger::a_sender_without_the_money_sends_nothing,
            ledger::a_failed_campaign_can_be_entered_later,
            ledger::entering_again_changes_nothing,
            ledger::requirements_are_kept,
            ledger::a_deposit_counts_once,
            payouts::a_refund_is_posted_once_and_up_to_what_is_owed,
            payouts::a_refund_is_bounded_by_what_is_owed_alone,
            payouts::refunds_at_once_pay_what_is_owed_and_no_more,
            money_corrections::a_refund_is_reversed_once,
            money_corrections::a_transfer_moves_what_is_there,
            payouts::a_withdrawal_takes_what_is_there,
            payouts::a_deposit_is_reversed_once,
            payouts::a_deposit_is_reversed_in_parts,
            payouts::what_is_owed_is_listed,
            keys::a_key_is_bound_for_good,
            keys::a_command_is_answered_once,
            keys::a_deposits_reference_is_kept_for_good,
            keys::a_refused_creation_spends_no_key,
            keys::of_several_creations_each_stands_for_itself,
            keys::several_creations_together_are_all_made_or_none,
            keys::a_chosen_id_is_one_campaign,
            keys::old_keys_are_purged_and_payments_kept,
            ledger::drafts_are_found_until_they_are_opened,
            ledger::grants_are_read_in_pages,
            actions::an_action_is_written_with_what_it_changed,
            actions::actions_are_read_in_pages,
            actions::actions_of_one_instant_are_seen,
            actions::refused_reports_are_found,
            histories::orders_of_a_user_come_newest_first,
            histories::postings_of_a_user_come_newest_first_and_add_up,
            histories::deposits_and_payments_are_found_by_their_names,
            users::ids_of_any_script_are_users,
            history_lists::orders_are_listed_by_every_filter,
            history_lists::payments_are_listed_by_every_filter,
            history_lists::movements_are_listed_by_every_filter,
            audiences::an_audience_is_kept_with_its_campaign,
            audiences::the_luckiest_has_the_largest_share,
            ledger::the_level_of_the_ledger_is_answered_from_the_ledger,
            ledger::the_level_asked_for_is_reached,
            ledger::the_log_is_read_without_gaps,
            ledger::claimed_money_can_be_sent_on,
            ledger::a_waiting_room_is_added_once,
            metadata::metadata_is_kept_and_found_by_its_reference,
            metadata::names_of_metadata_are_changed_each_for_itself,
            metadata::metadata_is_changed_once_if_it_is_as_expected,
            metadata::a_unique_reference_names_one_campaign,
            metadata::a_unique_reference_moves_between_orders,
            listing::details_are_entered_and_changed,
            listing::last_change_is_dated,
            listing::campaigns_are_listed_by_their_creation,
            listing::times_of_grants_are_read_by_number,
            listing::lists_come_in_pages_and_in_order,
            listing::what_is_closed_is_archived,
            restart::a_restart_in_the_middle_loses_nothing,
            restart::replays_survive_a_restart,
            restart::holds_and_windows_survive_a_restart,
            restart::a_restart_with_answers_under_way_keeps_what_was_answered,
            restart::drafts_survive_a_restart,
        }
    };
    (downtimes $subject:ty) => {
        $crate::engine_conformance! { $subject:
            downtimes::holds_go_on_where_they_were_when_the_service_went_down,
            downtimes::a_downtime_that_is_longer_than_the_hold_ends_none,
            downtimes::what_ended_before_a_downtime_has_ended,
        }
    };
    (settling $subject:ty) => {
        $crate::engine_conformance! { $subject:
            stock::concurrent_quantities_get_the_stock_and_no_more,
            stock::the_stock_is_changed_while_a_sale_is_live,
            stock::the_largest_stock_is_counted_to_the_unit,
            terms::the_window_is_moved_and_ends_at_its_moment,
            terms::the_limit_is_raised_and_lowered,
            terms::orders_keep_the_price_at_which_they_were_granted,
            terms::a_change_is_refused_or_made_once,
            keyed_changes::a_change_is_logged_with_the_id_of_its_key,
            keyed_changes::a_description_is_recorded_with_the_id_of_its_key,
            keyed_changes::a_key_is_bound_anew_by_one_retry,
            keyed_changes::a_description_is_changed_once_if_it_is_as_expected,
            corrections::a_correction_is_made_if_the_sale_is_as_compared,
            corrections::a_correction_does_not_overwrite_another_change,
            amounts::another_amount_is_owed_back_and_pays_nothing,
            amounts::another_amount_reinstates_nothing,
            amounts::money_for_a_free_order_is_owed_back,
            amounts::the_price_pays_an_order_with_all_refunds_due,
            accepted_amounts::more_than_the_price_pays_where_it_is_accepted,
            accepted_amounts::a_tolerance_is_exact_on_both_sides,
            accepted_amounts::an_accepted_amount_pays_late_or_is_owed_back,
            free::an_order_that_costs_nothing_is_paid_at_its_grant,
            free::a_free_order_is_given_back_and_nothing_is_owed,
            free::the_price_at_the_grant_says_whether_an_order_is_free,
            orders::a_hold_expires_and_its_units_are_sold_again,
            orders::a_late_payment_reinstates_while_units_are_left,
            orders::a_late_payment_above_the_limit_is_owed_back,
            orders::cancelling_returns_the_units_once,
            partial_cancellations::units_of_a_held_order_are_cancelled_once_per_key,
            partial_cancellations::the_rest_of_an_order_pays_its_price_and_is_returned_in_parts,
            partial_cancellations::the_last_units_cancel_the_order,
            partial_cancellations::cancellations_at_once_cancel_what_is_held,
            partial_cancellations::payments_and_cancellations_at_once_keep_units_and_money,
            partial_cancellations::cancelled_units_are_sold_again,
            partial_cancellations::a_reduced_order_expires_and_is_reinstated,
            partial_cancellations::cancellations_after_the_close_are_the_owners,
            partial_cancellations::cancelled_parts_of_a_free_order_are_returned,
            partial_cancellations::cancellations_of_parts_are_bounded,
            hold_extensions::an_extended_hold_ends_at_its_new_end,
            hold_extensions::a_payment_in_the_extension_pays,
            hold_extensions::a_payment_after_the_extension_reinstates,
            hold_extensions::a_hold_is_extended_once,
            hold_extensions::extensions_at_once_extend_once,
            hold_extensions::an_extended_order_is_cancelled,
            hold_extensions::a_hold_is_extended_after_the_close,
            partial_returns::parts_of_an_order_owe_exactly_what_was_paid,
            partial_returns::the_rest_of_an_order_is_returned_after_a_part,
            partial_returns::returns_at_once_return_what_was_bought,
            partial_returns::a_return_of_too_much_is_refused,
            partial_returns::returned_units_are_sold_again,
            partial_returns::parts_after_the_close_are_the_owners,
            partial_returns::a_free_order_is_returned_in_parts,
            partial_returns::returns_of_parts_are_bounded,
            lifecycle::a_hold_expires_while_its_sale_is_paused,
            lifecycle::a_close_returns_what_is_left_exactly_once,
            lifecycle::units_given_back_after_the_close_are_the_owners,
            packets::every_rule_hands_out_its_total_to_concurrent_users,
            packets::what_nobody_took_is_refunded,
            packets::a_claimed_packet_is_found_until_it_is_closed,
            packets::a_packet_is_refunded_at_its_end_and_once,
            ledger::the_ledger_follows_the_log,
            ledger::settling_again_changes_nothing,
            ledger::settling_with_a_gap_is_refused,
            ledger::drafts_are_found_until_they_are_opened,
            ledger::grants_are_read_in_pages,
            actions::an_action_is_written_with_what_it_changed,
            actions::actions_are_read_in_pages,
            actions::actions_of_one_instant_are_seen,
            actions::refused_reports_are_found,
            histories::orders_of_a_user_come_newest_first,
            histories::postings_of_a_user_come_newest_first_and_add_up,
            histories::deposits_and_payments_are_found_by_their_names,
            users::ids_of_any_script_are_users,
            history_lists::orders_are_listed_by_every_filter,
            history_lists::payments_are_listed_by_every_filter,
            history_lists::movements_are_listed_by_every_filter,
            audiences::an_audience_is_kept_with_its_campaign,
            audiences::the_luckiest_has_the_largest_share,
            ledger::claimed_money_can_be_sent_on,
            ledger::a_waiting_room_is_added_once,
            metadata::metadata_is_kept_and_found_by_its_reference,
            metadata::names_of_metadata_are_changed_each_for_itself,
            metadata::metadata_is_changed_once_if_it_is_as_expected,
            metadata::a_unique_reference_moves_between_orders,
            listing::details_are_entered_and_changed,
            listing::last_change_is_dated,
            listing::campaigns_are_listed_by_their_creation,
            listing::times_of_grants_are_read_by_number,
            listing::lists_come_in_pages_and_in_order,
            listing::what_is_closed_is_archived,
            restart::a_restart_in_the_middle_loses_nothing,
            restart::holds_and_windows_survive_a_restart,
            restart::a_restart_with_answers_under_way_keeps_what_was_answered,
        }
    };
    ($subject:ty: $($module:ident::$case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::run::<$subject>(|case| Box::pin($crate::conformance::$module::$case(case)));
            }
        )*
    };
}
