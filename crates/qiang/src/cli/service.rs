//! Commands for a service that runs, over its HTTP API: where it is, the right to ask, what is printed, how it ends.

use std::{
    fmt::Display, io::Write as _, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration,
};

use anyhow::anyhow;
use futures_util::{Stream, TryStreamExt as _};
use qiang::UsageError;
use qiang_client::{Client, Error, IdempotencyKey};
use serde::Serialize;

/// It is not known whether it was done.
const UNKNOWN: u8 = 3;

/// How long what is no service may take: there may be another place to ask.
const NOBODY_MAX: Duration = Duration::from_secs(2);

/// How these commands end.
pub(crate) const EXITS: &str = "Exits 0 when it is done, 1 when the service refused or does not answer, 2 when it was \
    asked wrongly, and 3 when there was no answer to something that may have been done: repeat it with \
    --idempotency-key.";

/// The service to ask, and the right to.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct ServiceArgs {
    /// The service.
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
    /// A file with a token: see `qiang token`. Default: the token is what the variable QIANG_TOKEN holds.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Give up after this many seconds. Until then it is tried again, and nothing is done twice.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 15,
        value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
    /// Names what is asked for, so that repeating the command does it once. Default: a new key each time.
    #[arg(long, global = true, value_name = "KEY")]
    idempotency_key: Option<IdempotencyKey>,
    /// Print one JSON object; of a list one a line.
    #[arg(long, global = true)]
    json: bool,
}

/// A service, and how its answers are printed.
pub(crate) struct Service {
    pub(crate) client: Client,
    #[cfg_attr(not(feature = "top"), expect(dead_code, reason = "a screen shows it"))]
    pub(crate) url: String,
    json: bool,
}

/// Does the work with a client.
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
    /// Where the service is.
    pub(crate) fn url(&self) -> String {
        let node = self.node.map(|node| format!("http://{node}"));
        node.unwrap_or_else(|| self.url.clone())
    }

    /// Whether answers are printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn token(&self) -> anyhow::Result<Option<String>> {
        let token = match &self.token_file {
            Some(file) => Some(std::fs::read_to_string(file).map_err(|error| {
                UsageError::new(format!("cannot read {}: {error}", file.display()))
            })?),
            None => std::env::var("QIANG_TOKEN").ok(),
        };
        Ok(token.filter(|token| !token.trim().is_empty()))
    }

    /// A client of something else than the service: it hears no token.
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

/// One line: what is wrong, and what to do.
fn explained(error: Error, url: &str) -> anyhow::Error {
    if let Error::Usage(what) = error {
        return UsageError::new(what).into();
    }
    let advice = match (error.kind(), error.key()) {
        (_, Some(key)) if error.may_have_happened() => {
            format!("it may have been done: repeat the command with --idempotency-key {key}")
        }
        (_, None) if matches!(error, Error::GaveUp { .. }) && error.may_have_happened() => {
            "it may have been done: repeat the command, and what was made is not made again"
                .to_owned()
        }
        (Some("unauthenticated"), _) => {
            "give a valid token by --token-file or QIANG_TOKEN; `qiang token` makes one".to_owned()
        }
        (Some("forbidden"), _) => "`qiang token --scope` makes a token that allows it".to_owned(),
        (Some("about:blank"), _) => format!("is {url} a Qiang service?"),
        (Some(kind), _) => format!(
            "{}/problems/{kind} says what to do",
            url.trim_end_matches('/')
        ),
        (None, _) => format!("is there a Qiang service at {url}? --url or QIANG_URL names it"),
    };
    anyhow!("{:#}; {advice}", anyhow::Error::new(error))
}

impl Service {
    /// Prints an answer: as JSON, or as this line.
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

    /// Prints a list as it comes: JSON a line, or a heading and a line each.
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
            eprintln!("there are none");
        }
        Ok(())
    }
}

/// A secret that must not stand in the list of processes: the first line of a file.
pub(crate) fn secret(file: &std::path::Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| UsageError::new(format!("cannot read {}: {error}", file.display())))?;
    if text.starts_with('\u{feff}') {
        let why = "begins with a byte order mark (U+FEFF): save it as UTF-8 without one";
        return Err(UsageError::new(format!("{} {why}", file.display())).into());
    }
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// A text of somebody's: without what would move the cursor or colour the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// A text, or a dash where there is none.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
