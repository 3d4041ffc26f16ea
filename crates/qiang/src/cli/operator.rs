//! Actor of changes from the command line.

use qiang::{NodeConfig, Operator, UsageError};
use qiang_core::id::UserId;

use crate::environment;

/// Actor if the environment names no user.
const NOBODY: &str = "unknown";

/// Actor of an action.
#[derive(Debug, clap::Args)]
pub(crate) struct OperatorArgs {
    /// The actor in the operation log of the ledger, which is written before the change. Default: `cli:` and the value
    /// of the variable USER.
    #[arg(long = "as", value_name = "NAME")]
    actor: Option<UserId>,
}

impl OperatorArgs {
    /// The actor, with the operation log.
    pub(crate) fn operator(&self, config: &NodeConfig) -> anyhow::Result<Operator> {
        let actor = match &self.actor {
            Some(actor) => actor.clone(),
            None => from_user(environment::variable("USER")?.as_deref())?,
        };
        Operator::new(actor, config)
    }
}

fn from_user(user: Option<&str>) -> Result<UserId, UsageError> {
    let user = user.filter(|user| !user.is_empty()).unwrap_or(NOBODY);
    UserId::new(&format!("cli:{user}")).map_err(|error| {
        UsageError::new(format!(
            "name the actor by --as NAME: the variable USER is not a valid name: {error}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_machine_are_actors() {
        let check = |user: Option<&str>, expected: Option<&str>| {
            let actor = from_user(user).ok();
            assert_eq!(actor.as_ref().map(UserId::as_str), expected, "{user:?}");
        };
        check(Some("ann"), Some("cli:ann"));
        check(Some(""), Some("cli:unknown"));
        check(None, Some("cli:unknown"));
        check(Some("a b"), None);
    }
}
