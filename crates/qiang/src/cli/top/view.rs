//! Screen of `qiang top`: its contents, and the effects of keys.

use std::collections::VecDeque;

use qiang_client::{CampaignId, Phase};
use ratatui::{
    Frame,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Paragraph, Row, Sparkline, Table, TableState},
};

use super::{
    figures::{CampaignFigures, FigureKind, Figures, PartitionFigures},
    print::{admitted, latency, number, outcomes, partitions},
};

/// Readings in the chart, at least one per column of a wide terminal.
const HISTORY_MAX: usize = 500;
const KEYS: &str = "q quit   ↑↓ select   p pause or resume";

/// Action on a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CampaignAct {
    Pause,
    Resume,
}

/// Effect of a key outside the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    Act(CampaignAct, CampaignId),
}

/// State of the screen.
#[derive(Default)]
pub(super) struct TopScreen {
    url: String,
    has_colors: bool,
    figures: Option<Figures>,
    /// Error of the last reading, if it failed.
    failing: Option<String>,
    claims: VecDeque<u64>,
    selected: Option<CampaignId>,
    asking: Option<(CampaignAct, CampaignId, String)>,
    said: Option<String>,
}

impl TopScreen {
    pub(super) fn new(url: String, has_colors: bool) -> Self {
        Self {
            url,
            has_colors,
            ..Self::default()
        }
    }

    /// Stores a reading, or the error of a failed one.
    pub(super) fn update(&mut self, read: Result<Figures, String>) {
        match read {
            Err(why) => self.failing = Some(why),
            Ok(figures) => {
                self.failing = None;
                self.claims.push_back(figures.claims_per_s.round() as u64);
                if self.claims.len() > HISTORY_MAX {
                    self.claims.pop_front();
                }
                self.figures = Some(figures);
            }
        }
        if self.position().is_none() {
            self.selected = self.campaigns().first().map(|it| it.id.clone());
        }
    }

    /// Shows the result of an action.
    pub(super) fn say(&mut self, what: String) {
        self.said = Some(what);
    }

    /// Handles a key. Returns an effect outside the screen, if any.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Effect> {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_ctrl && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(Effect::Quit);
        }
        self.said = None;
        if let Some((act, id, _)) = self.asking.take() {
            return matches!(key.code, KeyCode::Char('y')).then_some(Effect::Act(act, id));
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Effect::Quit),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Char('p') => {
                let at = self.position()?;
                let campaign = self.campaigns().get(at)?;
                let act = match campaign.state.phase {
                    Phase::Paused => CampaignAct::Resume,
                    _ => CampaignAct::Pause,
                };
                self.asking = Some((act, campaign.id.clone(), campaign.title.clone()));
            }
            _ => {}
        }
        None
    }

    fn campaigns(&self) -> &[CampaignFigures] {
        self.figures.as_ref().map_or(&[], |it| &it.campaigns)
    }

    fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.campaigns().iter().position(|it| it.id == *selected)
    }

    fn select(&mut self, by: isize) {
        let last = self.campaigns().len().saturating_sub(1);
        let at = self.position().unwrap_or(0).saturating_add_signed(by);
        self.selected = self.campaigns().get(at.min(last)).map(|it| it.id.clone());
    }

    fn color(&self, color: Color) -> Style {
        match self.has_colors {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    fn alarm(&self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let [head, numbers, chart, campaigns, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(8),
            Constraint::Length(5),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head);
        let [left, right] =
            Layout::horizontal([Constraint::Length(34), Constraint::Min(20)]).areas(numbers);
        self.draw_outcomes(frame, left);
        self.draw_numbers(frame, right);
        self.draw_chart(frame, chart);
        self.draw_campaigns(frame, campaigns);
        self.draw_foot(frame, foot);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let name = Span::styled("qiang top ", Style::new().add_modifier(Modifier::BOLD));
        let alarms = self.figures.as_ref().map(Figures::alarms);
        let state = match (&self.failing, &alarms) {
            (Some(why), _) => Span::styled(why.clone(), self.alarm()),
            (None, None) => Span::raw("reading"),
            (None, Some(alarms)) if alarms.is_empty() => {
                Span::styled("granting", self.color(Color::Green))
            }
            (None, Some(alarms)) => Span::styled(alarms.join("; "), self.alarm()),
        };
        let line = Line::from(vec![name, Span::raw(format!("{}  ", self.url)), state]);
        frame.render_widget(line, area);
    }

    fn draw_outcomes(&self, frame: &mut Frame<'_>, area: Rect) {
        let total = self.figures.as_ref().map_or(0.0, |it| it.claims_per_s);
        let block = Block::bordered().title(format!(" claims/s {} ", number(total)));
        let outcomes = self.figures.as_ref().map(outcomes).unwrap_or_default();
        let line = |(name, rate): (&str, f64)| {
            let style = match name {
                "granted" => self.color(Color::Green),
                "failed" => self.alarm(),
                _ => Style::new(),
            };
            Line::styled(format!("{name:<18}{:>12}", number(rate)), style)
        };
        let lines: Vec<_> = outcomes.into_iter().map(line).collect();
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }

    fn draw_numbers(&self, frame: &mut Frame<'_>, area: Rect) {
        let block = Block::bordered().title(" node ");
        let Some(figures) = &self.figures else {
            return frame.render_widget(block, area);
        };
        let lag = format!("{} entries", figures.settlement_lag_entries);
        let queue = format!(
            "{}, waiting {}, connections {}",
            figures.queue_length, figures.queue_entries, figures.connections
        );
        let is_fine = |it: &PartitionFigures| it.is_ready && it.replicas_missing == 0;
        let grants = figures.partitions.iter().all(is_fine) && !figures.is_stopped;
        let lines: Vec<_> = [
            ("latency", latency(figures), true),
            ("admitted", admitted(figures), true),
            ("queue", queue, true),
            ("lag", lag, !figures.is_stuck),
            ("partitions", partitions(figures), grants),
        ]
        .into_iter()
        .map(|(name, value, is_fine)| {
            let style = if is_fine { Style::new() } else { self.alarm() };
            Line::styled(format!("{name:<11}{value}"), style)
        })
        .collect();
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }

    fn draw_chart(&self, frame: &mut Frame<'_>, area: Rect) {
        let wide = usize::from(area.width.saturating_sub(2));
        let from = self.claims.len().saturating_sub(wide);
        let shown: Vec<u64> = self.claims.iter().skip(from).copied().collect();
        let most = shown.iter().copied().max().unwrap_or(0);
        let chart = Sparkline::default()
            .block(Block::bordered().title(format!(" claims/s, up to {most} ")))
            .style(self.color(Color::Cyan))
            .data(shown);
        frame.render_widget(chart, area);
    }

    fn draw_campaigns(&self, frame: &mut Frame<'_>, area: Rect) {
        let no_campaigns = self.figures.as_ref().and_then(|it| it.no_campaigns.clone());
        let block = Block::bordered().title(match &no_campaigns {
            Some(why) => format!(" campaigns: {why} "),
            None => " campaigns ".to_owned(),
        });
        let rows = self.campaigns().iter().map(|campaign| {
            let state = &campaign.state;
            let kind = match campaign.kind {
                FigureKind::Sale => "sale",
                FigureKind::RedPacket => "packet",
            };
            let style = match state.phase {
                Phase::Paused => self.color(Color::Yellow),
                _ => Style::new(),
            };
            Row::new([
                kind.to_owned(),
                state.phase.to_string(),
                format!("{}/{}", state.remaining, state.supply),
                number(campaign.granted_per_s),
                campaign.title.clone(),
            ])
            .style(style)
        });
        let widths = [
            Constraint::Length(6),
            Constraint::Length(7),
            Constraint::Length(17),
            Constraint::Length(9),
            Constraint::Min(10),
        ];
        let heading = Row::new(["", "phase", "left", "grants/s", "title"]);
        let table = Table::new(rows, widths)
            .header(heading.style(Style::new().add_modifier(Modifier::UNDERLINED)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
            .block(block);
        let mut selected = TableState::new().with_selected(self.position());
        frame.render_stateful_widget(table, area, &mut selected);
    }

    fn draw_foot(&self, frame: &mut Frame<'_>, area: Rect) {
        let line = match (&self.asking, &self.said) {
            (Some((act, _, title)), _) => {
                let what = match act {
                    CampaignAct::Pause => "pause",
                    CampaignAct::Resume => "resume",
                };
                Line::styled(
                    format!("{what} {title:?}? y, or any other key"),
                    self.alarm(),
                )
            }
            (None, Some(said)) => Line::raw(said.clone()),
            (None, None) => Line::raw(KEYS),
        };
        frame.render_widget(line, area);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::json;

    use super::*;

    fn campaign(id: &str, title: &str, phase: &str) -> CampaignFigures {
        let time = "2026-11-21T12:00:00.000Z";
        let state = json!({
            "phase": phase, "supply": 100, "granted": 40, "remaining": 60, "returned": 0,
            "withheld": 0,
            "starts_at": time, "ends_at": time, "now": time,
        });
        CampaignFigures {
            id: id.parse().unwrap(),
            kind: FigureKind::Sale,
            title: title.to_owned(),
            granted_per_s: 12.0,
            state: serde_json::from_value(state).unwrap(),
        }
    }

    fn figures() -> Figures {
        let outcomes = [("granted", 1_234.0), ("sold_out", 98_765.0), ("ended", 0.0)];
        Figures {
            interval_s: 1.0,
            claims_per_s: 99_999.0,
            outcomes_per_s: outcomes.map(|(name, rate)| (name.to_owned(), rate)).into(),
            settlement_lag_entries: 17,
            campaigns: vec![
                campaign("a", "手机 phones", "live"),
                campaign("b", "tickets", "paused"),
            ],
            ..Figures::default()
        }
    }

    fn shown(view: &TopScreen) -> (String, bool) {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let cells = buffer.content();
        let has_colors = cells
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        let lines = cells.chunks(80).map(|line| {
            let line: String = line.iter().map(|cell| cell.symbol()).collect();
            line.trim_end().to_owned()
        });
        (lines.collect::<Vec<_>>().join("\n"), has_colors)
    }

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn all_of_it_is_on_a_screen_of_80_by_24() {
        let mut view = TopScreen::new("http://127.0.0.1:8080".to_owned(), true);
        assert!(shown(&view).0.contains("reading"));
        view.update(Ok(figures()));
        let (text, has_colors) = shown(&view);
        assert!(has_colors);
        for expected in [
            "qiang top http://127.0.0.1:8080  granting",
            "claims/s 99999",
            "granted                   1234",
            "sold_out                 98765",
            "lag        17 entries",
            "60/100",
            "phones",
            "tickets",
            "q quit",
        ] {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
        assert!(!text.contains("ended "), "{text}");
        // If a node does not answer, the screen shows the error and keeps the previous reading.
        view.update(Err("cannot connect".to_owned()));
        let text = shown(&view).0;
        assert!(
            text.contains("cannot connect") && text.contains("tickets"),
            "{text}"
        );
        let stuck = Figures {
            is_stuck: true,
            ..figures()
        };
        view.update(Ok(stuck));
        assert!(shown(&view).0.contains("settlement stuck"));
    }

    #[test]
    fn without_colors_there_are_none() {
        let mut view = TopScreen::default();
        view.update(Ok(figures()));
        view.key(key(KeyCode::Char('p')));
        assert!(!shown(&view).1);
    }

    #[test]
    fn a_campaign_is_paused_after_a_question() {
        let mut view = TopScreen::default();
        view.update(Ok(figures()));
        let (a, b): (CampaignId, CampaignId) = ("a".parse().unwrap(), "b".parse().unwrap());
        assert_eq!(view.key(key(KeyCode::Char('y'))), None);
        assert_eq!(view.key(key(KeyCode::Char('p'))), None);
        assert!(shown(&view).0.contains("y, or any other key"));
        let yes = view.key(key(KeyCode::Char('y')));
        assert_eq!(yes, Some(Effect::Act(CampaignAct::Pause, a.clone())));
        // Any key but y declines.
        view.key(key(KeyCode::Char('p')));
        assert_eq!(view.key(key(KeyCode::Enter)), None);
        assert_eq!(view.key(key(KeyCode::Char('y'))), None);
        // The campaign below is already paused.
        view.key(key(KeyCode::Down));
        view.key(key(KeyCode::Down));
        view.key(key(KeyCode::Char('p')));
        let yes = view.key(key(KeyCode::Char('y')));
        assert_eq!(yes, Some(Effect::Act(CampaignAct::Resume, b)));
        // A campaign stays selected if others appear above it. If it disappears, another one is selected.
        let mut fewer = figures();
        fewer.campaigns.pop();
        view.update(Ok(fewer));
        view.key(key(KeyCode::Char('p')));
        let yes = view.key(key(KeyCode::Char('y')));
        assert_eq!(yes, Some(Effect::Act(CampaignAct::Pause, a)));
        assert_eq!(view.key(key(KeyCode::Char('q'))), Some(Effect::Quit));
    }
}
