//! Values of columns, as the rows of every database take them.

/// A value that a statement takes. In a column of rows, all are of one variant.
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
            /// The value; none where it is null or of another variant.
            #[must_use]
            pub fn $get(self) -> Option<$type> {
                match self {
                    Self::$variant(value) => value,
                    _ => None,
                }
            }
        }
    };
}
value!(i64, Int, int);
value!(&'a str, Text, text);
value!(&'a [u8], Bytes, bytes);
