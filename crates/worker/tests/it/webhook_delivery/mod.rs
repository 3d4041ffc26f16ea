//! Tests of webhook requests.
mod sending;
