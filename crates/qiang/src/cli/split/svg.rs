//! Writes the histogram of shares as an SVG file.

use std::{fs, io, path::Path};

use crate::histogram::{Histogram, Summary};

const BINS_MAX: u64 = 60;
const TICKS_MAX: f64 = 8.0;
/// The edges of the plot in an image of 960 × 540.
const LEFT: f64 = 88.0;
const RIGHT: f64 = 944.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 476.0;
/// The red and the gold of a red packet.
const STYLE: &str = "text{font:14px sans-serif;text-anchor:middle}.title{font-size:22px}.y{text-anchor:end}\
    .bar{fill:#c8322b}.mean{stroke:#b07d12;stroke-width:2}.grid{stroke:#ddd}.axis{stroke:#000}";

/// Writes the histogram of `shares` to `path`, with a line at their mean. `title` is text without markup.
pub(super) fn write(path: &Path, title: &str, shares: &[i64]) -> io::Result<()> {
    fs::write(path, render(title, shares))
}

fn render(title: &str, shares: &[i64]) -> String {
    let histogram = Histogram::from_shares(shares, BINS_MAX);
    let mean = Summary::from_shares(shares).mean;
    let fullest = histogram.counts.iter().copied().max().unwrap_or(0);
    let width = histogram.width as f64;
    // A bin of one amount is drawn around that amount, so all edges lie half a unit below.
    let edge = |bin: usize| width * bin as f64 - 0.5;
    let amounts = Axis {
        origin: histogram.start,
        begin: edge(0),
        end: edge(histogram.counts.len()),
        pixels: (LEFT, RIGHT),
    };
    let counts = Axis {
        origin: 0,
        begin: 0.0,
        end: (fullest + fullest / 20 + 1) as f64,
        pixels: (BOTTOM, TOP),
    };

    let mut lines = vec![
        r#"<svg width="960" height="540" viewBox="0 0 960 540" xmlns="http://www.w3.org/2000/svg">"#
            .to_owned(),
        format!(r##"<style>{STYLE}</style><rect width="960" height="540" fill="#fff"/>"##),
        format!(r#"<text class="title" x="480" y="34">{title}</text>"#),
    ];
    for (at, count) in counts.ticks() {
        lines.push(line("grid", (LEFT, at), (RIGHT, at)));
        lines.push(format!(
            r#"<text class="y" x="{:.1}" y="{:.1}">{count}</text>"#,
            LEFT - 8.0,
            at + 5.0
        ));
    }
    for (bin, count) in histogram.counts.iter().enumerate() {
        let (x, y) = (amounts.at(edge(bin)), counts.at(*count as f64));
        let (wide, high) = (amounts.at(edge(bin + 1)) - x - 1.0, BOTTOM - y);
        lines.push(format!(
            r#"<rect class="bar" x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{high:.1}"/>"#
        ));
    }
    for (at, amount) in amounts.ticks() {
        lines.push(line("axis", (at, BOTTOM), (at, BOTTOM + 5.0)));
        lines.push(format!(
            r#"<text x="{at:.1}" y="{:.1}">{amount}</text>"#,
            BOTTOM + 22.0
        ));
    }
    let at = amounts.at(mean - histogram.start as f64);
    lines.extend([
        line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)),
        line("axis", (LEFT, BOTTOM), (LEFT, TOP)),
        line("mean", (at, BOTTOM), (at, TOP)),
        format!(
            r#"<text class="y" x="{:.1}" y="{:.1}">mean {mean:.2}</text>"#,
            RIGHT - 8.0,
            TOP - 6.0
        ),
        r#"<text x="516" y="528">share, minor units</text>"#.to_owned(),
        r#"<text transform="translate(20 266) rotate(-90)">shares</text></svg>"#.to_owned(),
    ]);
    lines.join("\n") + "\n"
}

fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    format!(r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#)
}

/// Axis of whole values, as distances from `origin`: floating point cannot tell large amounts apart.
struct Axis {
    origin: i64,
    /// Distances of the begin and the end of the axis.
    begin: f64,
    end: f64,
    /// Coordinates of begin and end.
    pixels: (f64, f64),
}

impl Axis {
    fn at(&self, distance: f64) -> f64 {
        let (from, to) = self.pixels;
        from + (to - from) * (distance - self.begin) / (self.end - self.begin)
    }

    /// Coordinates and whole values of ticks. Their step is 1, 2 or 5 times a power of ten.
    fn ticks(&self) -> Vec<(f64, i128)> {
        let step_min = (self.end - self.begin) / TICKS_MAX;
        let step = (0..19)
            .flat_map(|power| [1, 2, 5].map(|factor| factor * 10_i128.pow(power)))
            .find(|step| *step as f64 >= step_min)
            .unwrap_or(i128::MAX);
        let origin = i128::from(self.origin);
        let first = (origin + step - 1) / step * step;
        (0..)
            .map(|n| first + n * step)
            .take_while(|value| (value - origin) as f64 <= self.end)
            .map(|value| (self.at((value - origin) as f64), value))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_whole_and_few() {
        let check = |origin: i64, end: f64, expected: &[i128]| {
            let axis = Axis {
                origin,
                begin: -0.5,
                end,
                pixels: (0.0, 1.0),
            };
            let values: Vec<_> = axis.ticks().into_iter().map(|(_, value)| value).collect();
            assert_eq!(values, expected);
        };
        check(1, 0.5, &[1]);
        check(0, 8.0, &[0, 2, 4, 6, 8]);
        check(3, 31.5, &[5, 10, 15, 20, 25, 30]);
        check(991, 960.5, &[1_000, 1_200, 1_400, 1_600, 1_800]);
        check(i64::MAX, 0.5, &[i64::MAX.into()]);
    }

    #[test]
    fn the_largest_amounts_are_drawn() {
        let svg = render("title", &[1, i64::MAX]);
        assert!(
            svg.matches("<rect class").count() == 5 && !svg.contains("NaN"),
            "{svg}"
        );
        assert!(svg.matches("<text x=").count() < 20, "{svg}");
    }
}
