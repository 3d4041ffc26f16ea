//! Breaches of recorded changes of campaigns, in a file.

/// Each breach: its name, exactly the checks that must report it, and its changes.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    vec![
        (
            "an admission that is not that of the last change",
            &["terms_sound"],
            "UPDATE campaigns SET admission = 999 WHERE ref = @repriced".to_owned(),
        ),
        (
            "an admission that is not that of its entry",
            &["terms_follow_log"],
            "UPDATE sale_terms SET admission = 100 WHERE campaign = @repriced AND unit_price = 55"
                .to_owned(),
        ),
        (
            "a change before the creation",
            &["updates_sound", "updates_follow_log"],
            "UPDATE campaigns SET updated_at = created_at - 1 WHERE ref = @normal".to_owned(),
        ),
        (
            "a close that came after the last change",
            &["updates_follow_log"],
            "UPDATE campaigns SET updated_at = created_at WHERE ref = @normal".to_owned(),
        ),
    ]
}
