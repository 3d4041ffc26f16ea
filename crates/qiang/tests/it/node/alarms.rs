//! The alarms and the dashboard in `deploy/`: each alarm fires, names an existing page, and queries existing series.
//! The metrics page names all series.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Folders with the code that makes series. The code has each name as a whole.
const SOURCES: [&str; 2] = ["crates/api/src", "crates/qiang/src"];
/// Values of the dashboard's variables.
const VARIABLES: [(&str, &str); 2] = [("$__rate_interval", "1m"), ("$job", "qiang")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Output of `promtool`, which must succeed.
fn promtool(folder: &Path, arguments: &[&str]) -> String {
    let ran = Command::new("promtool")
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(ran.status.success(), "{said}");
    said
}

/// The names of series in a text.
fn series(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("qiang_")).collect()
}

/// All code that may contain names of series.
fn known() -> String {
    let mut known = String::new();
    let mut folders: Vec<PathBuf> = SOURCES.map(|folder| root().join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("cli") {
                // The command line reads series and makes none.
            } else if path.is_dir() {
                folders.push(path);
            } else {
                known.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    known
}

/// Series of a query that no code makes.
fn unknown<'t>(asked: &BTreeSet<&'t str>) -> Vec<&'t str> {
    let known = known();
    let made = |name: &str| {
        let base = name.strip_suffix("_bucket").unwrap_or(name);
        known.contains(&format!("\"{base}\""))
    };
    asked.iter().copied().filter(|name| !made(name)).collect()
}

/// The anchor of a heading in links.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn lines_of<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    let lines = text.lines();
    lines
        .filter_map(|line| line.trim_start().strip_prefix(key))
        .map(str::trim)
        .collect()
}

#[test]
fn each_alarm_fires_and_names_a_page() {
    let folder = root().join("deploy/prometheus");
    promtool(&folder, &["check", "rules", "qiang.rules.yml"]);
    promtool(&folder, &["test", "rules", "qiang.rules.test.yml"]);

    let (rules, fired) = (
        text("deploy/prometheus/qiang.rules.yml"),
        text("deploy/prometheus/qiang.rules.test.yml"),
    );
    let manual = text("docs/operate/repair.md");
    let headings: BTreeSet<String> = manual
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches(['#', ' '])))
        .collect();
    let alarms = lines_of(&rules, "- alert: ");
    let pages = lines_of(&rules, "page: docs/operate/repair.md#");
    assert!(!alarms.is_empty());
    assert_eq!(alarms.len(), pages.len(), "an alarm without a page");
    for (alarm, page) in alarms.into_iter().zip(pages) {
        assert!(headings.contains(page), "{alarm}: no heading {page}");
        let fires = format!("- name: {alarm}\n");
        assert!(fired.contains(&fires), "{alarm} is never fired");
        assert!(manual.contains(alarm), "{alarm} is not in the manual");
    }
    assert_eq!(unknown(&series(&rules)), Vec::<&str>::new());
}

#[test]
fn the_dashboard_shows_series_that_there_are() {
    let dashboard: Value = serde_json::from_str(&text("deploy/grafana/qiang.json")).unwrap();
    let mut asked = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let mut expr = target["expr"].as_str().unwrap().to_owned();
            for (variable, value) in VARIABLES {
                expr = expr.replace(variable, value);
            }
            asked.push(expr);
        }
    }
    assert!(asked.len() > 10, "{asked:?}");
    let all = asked.join("\n");
    assert_eq!(unknown(&series(&all)), Vec::<&str>::new());

    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (number, expr) in asked.iter().enumerate() {
        let expr = serde_json::to_string(expr).unwrap();
        writeln!(rules, "      - record: r{number}\n        expr: {expr}").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yml"), rules).unwrap();
    promtool(folder.path(), &["check", "rules", "rules.yml"]);
}

#[test]
fn the_page_of_metrics_names_the_series_that_there_are() {
    let page = text("docs/reference/metrics.md");
    assert_eq!(unknown(&series(&page)), Vec::<&str>::new());

    let code = known();
    let is_series = |word: &&str| {
        let rest = word.strip_prefix("qiang_").unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_lowercase())
            && rest.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let made: BTreeSet<&str> = code.split('"').filter(is_series).collect();
    assert!(made.len() > 40, "{made:?}");
    for name in made {
        assert!(
            page.contains(&format!("`{name}`")),
            "the page does not name {name}"
        );
    }
}

#[test]
fn a_name_that_nothing_makes_is_found() {
    let asked = series("sum(qiang_claims_total) + qiang_no_such_series");
    assert_eq!(unknown(&asked), ["qiang_no_such_series"]);
}
