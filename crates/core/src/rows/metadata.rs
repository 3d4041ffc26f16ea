//! Rows of `metadata` and `shop_references`.

use super::Contradiction;
use crate::{id::ShopReference, metadata::Metadata};

/// Converts a reference of a row.
///
/// # Errors
/// If it is invalid.
pub fn metadata_reference(reference: &str) -> Result<ShopReference, Contradiction> {
    let bad = |_| Contradiction::new(format!("the reference {reference:?} is invalid"));
    ShopReference::new(reference).map_err(bad)
}

/// Name of the row that an object has once metadata was stored for it. It is locked before a change, and stays if all
/// is removed.
pub const METADATA_MARK: &str = "";

/// Adds the name and the value of a row, unless it is the mark.
///
/// # Errors
/// If one of them is invalid.
pub fn add_metadata_value(
    metadata: &mut Metadata,
    name: &str,
    value: &str,
) -> Result<(), Contradiction> {
    if name == METADATA_MARK {
        return Ok(());
    }
    let bad = |_| Contradiction::new(format!("metadata with the name {name:?} is invalid"));
    let value = value.parse().map_err(bad)?;
    metadata.values.insert(name.parse().map_err(bad)?, value);
    Ok(())
}
