//! Version of this build.

use std::sync::LazyLock;

use qiang::Build;

/// Build that `--version` and the metrics of a service report.
pub(crate) const BUILD: Build = Build {
    commit: env!("QIANG_COMMIT"),
    date: env!("QIANG_DATE"),
};

/// Version, commit and date.
pub(crate) const LINE: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("QIANG_COMMIT"),
    ", ",
    env!("QIANG_DATE"),
    ")"
);

/// Version, commit and date, with the schemas that this build reads and writes.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let schemas = qiang::SCHEMAS.map(|(name, version)| format!("{name} {version}"));
        format!("{LINE}\nschemas: {}", schemas.join(", "))
    });
    &LONG
}
