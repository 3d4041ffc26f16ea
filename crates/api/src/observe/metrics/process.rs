//! Metrics of the process: memory, processor time, files, threads, and its version.

use std::{fmt, sync::OnceLock};

use metrics::{Key, Label, Recorder, with_local_recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use metrics_process::Collector;

use super::{METADATA, describe_gauge};

/// As Prometheus' instrumentation guide recommends: a gauge that is 1, with the build in its labels.
const BUILD_INFO: (&str, &str) = (
    "qiang_build_info",
    "1, with the version and the commit of the program",
);

/// Commit that a program is built from.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// Hash of the commit in git.
    pub commit: &'static str,
    /// Day of the commit.
    pub date: &'static str,
}

static BUILD: OnceLock<Build> = OnceLock::new();

impl Build {
    /// Makes `qiang_build_info` of this process name the build. Call it once, before serving. Only the program knows
    /// its commit, so a new commit rebuilds no other crate.
    pub fn announce(self) {
        BUILD.get_or_init(|| self);
    }
}

/// The standard metrics of a process (`process_…`).
pub(super) struct ProcessMetrics(Collector);

impl fmt::Debug for ProcessMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessMetrics")
    }
}

impl ProcessMetrics {
    pub(super) fn new(recorder: &PrometheusRecorder) -> Self {
        let collector = Collector::default();
        with_local_recorder(recorder, || collector.describe());
        describe_gauge(recorder, BUILD_INFO.0, BUILD_INFO.1);
        let mut labels = vec![Label::new("version", env!("CARGO_PKG_VERSION"))];
        if let Some(build) = BUILD.get() {
            labels.push(Label::new("commit", build.commit));
            labels.push(Label::new("date", build.date));
        }
        let key = Key::from_parts(BUILD_INFO.0, labels);
        recorder.register_gauge(&key, &METADATA).set(1.0);
        Self(collector)
    }

    /// Samples the process.
    pub(super) fn show(&self, recorder: &PrometheusRecorder) {
        with_local_recorder(recorder, || self.0.collect());
    }
}
