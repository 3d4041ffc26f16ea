//! A node's cache of campaigns: settings, unknown ids, and the campaigns that users watch.

pub(crate) mod campaigns;
pub(crate) mod grant_timelines;
pub(crate) mod unknown_campaigns;
pub(crate) mod watched_campaigns;
