//! Who changes something from the command line, beside the API.

use qiang::{Config, Operator, UsageError};
use qiang_core::id::UserId;

/// The actor where the environment names no user.
const NOBODY: &str = "unknown";

/// Whose action it is.
#[derive(Debug, clap::Args)]
pub(crate) struct OperatorArgs {
    /// Who does it: the actor in the ledger's list of actions, which is written before anything is done. Default:
    /// `cli:` and what the variable USER holds.
    #[arg(long = "as", value_name = "NAME")]
    actor: Option<UserId>,
}

impl OperatorArgs {
    /// Whoever it is, with the log of what they do.
    pub(crate) fn operator(&self, config: &Config) -> anyhow::Result<Operator> {
        let actor = match &self.actor {
            Some(actor) => actor.clone(),
            None => of_user(std::env::var("USER").ok().as_deref())?,
        };
        Operator::new(actor, config)
    }
}

fn of_user(user: Option<&str>) -> Result<UserId, UsageError> {
    let user = user.filter(|user| !user.is_empty()).unwrap_or(NOBODY);
    UserId::new(&format!("cli:{user}")).map_err(|error| {
        UsageError::new(format!(
            "say who does it by --as NAME: the variable USER is no name: {error}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_machine_are_actors() {
        let check = |user: Option<&str>, expected: Option<&str>| {
            let actor = of_user(user).ok();
            assert_eq!(actor.as_ref().map(UserId::as_str), expected, "{user:?}");
        };
        check(Some("ann"), Some("cli:ann"));
        check(Some(""), Some("cli:unknown"));
        check(None, Some("cli:unknown"));
        check(Some("a b"), None);
    }
}
