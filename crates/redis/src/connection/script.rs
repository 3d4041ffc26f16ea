//! Lua scripts, assembled from parts. Redis identifies them by SHA-1.

use std::sync::LazyLock;

use qiang_core::event::Seq;
use redis::Cmd;

/// First line of a script that must also run when Redis has reached its `maxmemory`.
pub(crate) const AT_MAXMEMORY: &str = "#!lua flags=allow-oom\n";

/// Lua script.
pub(crate) struct Script {
    /// Name in messages.
    pub name: &'static str,
    /// The whole script.
    pub text: String,
    /// SHA-1 of the text in hexadecimal digits, by which Redis calls the script.
    pub sha1: String,
    /// Number of keys that the script gets: those up to the last one that it names.
    pub keys: usize,
}

impl Script {
    /// Script of these parts in order.
    #[must_use]
    pub(crate) fn new(name: &'static str, parts: &[&str]) -> Self {
        let text = parts.concat();
        let sha1 = sha1_smol::Sha1::from(&text).digest().to_string();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"));
        let named = code.flat_map(|line| line.split("KEYS[").skip(1));
        let numbers = named.filter_map(|rest| rest.split(']').next()?.parse().ok());
        let keys = numbers.max().unwrap_or(0);
        Self {
            name,
            text,
            sha1,
            keys,
        }
    }
}

/// Call of a script by its text, without arguments.
pub(crate) fn eval(text: &str, keys: &[String]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(text).arg(keys.len()).arg(keys);
    command
}

/// The same for a script that must also run when Redis has reached its `maxmemory`.
pub(crate) fn eval_at_maxmemory(text: &str, keys: &[String]) -> Cmd {
    eval(&format!("{AT_MAXMEMORY}{text}"), keys)
}

/// Command that returns the end of a partition's log in a term. The server refuses if its log ends before `min_head`.
pub(crate) fn head_in_term(partition: String, term: &str, min_head: Seq) -> Cmd {
    let mut command = eval(&HEAD_IN_TERM, &[partition]);
    command.arg(term).arg(min_head);
    command
}

/// First part of every script of a partition. It refuses calls of another term than the current one.
pub(crate) const FENCE: &str = include_str!("lua/fence.lua");
/// Script that returns the last entry of a partition's log. Follows the fence.
pub(crate) const HEAD: &str = include_str!("lua/head.lua");

static HEAD_IN_TERM: LazyLock<String> = LazyLock::new(|| [FENCE, HEAD].concat());
