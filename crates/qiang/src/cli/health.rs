//! `qiang health`: asks a node or a worker whether it lives or is ready, for health checks of containers.

use std::{
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, anyhow};

use crate::usage;

/// Longest part of an answer that is read.
const ANSWER_BYTES_MAX: u64 = 65_536;

/// Ask a node or a worker for /healthz or /readyz. Exits 0 if the answer is 200, otherwise 1.
///
/// For health checks of containers, whose image has no other program.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang health --ready --listen 127.0.0.1:8082")]
pub(crate) struct HealthArgs {
    /// Address of the operators' listener: `admin.listen` of a node, `worker.listen` of a worker. It speaks HTTP.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8082")]
    listen: String,
    /// Ask for /readyz: whether it can grant. Default: /healthz, whether the process answers.
    #[arg(long)]
    ready: bool,
    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &HealthArgs) -> anyhow::Result<ExitCode> {
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let (status, body) =
        ask(args, path).with_context(|| format!("no answer of http://{}{path}", args.listen))?;
    match args.json {
        true => println!("{}", serde_json::json!({ "status": status, "body": body })),
        false => println!("{status} {}", body.trim()),
    }
    Ok(ExitCode::from(u8::from(status != 200)))
}

/// Status and body of an answer.
fn ask(args: &HealthArgs, path: &str) -> anyhow::Result<(u16, String)> {
    let wait_max = Duration::from_secs(args.timeout);
    let addrs = args.listen.to_socket_addrs();
    let addrs = addrs.map_err(|error| usage(format!("--listen {}: {error}", args.listen)))?;
    let mut failure = anyhow!("the name has no address");
    for addr in addrs {
        match TcpStream::connect_timeout(&addr, wait_max) {
            Ok(stream) => return exchange(stream, path, wait_max),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

fn exchange(
    mut stream: TcpStream,
    path: &str,
    wait_max: Duration,
) -> anyhow::Result<(u16, String)> {
    stream.set_read_timeout(Some(wait_max))?;
    stream.set_write_timeout(Some(wait_max))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    parse(&String::from_utf8_lossy(&answer)).context("the answer is not HTTP")
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut words = head.split(' ');
    let is_http = words.next()?.starts_with("HTTP/1.");
    let status = words.next()?.parse().ok()?;
    is_http.then(|| (status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_of_an_answer_are_read() {
        let answer = "HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\n{\"status\":\"starting\"}";
        let expected = (503, "{\"status\":\"starting\"}".to_owned());
        assert_eq!(parse(answer), Some(expected));
        for not_http in [
            "",
            "SSH-2.0-x 200 y\r\n\r\n",
            "HTTP/1.1 many\r\n\r\n",
            "HTTP/1.1 200 OK",
        ] {
            assert_eq!(parse(not_http), None, "{not_http}");
        }
    }
}
