//! Evaluates the alarms over the real series of processes, by promtool.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    process::Command,
};

use qiang_core::ports::Clock as _;
use qiang_embedded::SystemClock;

const RULES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deploy/prometheus/qiang.rules.yml"
);
/// Seconds between two readings in Prometheus' time.
const STEP_S: usize = 15;
/// Times that the first reading is repeated before the others: a quarter of an hour without a fault.
const BEFORE: usize = 60;
/// Times that the last reading is repeated after the others. Each alarm fires earlier.
const AFTER: usize = 80;

/// Readings of processes.
pub(crate) struct AlarmWatch {
    readings: BTreeMap<String, Vec<Reading>>,
    count: usize,
    /// Seconds since 1970 at the start, which is Prometheus' time 0.
    started_at_s: i64,
}

/// A reading of one process.
#[derive(Clone)]
enum Reading {
    /// Prometheus does not know the process yet.
    Absent,
    /// The text of `/metrics`, or `None` if it did not answer.
    Read(Option<String>),
}

impl AlarmWatch {
    pub(crate) fn new() -> Self {
        Self {
            readings: BTreeMap::new(),
            count: 0,
            started_at_s: SystemClock.now().as_millis() / 1_000,
        }
    }

    /// Adds the next reading of all processes.
    pub(crate) fn read(&mut self, processes: &[(&str, Option<String>)]) {
        for (instance, text) in processes {
            let of_process = self.readings.entry((*instance).to_owned()).or_default();
            of_process.resize(self.count, Reading::Absent);
            of_process.push(Reading::Read(text.clone()));
        }
        self.count += 1;
    }

    /// Expects that these alarms fired at some time, each for one cause, and no others.
    pub(crate) fn expect(&self, alarms: &[&str]) {
        assert!(self.count > 1, "a reading before and one during the fault");
        let mut test = format!(
            "rule_files: ['{RULES}']\nevaluation_interval: {STEP_S}s\ntests:\n  - interval: {STEP_S}s\n    \
             input_series:\n"
        );
        for (instance, readings) in &self.readings {
            for (series, values) in self.series(readings) {
                let series = match series.split_once('{') {
                    Some((name, labels)) => {
                        format!("{name}{{job=\"qiang\",instance=\"{instance}\",{labels}")
                    }
                    None => format!("{series}{{job=\"qiang\",instance=\"{instance}\"}}"),
                };
                writeln!(test, "      - series: '{series}'").unwrap();
                writeln!(test, "        values: '{values}'").unwrap();
            }
        }
        let steps = (BEFORE + self.count + AFTER) * STEP_S;
        let firing = "count by (alertname) (ALERTS{alertstate=\"firing\"})";
        write!(
            test,
            "    promql_expr_test:\n      - expr: 'max_over_time(({firing})[{steps}s:{STEP_S}s])'\n        \
             eval_time: {steps}s\n        exp_samples:\n"
        )
        .unwrap();
        for alarm in alarms {
            write!(
                test,
                "          - labels: '{{alertname=\"{alarm}\"}}'\n            value: 1\n"
            )
            .unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        promtool(folder.path(), &test);
    }

    /// Each series of a process, with its values in promtool's notation. `up` is one of them.
    fn series(&self, readings: &[Reading]) -> BTreeMap<String, String> {
        let samples = |reading: &Reading| match reading {
            Reading::Read(Some(text)) => Some(self.samples(text)),
            Reading::Read(None) | Reading::Absent => None,
        };
        let parsed: Vec<_> = readings.iter().map(samples).collect();
        let names: BTreeSet<&String> = parsed.iter().flatten().flat_map(BTreeMap::keys).collect();
        let mut series = BTreeMap::new();
        for name in names {
            let value = |samples: &Option<BTreeMap<String, f64>>| {
                let value = samples.as_ref().and_then(|samples| samples.get(name));
                value.map_or_else(|| "_".to_owned(), f64::to_string)
            };
            let values = parsed.iter().map(value).collect();
            series.insert(name.clone(), spread(values));
        }
        let up = readings.iter().map(|reading| match reading {
            Reading::Read(Some(_)) => "1",
            Reading::Read(None) => "0",
            Reading::Absent => "_",
        });
        series.insert("up".to_owned(), spread(up.map(str::to_owned).collect()));
        series
    }

    /// Samples of a text. Times of the calendar are those since the start.
    fn samples(&self, text: &str) -> BTreeMap<String, f64> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let mut value: f64 = value.parse().ok()?;
            let name = series.split('{').next()?;
            if name.starts_with("qiang_disk_") {
                // The disk of the machine that runs the test may be nearly full.
                return None;
            }
            if name.ends_with("_timestamp_seconds") || name == "process_start_time_seconds" {
                value += (BEFORE * STEP_S) as f64 - self.started_at_s as f64;
            }
            Some((series.to_owned(), value))
        };
        lines.filter_map(sample).collect()
    }
}

/// Values in promtool's notation, with the first and the last repeated.
fn spread(values: Vec<String>) -> String {
    let repeated = |value: &str, times: usize| match value {
        "_" => format!("_x{times}"),
        value => format!("{value}x{times}"),
    };
    let first = repeated(&values[0], BEFORE - 1);
    let last = repeated(&values[values.len() - 1], AFTER);
    format!("{first} {} {last}", values.join(" "))
}

fn promtool(folder: &Path, test: &str) {
    std::fs::write(folder.join("test.yml"), test).unwrap();
    let ran = Command::new("promtool")
        .current_dir(folder)
        .args(["test", "rules", "test.yml"])
        .output()
        .unwrap();
    let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert!(ran.status.success(), "{said}");
}
