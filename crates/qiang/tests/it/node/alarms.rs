//! The alarms and the dashboard in `deploy/`: each alarm fires, has a screen in docs/operate, and queries existing
//! series. The screens name existing commands, keys and series. The metrics page names all series.

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

/// Pages with the screens of the alarms.
const PAGES: [&str; 3] = ["alarms-claims", "alarms-ledger", "alarms-machines"];

/// Severity and link of an alarm.
struct Alarm<'t> {
    name: &'t str,
    severity: &'t str,
    page: &'t str,
}

fn alarms(rules: &str) -> Vec<Alarm<'_>> {
    let names = lines_of(rules, "- alert: ").into_iter();
    let severities = lines_of(rules, "labels: {severity: ").into_iter();
    let pages = lines_of(rules, "page: docs/operate/").into_iter();
    let alarms: Vec<_> = names
        .zip(severities)
        .zip(pages)
        .map(|((name, severity), page)| Alarm {
            name,
            severity: severity.trim_end_matches('}'),
            page,
        })
        .collect();
    assert_eq!(alarms.len(), lines_of(rules, "- alert: ").len());
    alarms
}

#[test]
fn each_alarm_fires_and_links_to_its_screen() {
    let folder = root().join("deploy/prometheus");
    promtool(&folder, &["check", "rules", "qiang.rules.yml"]);
    promtool(&folder, &["test", "rules", "qiang.rules.test.yml"]);

    let (rules, fired) = (
        text("deploy/prometheus/qiang.rules.yml"),
        text("deploy/prometheus/qiang.rules.test.yml"),
    );
    let index = text("docs/operate/alarms.md");
    let mut linked = BTreeSet::new();
    for Alarm {
        name,
        severity,
        page,
    } in alarms(&rules)
    {
        let fires = format!("- name: {name}\n");
        assert!(fired.contains(&fires), "{name} is never fired");
        let (file, section) = page.split_once(".md#").unwrap();
        assert!(PAGES.contains(&file), "{name}: {page}");
        assert_eq!(section, name.to_lowercase(), "{name} links to {page}");
        let row = format!("| [{name}]({page}) | {severity} |");
        assert!(index.contains(&row), "the index lacks {row}");
        linked.insert((file.to_owned(), name.to_owned()));
    }
    let screens: BTreeSet<_> = PAGES
        .into_iter()
        .flat_map(|page| {
            let text = text(&format!("docs/operate/{page}.md"));
            let names = lines_of(&text, "## ").into_iter().map(str::to_owned);
            names
                .map(|name| (page.to_owned(), name))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(linked, screens);
    assert_eq!(unknown(&series(&rules)), Vec::<&str>::new());
}

/// Text with single blanks, so that line breaks do not matter.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Items of the form ``- `command` – well: … Now: …``.
fn looks(screen: &str) -> Vec<String> {
    let items = screen.split("\n- ").skip(1);
    let item = |it: &str| joined(it.split("\n\n").next().unwrap());
    items.map(item).collect()
}

#[test]
fn each_screen_has_all_parts() {
    for page in PAGES {
        let text = text(&format!("docs/operate/{page}.md"));
        assert!(text.lines().count() <= 300, "{page}");
        for screen in text.split("\n## ").skip(1) {
            let name = screen.lines().next().unwrap();
            assert!(screen.lines().count() <= 40, "{name} is no screen");
            assert!(screen.contains("\n**Users see:** "), "{name}");
            assert!(screen.contains("\n**Call** "), "{name}");
            let looks = looks(screen);
            assert_eq!(looks.len(), 3, "{name}: {looks:?}");
            for look in looks {
                assert!(look.starts_with('`'), "{name}: {look}");
                let (well, now) = (look.find(" – well: "), look.find(" Now: "));
                assert!(well.is_some() && well < now, "{name}: {look}");
            }
            let steps = lines_of(screen, "").into_iter();
            let steps: Vec<_> = steps
                .filter(|line| {
                    line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(". ")
                })
                .collect();
            let last = steps.last().unwrap();
            assert!(last.contains("See that it ended: "), "{name}: {last}");
        }
    }
}

/// Text in backticks.
fn quoted(text: &str) -> Vec<String> {
    let text = joined(text);
    let parts = text.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

#[test]
fn screens_name_what_there_is() {
    let (known, defaults) = (known(), qiang::config::DEFAULTS);
    let sections: BTreeSet<_> = lines_of(defaults, "[").into_iter().collect();
    let mut commands = BTreeSet::new();
    for page in PAGES.iter().chain(&["alarms"]) {
        let text = text(&format!("docs/operate/{page}.md"));
        for word in quoted(&text) {
            if let Some(command) = word.strip_prefix("qiang ") {
                commands.insert(command.to_owned());
            } else if let Some((_, name)) = word.split_once("| grep ") {
                assert!(known.contains(&format!("\"{name}")), "{page}: {word}");
            } else if word.starts_with("qiang_") {
                let found = unknown(&series(&word));
                assert_eq!(found, Vec::<&str>::new(), "{page}: {word}");
            } else if let Some((section, key)) = word.split_once('.')
                && sections.contains(&*format!("{section}]"))
                && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            {
                let line = format!("\n{key} = ");
                let of_section = defaults.split(&format!("\n[{section}]\n")).nth(1).unwrap();
                let of_section = of_section.split("\n[").next().unwrap();
                assert!(format!("\n{of_section}").contains(&line), "{page}: {word}");
            }
        }
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() {
                format!("{page}.md")
            } else {
                file.to_owned()
            };
            let target = root().join("docs/operate").join(&file);
            let target = std::fs::read_to_string(target).unwrap_or_else(|_| panic!("{link}"));
            let mut headings = target.lines().filter(|line| line.starts_with('#'));
            let is_it = |line: &str| anchor(line.trim_start_matches(['#', ' '])) == section;
            assert!(section.is_empty() || headings.any(is_it), "{page}: {link}");
        }
    }
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        has_command(&command);
    }
}

/// Expects that the program has this command with these flags.
fn has_command(command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let is_name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let names = words.iter().take_while(|word| !word.starts_with("--"));
    let ran = Command::new(env!("CARGO_BIN_EXE_qiang"))
        .args(names.filter(is_name))
        .arg("--help")
        .env_clear()
        .output()
        .unwrap();
    let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert!(ran.status.success(), "qiang {command}: {said}");
    for flag in words.iter().filter(|word| word.starts_with("--")) {
        assert!(said.contains(*flag), "qiang {command}: no {flag}");
    }
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
