//! The histogram as an SVG file.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;
use qiang_core::split::Split;

use super::draw::Title;
use super::histogram::{Histogram, Summary};

const SIZE: (u32, u32) = (960, 540);
const BINS_MAX: u64 = 60;
const FONT: &str = "sans-serif";
/// The red of the paper, and the gold of the writing on it.
const BAR: RGBColor = RGBColor(0xc8, 0x32, 0x2b);
const MEAN: RGBColor = RGBColor(0xb0, 0x7d, 0x12);

/// Writes the histogram of `shares` to `path`, with a line at their mean.
pub(super) fn draw(path: &Path, split: &Split, shares: &[i64]) -> anyhow::Result<()> {
    let mut text = String::new();
    // The drawing library's errors borrow nothing we could keep; its text is enough.
    render(&mut text, split, shares).map_err(|error| anyhow!("{error}"))?;
    std::fs::write(path, text)?;
    Ok(())
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn render(text: &mut String, split: &Split, shares: &[i64]) -> Drawn {
    let histogram = Histogram::of(shares, BINS_MAX);
    let mean = Summary::of(shares).mean;
    let fullest = histogram.counts.iter().copied().max().unwrap_or(0);
    let top = fullest + fullest / 20 + 1;
    let width = histogram.width as f64;
    // A bin of one amount is drawn around that amount, so all edges lie half a unit below.
    let edge = |bin: usize| histogram.start as f64 - 0.5 + width * bin as f64;
    let end = edge(histogram.counts.len());

    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(Title(split).to_string(), (FONT, 22))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(edge(0)..end, 0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("share, minor units")
        .y_desc("shares")
        .x_label_formatter(&whole)
        .label_style((FONT, 14))
        .draw()?;
    chart.draw_series(histogram.counts.iter().enumerate().map(|(bin, count)| {
        let corners = [(edge(bin), 0), (edge(bin + 1), *count)];
        let mut bar = Rectangle::new(corners, BAR.filled());
        bar.set_margin(0, 0, 1, 1);
        bar
    }))?;
    let line = [(mean, 0), (mean, top)];
    chart
        .draw_series(std::iter::once(PathElement::new(
            line,
            MEAN.stroke_width(2),
        )))?
        .label(format!("mean {mean:.2}"))
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], MEAN.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .border_style(BLACK.mix(0.2))
        .background_style(WHITE)
        .label_font((FONT, 14))
        .draw()?;
    root.present()?;
    Ok(())
}

/// The label of a tick; none between whole amounts.
fn whole(amount: &f64) -> String {
    if amount.fract() == 0.0 {
        format!("{amount:.0}")
    } else {
        String::new()
    }
}
