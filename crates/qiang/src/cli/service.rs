//! Common part of commands that call a running service: its URL, the token, the output and the exit codes.

use std::{
    fmt::Display, io::Write as _, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration,
};

use anyhow::anyhow;
use futures_util::{Stream, TryStreamExt as _};
use qiang::UsageError;
use qiang_client::{Client, Error, IdempotencyKey};
use serde::Serialize;

use crate::environment;

/// Exit code if the result is unknown.
const UNKNOWN: u8 = 3;

/// Deadline of requests to nodes without a token, short because another URL may follow.
const NOBODY_MAX: Duration = Duration::from_secs(2);

/// Exit codes of these commands, for help.
pub(crate) const EXITS: &str = "Exits 0 on success, 1 if the service refused or does not answer, 2 if the \
    arguments are wrong, and 3 if the result is unknown: repeat the command with --idempotency-key.";

/// Service and token.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct ServiceArgs {
    /// URL of the service.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "QIANG_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    url: String,
    /// The same as --url http://HOST:PORT.
    #[arg(long, global = true, value_name = "HOST:PORT", hide = true)]
    node: Option<SocketAddr>,
    /// File with a token: see `qiang token`. Default: the value of the variable QIANG_TOKEN.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Give up after this many seconds. Until then the request is repeated, and nothing is done twice.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 15,
        value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
    /// Key of the request: commands with the same key are done once. Default: a new key each time.
    #[arg(long, global = true, value_name = "KEY")]
    idempotency_key: Option<IdempotencyKey>,
    /// Print one JSON object; for a list, one per line.
    #[arg(long, global = true)]
    json: bool,
}

/// Client of a service, and the form of its output.
pub(crate) struct Service {
    pub(crate) client: Client,
    pub(crate) url: String,
    json: bool,
}

/// Does the work with a client. Exits with 3 if the result is unknown.
pub(crate) fn ask(
    args: &ServiceArgs,
    work: impl AsyncFnOnce(&Service) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let url = args.url();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let service = Service {
            client: client(args, &url)?,
            url: url.clone(),
            json: args.json,
        };
        work(&service).await
    });
    let error = match done {
        Ok(()) => return Ok(ExitCode::SUCCESS),
        Err(error) => error.downcast::<Error>()?,
    };
    let is_unknown = error.may_have_happened();
    let error = explained(error, &url);
    if !is_unknown {
        return Err(error);
    }
    eprintln!("qiang: {error:#}");
    Ok(ExitCode::from(UNKNOWN))
}

impl ServiceArgs {
    /// URL of the service.
    pub(crate) fn url(&self) -> String {
        let node = self.node.map(|node| format!("http://{node}"));
        node.unwrap_or_else(|| self.url.clone())
    }

    /// Whether output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn token(&self) -> anyhow::Result<Option<String>> {
        let token = match &self.token_file {
            Some(file) => Some(std::fs::read_to_string(file).map_err(|error| {
                UsageError::new(format!("cannot read {}: {error}", file.display()))
            })?),
            None => environment::variable("QIANG_TOKEN")?,
        };
        Ok(token.filter(|token| !token.trim().is_empty()))
    }

    /// A client without the token, for a URL that need not be the service.
    pub(crate) fn nobody(&self, url: &str) -> anyhow::Result<Client> {
        let client = Client::builder(url).deadline(NOBODY_MAX).build();
        Ok(client.map_err(|error| UsageError::new(error.to_string()))?)
    }
}

fn client(args: &ServiceArgs, url: &str) -> anyhow::Result<Client> {
    let mut builder = Client::builder(url).deadline(Duration::from_secs(args.timeout));
    if let Some(token) = args.token()? {
        builder = builder.token(token);
    }
    let client = builder.build()?;
    Ok(match &args.idempotency_key {
        Some(key) => client.with_key(key.clone()),
        None => client,
    })
}

/// Error of one line, with its remedy.
fn explained(error: Error, url: &str) -> anyhow::Error {
    if let Error::Usage(what) = error {
        return UsageError::new(what).into();
    }
    let advice = match (error.kind(), error.key()) {
        (_, Some(key)) if error.may_have_happened() => {
            format!("the result is unknown: repeat the command with --idempotency-key {key}")
        }
        (_, None) if matches!(error, Error::GaveUp { .. }) && error.may_have_happened() => {
            "the result is unknown: repeat the command; nothing is done twice".to_owned()
        }
        (Some("unauthenticated"), _) => {
            "give a valid token by --token-file or QIANG_TOKEN; `qiang token` makes one".to_owned()
        }
        (Some("forbidden"), _) => "`qiang token --scope` makes a token that allows it".to_owned(),
        (Some("about:blank"), _) => format!("is {url} a Qiang service?"),
        (Some(kind), _) => format!("see {}/problems/{kind}", url.trim_end_matches('/')),
        (None, _) => format!("is there a Qiang service at {url}? set --url or QIANG_URL"),
    };
    anyhow!("{:#}; {advice}", anyhow::Error::new(error))
}

impl Service {
    /// Prints an answer as JSON, or as the text of `line`.
    pub(crate) fn print<T: Serialize>(
        &self,
        answer: &T,
        line: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", serde_json::to_string(answer)?)?,
            false => writeln!(out, "{}", line(answer))?,
        }
        Ok(())
    }

    /// Prints a list as it arrives: one JSON object per line, or a heading and one line per item.
    pub(crate) async fn print_all<T: Serialize>(
        &self,
        heading: &str,
        items: impl Stream<Item = Result<T, Error>>,
        line: impl Fn(&T) -> String,
    ) -> anyhow::Result<()> {
        let mut items = std::pin::pin!(items);
        let mut is_first = true;
        while let Some(item) = items.try_next().await? {
            if std::mem::take(&mut is_first) && !self.json {
                println!("{heading}");
            }
            self.print(&item, &line)?;
        }
        if is_first && !self.json {
            eprintln!("no entries");
        }
        Ok(())
    }
}

/// Secret from the first line of a file, so that it is not in the list of processes.
pub(crate) fn secret(file: &std::path::Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| UsageError::new(format!("cannot read {}: {error}", file.display())))?;
    if text.starts_with('\u{feff}') {
        let why = "begins with a byte order mark (U+FEFF): save it as UTF-8 without one";
        return Err(UsageError::new(format!("{} {why}", file.display())).into());
    }
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// A foreign text without control characters, which could move the cursor or colour the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// A value as text, or a dash if there is none.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
