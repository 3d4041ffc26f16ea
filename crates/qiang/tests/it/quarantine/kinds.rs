//! The case of each kind of difference.

use qiang_core::reconcile::DifferenceKind;

use super::{after_repair, by_hand};

/// After a repair of each kind of difference the audit holds, or the repair is refused. A new kind needs a case.
#[test]
fn every_kind_of_difference_has_a_case() {
    let is_in = |changes: &[(&str, &str)], kind: DifferenceKind| {
        changes.iter().any(|(_, differs)| *differs == kind.name())
    };
    for kind in DifferenceKind::FAULTS {
        let has_case = match kind {
            DifferenceKind::MissingInLedger
            | DifferenceKind::MissingInEngine
            | DifferenceKind::AmountDiffers
            | DifferenceKind::Double
            | DifferenceKind::StateDiffers
            | DifferenceKind::UserDiffers => {
                let mut changes = after_repair::CHANGES.iter();
                changes.any(|change| change.kind() == kind)
            }
            DifferenceKind::PhaseDiffers
            | DifferenceKind::SupplyDiffers
            | DifferenceKind::WindowDiffers
            | DifferenceKind::LimitDiffers
            | DifferenceKind::PriceDiffers
            | DifferenceKind::AdmissionDiffers => is_in(&by_hand::CHANGES, kind),
            DifferenceKind::HoldDiffers | DifferenceKind::AckDiffers => {
                is_in(&by_hand::FIXED, kind)
            }
            DifferenceKind::TotalDiffers | DifferenceKind::TermsRevisionDiffers => {
                is_in(&by_hand::REFUSED, kind)
            }
            DifferenceKind::InFlight => unreachable!("it is no fault"),
        };
        assert!(has_case, "{kind:?}");
    }
}
