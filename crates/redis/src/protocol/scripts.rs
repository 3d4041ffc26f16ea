//! Lua scripts, each composed of the fence and its parts.
//!
//! At `maxmemory` Redis refuses a script at its first write that may take memory, unless the script has a flag. Scripts
//! that grant or open something have no flag. [`AT_MAXMEMORY`] is for scripts that finish what has begun: they free
//! memory or take little, and settlement and returns depend on them. A reloaded campaign may take more, for ten
//! minutes, because a late payment must find its order. At `maxmemory` only such owed steps reload one, within a budget
//! (`reload_room`).

#[cfg(test)]
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::connection::{AT_MAXMEMORY, FENCE, Script};

/// Changes of a partition's agenda.
pub(crate) const AGENDA: &str = include_str!("../lua/agenda.lua");
/// Finds older values of hashes.
pub(crate) const OLDER: &str = include_str!("../lua/older.lua");
/// Counts skipped order numbers.
pub(crate) const SKIPPED: &str = include_str!("../lua/skipped.lua");

macro_rules! scripts {
    ($($name:ident = $file:literal, $($flags:ident)? $($part:literal),+;)+) => {
        $(
            pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
                let head = [$($flags,)? FENCE, AGENDA, OLDER, SKIPPED];
                let parts = [$(include_str!(concat!("../lua/", $part, ".lua"))),+];
                Script::new($file, &[&head[..], &parts[..]].concat())
            });
        )+

        #[cfg(test)]
        pub(crate) fn all() -> Vec<&'static Script> {
            vec![$(&$name),+]
        }

        /// Each file by its name.
        #[cfg(test)]
        fn files() -> BTreeMap<&'static str, &'static str> {
            let head = crate::connection::HEAD;
            let of_others = [("fence", FENCE), ("head", head), ("agenda", AGENDA), ("older", OLDER),
                ("skipped", SKIPPED)];
            let own = [$($(($part, include_str!(concat!("../lua/", $part, ".lua")))),+),+];
            own.into_iter().chain(of_others).collect()
        }
    };
}

scripts! {
    CLAIM_PACKET = "claim_packet", "prelude", "lazy", "batch", "packet", "claim_packet";
    CLAIM_PACKETS = "claim_packets", "prelude", "lazy", "batch", "packet", "claim_packets";
    CLAIM_SALE = "claim_sale", "prelude", "batch", "claim_sale";
    SAVE_SHARD_COUNT = "save_shard_count", "prelude", "reject_reopen", "save_shard_count";
    PRELOAD_SHARES = "preload_shares", "prelude", "reject_reopen", "preload_shares";
    OPEN = "open", "prelude", "reject_reopen", "skip_numbers", "open";
    OPEN_MANY = "open_many", "prelude", "skip_numbers", "open_many";
    EVICT = "evict", AT_MAXMEMORY "prelude", "evict";
    RELOAD_ROWS = "reload_rows", AT_MAXMEMORY "prelude", "reload", "reload_rows";
    RELOAD_END = "reload_end", AT_MAXMEMORY "prelude", "reload", "reload_end";
    RELOAD_ROWS_IN_ROOM = "reload_rows_in_room", "prelude", "reload", "reload_rows";
    RELOAD_END_IN_ROOM = "reload_end_in_room", "prelude", "reload", "reload_end";
    RELOAD_ROOM = "reload_room", AT_MAXMEMORY "prelude", "reload_room";
    PAY = "pay", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "pay";
    CANCEL = "cancel", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "cancel";
    EXTEND_HOLD = "extend_hold", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "extend_hold";
    RETURN_ORDER = "return_order", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "return_order";
    CHANGE_PHASE = "change_phase", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "change_phase";
    SET_STOCK = "set_stock", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "set_stock";
    SET_TERMS = "set_terms", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "set_terms";
    FOLLOW_TERMS = "follow_terms", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "follow_terms";
    TICK = "tick", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "tick";
    RECORD_UPTIME = "record_uptime", AT_MAXMEMORY "prelude", "downtimes", "record_uptime";
    TALLY = "tally", "prelude", "downtimes", "whole", "campaign", "tally";
    RELEASE_WITHHELD = "release_withheld", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "release_withheld";
    ORDER = "order", "prelude", "downtimes", "whole", "campaign", "order";
    ADMIT = "admit", AT_MAXMEMORY "prelude", "admit";
    REBUILD_AGENDA = "agenda_rebuild", AT_MAXMEMORY "prelude", "agenda_rebuild";
    DAMAGE = "damage", AT_MAXMEMORY "prelude", "damage";
    HALT = "halt", AT_MAXMEMORY "prelude", "halt";
    HALT_LOG_GAP = "halt_log_gap", AT_MAXMEMORY "prelude", "halt_log_gap";
    PROBE = "probe", "prelude", "probe";
    TRANSFER_OUT = "transfer_out", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "transfer_out";
    TRANSFER_IN = "transfer_in", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "transfer_in";
    REJECT_TRANSFERS = "reject_transfers", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "reject_transfers";
    TRANSFER_END = "transfer_end", AT_MAXMEMORY "prelude", "downtimes", "whole", "campaign", "transfer_end";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script must read only keys that it receives.
    #[test]
    fn scripts_touch_only_the_keys_they_are_given() {
        for script in all() {
            for (at, _) in script.text.match_indices("KEYS[") {
                let rest = &script.text[at + 5..];
                let number = &rest[..rest.find(']').expect("a bracket")];
                let Ok(number) = number.parse::<usize>() else {
                    continue; // of the keys that a call may have more
                };
                assert!(
                    (1..=crate::connection::SCRIPT_KEYS).contains(&number),
                    "{}",
                    script.name
                );
            }
        }
    }

    /// The header of a script names all its reply statuses, and no others.
    #[test]
    fn headers_name_the_replies() {
        let quoted = |text: &str, before: &str, quote: char| -> BTreeSet<String> {
            let after = text
                .match_indices(before)
                .map(|(at, _)| &text[at + before.len()..]);
            let word = |rest: &str| rest.split(quote).next().unwrap_or("").to_owned();
            after.map(word).collect()
        };
        for (name, text) in files() {
            let (header, body): (Vec<&str>, Vec<&str>) =
                text.lines().partition(|line| line.starts_with("--"));
            let (header, body) = (header.join("\n"), body.join("\n"));
            let replies = header
                .split("-- Replies:")
                .nth(1)
                .expect("a header with the replies");
            let mut replied = quoted(&body, "return {'", '\'');
            if body.contains("return answer(") && !body.contains("function answer(") {
                replied.insert("ok".to_owned());
            }
            let mut named = quoted(replies, "{\"", '"');
            if !replied.contains("unknown") {
                // `campaign` replies it for the scripts that are built on it.
                named.remove("unknown");
            }
            if name == "prelude" {
                // The kept reply is one of another call.
                named.insert("ok".to_owned());
            }
            assert_eq!(named, replied, "{name}");
        }
    }
}
