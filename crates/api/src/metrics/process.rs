//! What the process is and what it uses: memory, processor time, files, threads, and its version.

use std::fmt;

use metrics::{Key, Label, Recorder, with_local_recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use metrics_process::Collector;

use super::{METADATA, describe_gauge};

/// As the instrumentation guide of Prometheus has it: a gauge that is 1, with the build in its labels.
const BUILD: (&str, &str) = ("qiang_build_info", "1, with the version of the program");

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
        describe_gauge(recorder, BUILD.0, BUILD.1);
        let version = Label::new("version", env!("CARGO_PKG_VERSION"));
        let key = Key::from_parts(BUILD.0, vec![version]);
        recorder.register_gauge(&key, &METADATA).set(1.0);
        Self(collector)
    }

    /// Looks at the process.
    pub(super) fn show(&self, recorder: &PrometheusRecorder) {
        with_local_recorder(recorder, || self.0.collect());
    }
}
