//! `qiang openapi`: prints the OpenAPI document of the HTTP API.

use std::{io::Write as _, process::ExitCode};

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut text = serde_json::to_string_pretty(&qiang::document())?;
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
