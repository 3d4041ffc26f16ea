//! Bodies of answers about the operation log.

use serde_json::Value;

use crate::{bodies::bodies, ids::Id, values::Timestamp, words::ActionKind};

bodies! {
    /// Change that a user or operator requested. It is recorded before the engine decides, so it may have been refused.
    Action {
        /// Its id.
        id: Id,
        /// Time of the request.
        at: Timestamp,
        /// Subject of the request's token, or the name given on the command line.
        actor: String,
        /// Kind of action.
        action: ActionKind,
        /// Id of the changed object.
        subject: String,
        /// Id of the request; empty for actions from the command line.
        request_id: String,
        /// Content of the request.
        #[cfg_attr(feature = "service", schema(value_type = Object))]
        detail: Value,
        /// Earlier values of the changed fields, as read just before the change. Texts such as the title are left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "service", schema(value_type = Option<Object>))]
        before: Option<Value>,
    }
}
