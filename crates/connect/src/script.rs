//! Lua scripts, put together from their parts. Redis knows them by their SHA-1.

use std::sync::LazyLock;

use qiang_core::event::Seq;
use redis::Cmd;

/// What a script begins with that also works when Redis has reached its `maxmemory`.
pub const AT_MAXMEMORY: &str = "#!lua flags=allow-oom\n";

/// One script.
pub struct Script {
    /// Its name in messages.
    pub name: &'static str,
    /// The whole script.
    pub text: String,
    /// Of the text, in hexadecimal digits: the name that Redis calls it by.
    pub sha1: String,
    /// How many of the keys it is given: those up to the last one that it names.
    pub keys: usize,
}

impl Script {
    /// The script of these parts, one behind the other.
    #[must_use]
    pub fn new(name: &'static str, parts: &[&str]) -> Self {
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

/// A call of a script by its text, without its arguments.
pub fn eval(text: &str, keys: &[String]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(text).arg(keys.len()).arg(keys);
    command
}

/// The same for a script that also works when Redis has reached its `maxmemory`.
pub fn eval_at_maxmemory(text: &str, keys: &[String]) -> Cmd {
    eval(&format!("{AT_MAXMEMORY}{text}"), keys)
}

/// Asks where a partition's log ends, in a term; refused where it ends before `min_head`.
pub fn head_in_term(partition: String, term: &str, min_head: Seq) -> Cmd {
    let mut command = eval(&HEAD_IN_TERM, &[partition]);
    command.arg(term).arg(min_head);
    command
}

/// What every script of a partition begins with: nothing is done in another term than the caller's.
pub const FENCE: &str = include_str!("lua/fence.lua");
/// The last entry of a partition's log. Behind the fence.
pub const HEAD: &str = include_str!("lua/head.lua");

static HEAD_IN_TERM: LazyLock<String> = LazyLock::new(|| [FENCE, HEAD].concat());
