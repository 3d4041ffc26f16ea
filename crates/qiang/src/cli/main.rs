//! The `qiang` program: arguments and printing, one file per command.

mod account;
mod amounts;
mod audit;
mod backend;
mod campaign;
mod capacity;
mod color;
mod completions;
mod config;
mod copies;
mod demo;
mod doctor;
mod drill;
mod environment;
mod export;
mod health;
mod histogram;
mod history_filter;
mod import;
mod log;
mod metadata;
mod migrate;
mod openapi;
mod operator;
mod order;
mod packet;
mod packet_file;
mod partition;
mod payment;
mod quarantine;
mod quickstart;
mod reconcile;
mod reconciler;
mod sale;
mod sample_shop;
mod secrets;
mod serve;
mod service;
mod shadow;
mod split;
mod table;
mod token;
mod top;
mod version;
mod webhook;
mod worker;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use qiang::UsageError;

/// Distribute limited stock to many users at once: red packets (抢红包) and flash sales (秒杀).
#[derive(Debug, Parser)]
#[command(name = "qiang", version = version::line(), long_version = version::long(), after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
    /// Colours in help, errors and logs: auto, always or never. `auto`: on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", value_parser = color::parse)]
    color: Option<ColorChoice>,
}

const EXAMPLES: &str = "\
Examples:
  qiang demo                             run a demonstration: users, a packet, a sale, an audit
  qiang serve --dev                      serve on this machine, and print a token
  qiang sale list --phase live           query the service at QIANG_URL with the token in QIANG_TOKEN
  qiang config check --config q.toml     report errors of a configuration";

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Serve the HTTP API.
    Serve(serve::ServeArgs),
    /// Settle grants of the engine on Redis into the ledger, without serving.
    Worker(worker::WorkerArgs),
    /// Check the configuration, or show it.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Quickstart(quickstart::QuickstartArgs),
    Doctor(doctor::DoctorArgs),
    Health(health::HealthArgs),
    /// Create or update the ledger's tables in a database.
    Migrate(migrate::MigrateArgs),
    Backup(copies::BackupArgs),
    Restore(copies::RestoreArgs),
    /// Archive the log of an embedded engine.
    #[command(subcommand)]
    Log(log::LogCommand),
    /// List quarantined entries, and settle or discard them.
    #[command(subcommand)]
    Quarantine(quarantine::QuarantineCommand),
    /// List, inspect, repair and resume the partitions of the engine on Redis.
    #[command(subcommand)]
    Partition(partition::PartitionCommand),
    /// List reconcilers, or run one once.
    #[command(subcommand)]
    Reconciler(reconciler::ReconcilerCommand),
    Sale(sale::SaleArgs),
    Packet(packet::RedPacketArgs),
    Order(order::OrderArgs),
    Payment(payment::PaymentArgs),
    Metadata(metadata::MetadataArgs),
    Account(account::AccountArgs),
    Webhook(webhook::WebhookArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    /// Compare the decisions of an existing shop with those of Qiang.
    #[command(subcommand)]
    Shadow(shadow::ShadowCommand),
    /// Compare the engine on Redis with the ledger, row by row.
    Reconcile(reconcile::ReconcileArgs),
    /// Users grab a red packet and buy out a flash sale over HTTP; an audit proves the result.
    Demo(demo::DemoArgs),
    /// Prove every invariant from the rows of a ledger.
    Audit(audit::AuditArgs),
    Drill(drill::DrillArgs),
    /// Split a total into shares, or verify a split.
    Split(Box<split::SplitArgs>),
    Top(top::TopArgs),
    Capacity(capacity::CapacityArgs),
    /// Make a token.
    Token(token::TokenArgs),
    /// Print the OpenAPI document.
    #[command(after_help = "Example: qiang openapi > openapi.json")]
    Openapi,
    /// Print a shell script that completes commands and flags.
    Completions(completions::CompletionsArgs),
    /// Write manual pages into a folder, one per command.
    Man(completions::ManArgs),
}

/// Runs the work of a command that serves no requests; one thread is enough.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// Runs a command. Exits 0 if it succeeded, 1 if it failed, and 2 if its arguments are wrong.
fn main() -> ExitCode {
    let matches = Cli::command().color(color::help_styles()).get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    color::set(cli.color);
    version::BUILD.announce();
    let result = match cli.command {
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Worker(args) => worker::run(&args),
        CliCommand::Config(command) => config::carry_out(&command),
        CliCommand::Quickstart(args) => quickstart::run(&args),
        CliCommand::Doctor(args) => doctor::run(&args),
        CliCommand::Health(args) => health::run(&args),
        CliCommand::Migrate(args) => migrate::run(&args),
        CliCommand::Backup(args) => copies::back_up(&args),
        CliCommand::Restore(args) => copies::restore(&args),
        CliCommand::Log(command) => log::run(&command),
        CliCommand::Quarantine(command) => quarantine::run(&command),
        CliCommand::Partition(command) => partition::run(&command),
        CliCommand::Reconciler(command) => reconciler::run(&command),
        CliCommand::Sale(args) => sale::run(&args),
        CliCommand::Packet(args) => packet::run(&args),
        CliCommand::Order(args) => order::run(&args),
        CliCommand::Payment(args) => payment::run(&args),
        CliCommand::Metadata(args) => metadata::run(&args),
        CliCommand::Account(args) => account::run(&args),
        CliCommand::Webhook(args) => webhook::run(&args),
        CliCommand::Import(args) => import::run(&args),
        CliCommand::Export(args) => export::run(&args),
        CliCommand::Shadow(command) => shadow::run(&command),
        CliCommand::Reconcile(args) => reconcile::run(&args),
        CliCommand::Demo(args) => demo::run(&args),
        CliCommand::Audit(args) => audit::run(&args),
        CliCommand::Drill(args) => drill::run(&args),
        CliCommand::Split(args) => split::run(*args),
        CliCommand::Top(args) => top::run(&args),
        CliCommand::Capacity(args) => capacity::run(&args),
        CliCommand::Token(args) => token::run(&args),
        CliCommand::Openapi => openapi::run(),
        CliCommand::Completions(args) => completions::run(&args),
        CliCommand::Man(args) => completions::man(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("qiang: {error:#}");
        ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
    })
}

/// An error of wrong arguments, with exit code 2.
fn usage(error: impl std::fmt::Display) -> UsageError {
    UsageError::new(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands without JSON results: they serve, or print a text in a format of its own.
    const WITHOUT_JSON: [&str; 6] = [
        "qiang serve",
        "qiang worker",
        "qiang token",
        "qiang openapi",
        "qiang completions",
        "qiang man",
    ];

    /// Words of a shell line, up to a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let quoted = line.split('\'').enumerate();
        let parts = quoted.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        parts
            .take_while(|word| !["|", ">"].contains(&word.as_str()))
            .collect()
    }

    /// The examples in a command's help.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string);
        let example = |line: &str| {
            let line = line.trim().trim_start_matches("Example: ");
            // In a list of examples, a description follows each command.
            let line = line.split("   ").next().unwrap_or(line);
            line.starts_with("qiang ").then(|| line.to_owned())
        };
        help.unwrap_or_default()
            .lines()
            .filter_map(example)
            .collect()
    }

    /// Collects every executable command with its full name, its parent commands included.
    fn leaves(command: &clap::Command, above: &str, found: &mut Vec<(String, clap::Command)>) {
        let name = format!("{above}{}", command.get_name());
        if !command.has_subcommands() || command.is_args_conflicts_with_subcommands_set() {
            found.push((name.clone(), command.clone()));
        }
        for below in command.get_subcommands() {
            if below.get_name() != "help" {
                leaves(below, &format!("{name} "), found);
            }
        }
    }

    fn all() -> Vec<(String, clap::Command)> {
        let mut root = Cli::command();
        // Adds the global flags to every subcommand.
        root.build();
        let mut found = Vec::new();
        leaves(&root, "", &mut found);
        assert!(found.len() > 50, "{}", found.len());
        found
    }

    #[test]
    fn the_page_of_commands_names_each() {
        let page = include_str!("../../../../docs/reference/commands.md");
        for (name, _) in all() {
            let is_named = [format!("`{name}`"), format!("`{name} ")]
                .iter()
                .any(|text| page.contains(text.as_str()));
            assert!(is_named, "the page does not name {name}");
        }
    }

    #[test]
    fn each_command_has_an_example_that_is_taken() {
        Cli::command().debug_assert();
        for (name, command) in all() {
            let examples = examples(&command);
            let of_it = examples
                .iter()
                .filter(|line| **line == name || line.starts_with(&format!("{name} ")));
            assert!(of_it.count() > 0, "{name} has no example");
        }
        let below = all();
        let below = below.iter().flat_map(|(_, command)| examples(command));
        for line in below.chain(examples(&Cli::command())) {
            let parsed = Cli::command().try_get_matches_from(words(&line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn each_command_that_prints_results_prints_json() {
        for (name, command) in all() {
            let has_json = command.get_arguments().any(|arg| arg.get_id() == "json");
            let is_without = WITHOUT_JSON.contains(&name.as_str());
            assert_eq!(has_json, !is_without, "{name}");
        }
    }
}
