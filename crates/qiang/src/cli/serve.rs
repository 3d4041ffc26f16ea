//! `qiang serve`: the service in the foreground, until SIGTERM or SIGINT.

use std::{io::Write as _, process::ExitCode};

use qiang::{config::DEFAULTS, run};
use qiang_core::id::UserId;

use crate::backend::BackendArgs;

/// Whom the token of `--dev` is for.
const DEV_USER: &str = "alice";

const EXAMPLES: &str = "\
Examples:
  qiang serve --dev                      serve on this machine, and print a token
  qiang serve --config /etc/qiang.toml   serve as configured
  qiang serve --print-config > q.toml    start a configuration from the annotated default";

/// How to serve. Whatever is not a flag here is configuration: see `--print-config`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Listen here instead of at `server.listen`.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Try it out: make a secret that lasts as long as the process, and print a token. Only on a loopback address.
    #[arg(long)]
    dev: bool,
    /// Print the annotated default configuration, and do nothing else.
    #[arg(long)]
    print_config: bool,
}

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    if args.print_config {
        std::io::stdout().write_all(DEFAULTS.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut overrides = args.backend.overrides();
    overrides.extend(
        args.listen
            .as_ref()
            .map(|listen| ("server.listen", listen.clone())),
    );
    let mut dev = None;
    if args.dev {
        // Nobody balances load between developers: Ctrl-C and SIGTERM end it at once.
        overrides.push(("server.drain_delay_ms", "0".to_owned()));
        // Nobody else is on a loopback address; several developers' services have a port each.
        overrides.push(("admin.listen", "server".to_owned()));
        overrides.push(("server.docs", "true".to_owned()));
        let mut config = args.backend.load(&overrides)?;
        let token = run::make_development_key(&mut config, &UserId::new(DEV_USER)?)?;
        let scheme = match config.server.tls_certificate_file.as_os_str().is_empty() {
            true => "http",
            false => "https",
        };
        dev = Some((config.auth, token, scheme));
    }
    let load = || {
        let mut config = args.backend.load(&overrides)?;
        if let Some((auth, ..)) = &dev {
            config.auth = auth.clone();
            config.pages.development = true;
        }
        Ok(config)
    };
    run::serve(load, |addr| {
        if let Some((_, token, scheme)) = &dev {
            print_first_steps(&format!("{scheme}://{addr}"), token);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// On standard output, where logs do not go.
fn print_first_steps(url: &str, token: &str) {
    let text = format!(
        "Qiang serves on {url} for development; the documentation is at {url}/docs\n\
         In a browser anybody can be anybody: {url}/\n\n\
         TOKEN={token}\n\
         curl -sX POST {url}/v1/accounts/alice/deposits -H \"Authorization: Bearer $TOKEN\" \\\n  \
         -H 'Content-Type: application/json' -d '{{\"amount\":100000,\"currency\":\"CNY\"}}'\n\
         curl -sX POST {url}/v1/red-packets -H \"Authorization: Bearer $TOKEN\" \\\n  \
         -H 'Content-Type: application/json' -d '{{\"title\":\"恭喜发财\",\"total\":{{\"amount\":10000,\
         \"currency\":\"CNY\"}},\"shares\":10,\"split\":{{\"rule\":\"double_average\"}}}}'\n\
         curl -sX POST {url}/v1/red-packets/ID/claims -H \"Authorization: Bearer $TOKEN\"\n"
    );
    // The service is for the network: that nobody reads what it prints is no reason to end.
    drop(std::io::stdout().write_all(text.as_bytes()));
}
