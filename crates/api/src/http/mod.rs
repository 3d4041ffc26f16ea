//! Parts of requests and answers: wire types, problems, addresses, headers, pages of lists.

pub(crate) mod auth_failure;
pub(crate) mod client_address;
pub(crate) mod compression;
pub(crate) mod cors;
pub(crate) mod declared;
pub(crate) mod entity_tag;
pub(crate) mod grant_bodies;
pub(crate) mod https;
pub(crate) mod metadata_bodies;
pub(crate) mod paging;
pub(crate) mod problem;
pub(crate) mod request_id;
pub(crate) mod request_log;
pub(crate) mod response_headers;
pub(crate) mod strict;
pub(crate) mod traffic;
pub(crate) mod watched_file;
pub(crate) mod wire;
