//! Terminal of `qiang top`: draws until a key or a signal, and then restores the terminal.

use std::time::Duration;

use qiang_client::Client;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    reader::MetricsReader,
    view::{CampaignAct, Effect, TopScreen},
};
use crate::{color, service::Service};

/// Bound of news that wait to be drawn.
const NEWS_MAX: usize = 16;

enum News {
    Read(Result<super::figures::Figures, String>),
    Acted(String),
    Key(KeyEvent),
    Resized,
}

/// Guard that restores the terminal on drop, also during a panic.
struct TerminalGuard;

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows a service until a key or a signal ends the program.
pub(super) async fn show(
    service: &Service,
    reader: MetricsReader,
    every: Duration,
) -> anyhow::Result<()> {
    let mut view = TopScreen::new(service.url.clone(), color::is_on_screen());
    let (tell, mut news) = mpsc::channel(NEWS_MAX);
    // Registered before the terminal changes: a signal must not end the process without restoring the terminal.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminal = ratatui::try_init()?;
    let _restored = TerminalGuard;
    tokio::spawn(read(reader, every, tell.clone()));
    let keys = tell.clone();
    std::thread::spawn(move || watch_keys(&keys));
    loop {
        terminal.draw(|frame| view.draw(frame))?;
        let one = tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => break,
            one = news.recv() => one,
        };
        match one {
            Some(News::Read(read)) => view.update(read),
            Some(News::Acted(said)) => view.say(said),
            Some(News::Resized) => {}
            Some(News::Key(key)) => match view.key(key) {
                Some(Effect::Quit) => break,
                Some(Effect::Act(act, id)) => {
                    let (client, tell) = (service.client.clone(), tell.clone());
                    tokio::spawn(async move {
                        let said = carry_out(&client, act, &id).await;
                        drop(tell.send(News::Acted(said)).await);
                    });
                }
                None => {}
            },
            None => break,
        }
    }
    Ok(())
}

async fn read(mut reader: MetricsReader, every: Duration, tell: mpsc::Sender<News>) {
    loop {
        let read = reader.read().await;
        let read = read.map_err(|error| crate::service::plain(&chain(&error)));
        if tell.send(News::Read(read)).await.is_err() {
            return;
        }
        tokio::time::sleep(every).await;
    }
}

/// Reads keys. Reading blocks, so it runs in its own thread, which ends with the process.
fn watch_keys(tell: &mpsc::Sender<News>) {
    while let Ok(event) = event::read() {
        let one = match event {
            Event::Key(key) if key.kind == KeyEventKind::Press => News::Key(key),
            Event::Resize(..) => News::Resized,
            _ => continue,
        };
        if tell.blocking_send(one).is_err() {
            return;
        }
    }
}

async fn carry_out(client: &Client, act: CampaignAct, id: &qiang_client::CampaignId) -> String {
    let (done, state) = match act {
        CampaignAct::Pause => ("paused", client.pause(id).await),
        CampaignAct::Resume => ("resumed", client.resume(id).await),
    };
    match state {
        Ok(_) => format!("{done} {id}"),
        Err(error) => crate::service::plain(&format!("not {done}: {}", chain(&error))),
    }
}

fn chain(error: &qiang_client::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
