//! `qiang serve`: the service in the foreground, until SIGTERM or SIGINT.

use std::{io::Write as _, process::ExitCode};

use qiang::{config::DEFAULTS, run};
use qiang_core::id::UserId;

use crate::{backend::BackendArgs, sample_shop::SampleShop};

/// User of the token that `--dev` prints.
const DEV_USER: &str = "alice";

const EXAMPLES: &str = "\
Examples:
  qiang serve --dev                      serve on this machine, and print a token
  qiang serve --config /etc/qiang.toml   serve as configured
  qiang serve --print-config > q.toml    start a configuration from the annotated default";

/// Serve the HTTP API. Settings without a flag are in the configuration: see `--print-config`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Listen at this address instead of `server.listen`.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Run for development, on a loopback address only: make a secret for this process, and print a token.
    #[arg(long)]
    dev: bool,
    /// Add no sample shop. Otherwise `--dev` opens a few sales and red packets under the user `market`, unless they are
    /// there. Data that another start made, and data in Redis, gets none.
    #[arg(long, requires = "dev")]
    empty: bool,
    /// Print the annotated default configuration, and exit.
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
        // There is no load balancer in development: Ctrl-C and SIGTERM end the service at once.
        overrides.push(("server.drain_delay_ms", "0".to_owned()));
        // A loopback address is private, and several development services on a machine need one port each.
        overrides.push(("admin.listen", "server".to_owned()));
        overrides.push(("server.docs", "true".to_owned()));
        let mut config = args.backend.load(&overrides)?;
        run::make_development_key(&mut config)?;
        let token = run::development_token(&config, &UserId::new(DEV_USER)?)?;
        let shop = (!args.empty && run::has_sample_shop(&config))
            .then(|| SampleShop::new(&config))
            .transpose()?;
        let scheme = match config.server.tls_certificate_file.as_os_str().is_empty() {
            true => "http",
            false => "https",
        };
        dev = Some((config.auth, token, scheme, shop));
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
        if let Some((_, token, scheme, shop)) = &dev {
            let url = format!("{scheme}://{addr}");
            print_first_steps(&url, token);
            // The client does not trust a certificate that was made for development.
            if let Some(shop) = shop.clone().filter(|_| *scheme == "http") {
                tokio::spawn(shop.open(url));
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the first steps on standard output. Logs go to standard error.
fn print_first_steps(url: &str, token: &str) {
    let text = format!(
        "Qiang serves on {url} for development; the documentation is at {url}/docs\n\
         In a browser you can sign in as any user: {url}/\n\n\
         TOKEN={token}\n\
         curl -sX POST {url}/v1/accounts/alice/deposits -H \"Authorization: Bearer $TOKEN\" \\\n  \
         -H 'Content-Type: application/json' -d '{{\"reference\":\"top-up-1\",\
         \"amount\":100000,\"currency\":\"CNY\"}}'\n\
         curl -sX POST {url}/v1/red-packets -H \"Authorization: Bearer $TOKEN\" \\\n  \
         -H 'Content-Type: application/json' -d '{{\"title\":\"恭喜发财\",\"total\":{{\"amount\":10000,\
         \"currency\":\"CNY\"}},\"shares\":10,\"split\":{{\"rule\":\"double_average\"}}}}'\n\
         curl -sX POST {url}/v1/red-packets/ID/claims -H \"Authorization: Bearer $TOKEN\"\n"
    );
    // The service must not end if standard output is closed.
    drop(std::io::stdout().write_all(text.as_bytes()));
}
