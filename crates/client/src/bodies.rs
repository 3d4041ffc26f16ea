//! Macro for bodies of answers: structs that are parsed from JSON and may get more fields.

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub struct $name { $(
            $(#[$field_doc])*
            pub $field: $type,
        )* }
    )* };
}
pub(crate) use bodies;
