//! The comparison as an SVG file: a panel per load, a bar per scheme, on a logarithmic scale.

use std::path::Path;

use anyhow::anyhow;
use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    load::Name,
    report::{Loaded, Median, Report, Row},
    scheme::PUBLISHED_CONDITIONS,
    table::whole,
};

const PANEL: (u32, u32) = (960, 400);
const FONT: &str = "sans-serif";
/// Colours: red for bars, gold for published results, grey for results that oversold.
const BAR: RGBColor = RGBColor(0xc8, 0x32, 0x2b);
const PUBLISHED: RGBColor = RGBColor(0xb0, 0x7d, 0x12);
const WRONG: RGBColor = RGBColor(0x8c, 0x8c, 0x8c);

pub(super) fn draw(path: &Path, report: &Report) -> anyhow::Result<()> {
    let mut text = String::new();
    // The drawing library's errors cannot be kept, so only their text is.
    render(&mut text, report).map_err(|error| anyhow!("{error}"))?;
    std::fs::write(path, text)?;
    Ok(())
}

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn render(text: &mut String, report: &Report) -> Drawn {
    let panels = report.loads.len();
    let size = (PANEL.0, PANEL.1 * panels as u32);
    let root = SVGBackend::with_string(text, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, loaded) in root.split_evenly((panels, 1)).iter().zip(&report.loads) {
        panel(area, loaded)?;
    }
    root.present()?;
    Ok(())
}

/// Main value of a load: claims in a rush, grants in a drain.
fn figure(load: Name, median: &Median) -> f64 {
    match load {
        Name::Rush => median.claims_per_second,
        Name::Drain => median.grants_per_second,
    }
}

fn panel(area: &Area<'_>, loaded: &Loaded) -> Drawn {
    let load = loaded.load;
    let bars: Vec<(&Row, &Median)> = loaded
        .schemes
        .iter()
        .filter_map(|row| Some((row, row.median.as_ref()?)))
        .collect();
    // The articles measured a rush. Their results do not compare with a drain.
    let published = |row: &Row| {
        let published = row.about.published.filter(|_| load.load == Name::Rush);
        published.map(|published| f64::from(published.qps))
    };
    let figures = bars.iter().flat_map(|(row, median)| {
        [Some(figure(load.load, median)), published(row)]
            .into_iter()
            .flatten()
    });
    let (least, most) = figures.fold((f64::MAX, 1.0_f64), |(least, most), figure| {
        (least.min(figure.max(1.0)), most.max(figure))
    });
    let floor_decade = least.min(most).log10().floor();
    // Half a decade above the highest bar, for its label.
    let top_decade = (most.log10() + 0.5).ceil().max(floor_decade + 1.0);
    let (floor, top) = (10_f64.powf(floor_decade), 10_f64.powf(top_decade));
    let what = match load.load {
        Name::Rush => "claims/s",
        Name::Drain => "grants/s",
    };
    let caption = format!(
        "{}: {} users, {} shares, {} connections",
        load.load.as_str(),
        whole(f64::from(load.users)),
        whole(f64::from(load.shares)),
        load.connections
    );
    let mut chart = ChartBuilder::on(area)
        .caption(caption, (FONT, 20))
        .margin(16)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .build_cartesian_2d(0.0..bars.len() as f64, (floor..top).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .y_desc(what)
        .y_labels((top_decade - floor_decade) as usize + 1)
        .y_label_formatter(&|figure| whole(*figure))
        .label_style((FONT, 13))
        .draw()?;
    let any_published = bars.iter().any(|(row, _)| published(row).is_some());
    let (width, centre) = if any_published {
        (0.4, 0.35)
    } else {
        (0.6, 0.5)
    };
    let centred = |size: u32, vertical| {
        (FONT, size)
            .into_font()
            .color(&BLACK)
            .pos(Pos::new(HPos::Center, vertical))
    };
    for (index, (row, median)) in bars.iter().enumerate() {
        let (left, middle) = (index as f64, index as f64 + 0.5);
        let measured = figure(load.load, median).max(floor);
        let colour = if median.oversold > 0 { WRONG } else { BAR };
        let corners = [
            (left + centre - width / 2.0, floor),
            (left + centre + width / 2.0, measured),
        ];
        chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        let mut labels = vec![whole(measured)];
        if median.oversold > 0 {
            labels.push(format!("oversold {}", whole(median.oversold as f64)));
        }
        for (line, label) in labels.into_iter().enumerate() {
            let at = EmptyElement::at((left + centre, measured));
            let offset = (0, -4 - 14 * line as i32);
            chart.draw_series([at + Text::new(label, offset, centred(12, VPos::Bottom))])?;
        }
        if let Some(published) = published(row) {
            let corners = [(left + 0.58, floor), (left + 0.85, published)];
            chart.draw_series([Rectangle::new(corners, PUBLISHED.stroke_width(2))])?;
        }
        let at = EmptyElement::at((middle, floor));
        let name = row.about.name.to_owned();
        chart.draw_series([at + Text::new(name, (0, 6), centred(14, VPos::Top))])?;
    }
    let (width, height) = area.dim_in_pixel();
    let legend = match load.load {
        Name::Rush => format!("outlined: published ({PUBLISHED_CONDITIONS}); grey: oversold"),
        Name::Drain => "grey: oversold".to_owned(),
    };
    let at = ((width / 2) as i32, height as i32 - 12);
    area.draw(&Text::new(legend, at, centred(13, VPos::Bottom)))?;
    Ok(())
}
