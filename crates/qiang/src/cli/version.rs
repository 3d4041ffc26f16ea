//! Version of this build.

use std::sync::LazyLock;

use qiang::Build;

/// Build that `--version` and the metrics of a service report.
pub(crate) static BUILD: LazyLock<Build> = LazyLock::new(|| Build {
    commit: env!("QIANG_COMMIT"),
    date: &DATE,
});

/// The commit's day in UTC.
static DATE: LazyLock<String> = LazyLock::new(|| {
    let seconds = env!("QIANG_EPOCH").parse().ok();
    let at = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    at.map_or_else(
        || "date unknown".to_owned(),
        |at| at.strftime("%F").to_string(),
    )
});

/// Version, commit and date.
pub(crate) fn line() -> &'static str {
    static LINE: LazyLock<String> = LazyLock::new(|| {
        let Build { commit, date } = *BUILD;
        format!("{} ({commit}, {date})", env!("CARGO_PKG_VERSION"))
    });
    &LINE
}

/// Version, commit and date, with the schemas that this build reads and writes.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let schemas = qiang::SCHEMAS.map(|(name, version)| format!("{name} {version}"));
        format!("{}\nschemas: {}", line(), schemas.join(", "))
    });
    &LONG
}
