//! Column values, independent of the database.

use crate::{campaign::Phase, order::OrderState};

/// Parameter of a statement. All values of one column have the same variant.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A whole number, or null.
    Int(Option<i64>),
    /// A text, or null.
    Text(Option<&'a str>),
    /// Bytes, or null.
    Bytes(Option<&'a [u8]>),
}

macro_rules! value {
    ($type:ty, $variant:ident, $get:ident) => {
        impl<'a> From<$type> for Value<'a> {
            fn from(value: $type) -> Self {
                Self::$variant(Some(value))
            }
        }

        impl<'a> From<Option<$type>> for Value<'a> {
            fn from(value: Option<$type>) -> Self {
                Self::$variant(value)
            }
        }

        impl<'a> Value<'a> {
            /// The value; `None` if it is null or of another variant.
            pub fn $get(self) -> Option<$type> {
                match self {
                    Self::$variant(value) => value,
                    _ => None,
                }
            }
        }
    };
}
/// Values of the named fields of a row.
macro_rules! columns {
    ($row:expr; $($field:ident),+) => {
        [$($crate::rows::Value::from($row.$field)),+]
    };
}
pub(crate) use columns;

value!(i64, Int, int);
value!(&'a str, Text, text);
value!(&'a [u8], Bytes, bytes);

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        i64::from(value).into()
    }
}

impl From<OrderState> for Value<'_> {
    fn from(state: OrderState) -> Self {
        state.name().into()
    }
}

impl From<Option<Phase>> for Value<'_> {
    fn from(phase: Option<Phase>) -> Self {
        phase.map(Phase::name).into()
    }
}
