//! Scripts, and what their replies and records mean.

pub(crate) mod campaign_meta;
pub(crate) mod log_record;
pub(crate) mod reply;
pub(crate) mod scripts;
