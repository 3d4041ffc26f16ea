//! Metadata in requests, and in the bodies of objects.

use std::{collections::BTreeMap, fmt};

use qiang_core::{
    id::ShopReference,
    metadata::{
        METADATA_NAME_CHARS_MAX, METADATA_NAMES_MAX, METADATA_VALUE_CHARS_MAX, Metadata,
        MetadataChange, MetadataName, MetadataValue,
    },
};
use qiang_wire::answers;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use utoipa::openapi::{
    Schema,
    schema::{ObjectBuilder, SchemaType, Type},
};

use crate::http::{problem::ApiProblem, wire::Text};

/// Values by name in the body of a request; with `null` as a value if the type allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetadataBody<V>(pub(crate) BTreeMap<MetadataName, V>);

/// Metadata of a new object.
pub(crate) type NewMetadata = MetadataBody<Text<MetadataValue>>;
/// Changed names of metadata; `null` removes a name.
pub(crate) type ChangedMetadata = MetadataBody<Option<Text<MetadataValue>>>;

impl<V> Default for MetadataBody<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> MetadataBody<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Serialize> Serialize for MetadataBody<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name.as_str(), value)))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for MetadataBody<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = BTreeMap::<String, V>::deserialize(deserializer)?;
        let mut values = BTreeMap::new();
        for (name, value) in texts {
            values.insert(name.parse().map_err(D::Error::custom)?, value);
        }
        match values.len() <= METADATA_NAMES_MAX {
            true => Ok(Self(values)),
            false => Err(D::Error::custom(format!(
                "a request has at most {METADATA_NAMES_MAX} names of metadata"
            ))),
        }
    }
}

/// Schema of the metadata of a new object.
pub(crate) fn new_metadata() -> Schema {
    let description = "Up to 20 texts of the shop by name. Users do not see them.";
    schema_of(Type::String.into(), description)
}

/// Schema of changed metadata.
pub(crate) fn changed_metadata() -> Schema {
    let description = "New values by name; null removes a name. An object has at most 20 names.";
    let value = SchemaType::from_iter([Type::String, Type::Null]);
    schema_of(value, description)
}

fn schema_of(value: SchemaType, description: &str) -> Schema {
    let value = ObjectBuilder::new()
        .schema_type(value)
        .min_length(Some(1))
        .max_length(Some(METADATA_VALUE_CHARS_MAX))
        .pattern(Some("^[^\\x00-\\x1f\\x7f-\\x9f]+$"));
    let name = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(format!(
            "^[A-Za-z0-9._-]{{1,{METADATA_NAME_CHARS_MAX}}}$"
        )));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .additional_properties(Some(value))
        .property_names(Some(name))
        .max_properties(Some(METADATA_NAMES_MAX))
        .into()
}

impl NewMetadata {
    /// Metadata of a new object, with its reference.
    pub(crate) fn of(&self, reference: Option<&Text<ShopReference>>) -> Metadata {
        let values = self.0.iter();
        Metadata {
            reference: reference.map(|it| it.0.clone()),
            is_unique: false,
            values: values
                .map(|(name, value)| (name.clone(), value.0.clone()))
                .collect(),
        }
    }

    /// As [`NewMetadata::of`], with a reference that may be unique.
    pub(crate) fn of_new(
        &self,
        reference: Option<&Text<ShopReference>>,
        is_unique: Option<bool>,
    ) -> Result<Metadata, ApiProblem> {
        check_unique(reference.is_some(), is_unique)?;
        Ok(Metadata {
            is_unique: is_unique.unwrap_or_default(),
            ..self.of(reference)
        })
    }
}

/// Refuses a word about the uniqueness of a reference that is not sent.
fn check_unique(has_reference: bool, is_unique: Option<bool>) -> Result<(), ApiProblem> {
    match is_unique {
        Some(_) if !has_reference => {
            let detail = "send `unique_reference` with the reference";
            Err(ApiProblem::invalid_at("#/unique_reference", detail))
        }
        _ => Ok(()),
    }
}

impl ChangedMetadata {
    /// The requested change, with that of the reference.
    pub(crate) fn change(
        &self,
        reference: Option<&Option<Text<ShopReference>>>,
        is_unique: Option<bool>,
    ) -> Result<MetadataChange, ApiProblem> {
        check_unique(matches!(reference, Some(Some(_))), is_unique)?;
        let values = self.0.iter();
        Ok(MetadataChange {
            reference: reference.map(|to| to.as_ref().map(|it| it.0.clone())),
            is_unique,
            values: values
                .map(|(name, value)| (name.clone(), value.as_ref().map(|it| it.0.clone())))
                .collect(),
        })
    }
}

/// Fields of the metadata in a body.
pub(crate) trait WithMetadata {
    fn fields(&mut self) -> (&mut Option<String>, &mut BTreeMap<String, String>);

    /// Fills in the fields.
    fn set_metadata(&mut self, metadata: &Metadata) {
        let (reference, values) = self.fields();
        *reference = metadata.reference.as_ref().map(ToString::to_string);
        *values = texts(metadata);
    }
}

/// Names and values as text.
pub(crate) fn texts(metadata: &Metadata) -> BTreeMap<String, String> {
    fn text(it: &impl fmt::Display) -> String {
        it.to_string()
    }
    let values = metadata.values.iter();
    values.map(|(name, it)| (text(name), text(it))).collect()
}

macro_rules! with_metadata {
    ($($body:ident)*) => {$(
        impl WithMetadata for answers::$body {
            fn fields(&mut self) -> (&mut Option<String>, &mut BTreeMap<String, String>) {
                (&mut self.reference, &mut self.metadata)
            }
        }
    )*};
}
with_metadata!(Sale RedPacket ListedRedPacket Order);
