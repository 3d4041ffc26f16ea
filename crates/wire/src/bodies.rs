//! Macro for bodies of answers: structs that are parsed from JSON and may get more fields.

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => { $(
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
        #[cfg_attr(not(feature = "service"), non_exhaustive)]
        $(#[$doc])*
        pub struct $name { $(
            $(#[$field_doc])*
            pub $field: $type,
        )* }
    )* };
}
pub(crate) use bodies;

/// Gives a type the schema of a string.
#[cfg(feature = "service")]
macro_rules! text_schema {
    ($name:ident) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}
#[cfg(feature = "service")]
pub(crate) use text_schema;
