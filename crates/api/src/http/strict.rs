//! Strict parser of JSON, as the OpenAPI document describes it. serde would also accept an array of a struct's
//! values. Here a struct must be an object, at any depth. Messages name fields, and no Rust types.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde_path_to_error::Segment;

/// Reason why a body cannot be parsed.
#[derive(Debug)]
pub(crate) struct StrictFault {
    pub(crate) error: serde_json::Error,
    /// Wrong field: a JSON pointer (RFC 6901) after `#`.
    pub(crate) pointer: String,
}

/// Parses one value that covers all of `body`.
pub(crate) fn from_slice<T: DeserializeOwned>(body: &[u8]) -> Result<T, StrictFault> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(Strict(&mut json)).map_err(located)?;
    json.end().map_err(|error| StrictFault {
        error,
        pointer: "#".to_owned(),
    })?;
    Ok(value)
}

fn located(error: serde_path_to_error::Error<serde_json::Error>) -> StrictFault {
    let mut pointer = "#".to_owned();
    let mut add = |name: &str| {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    };
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => add(&index.to_string()),
            Segment::Map { key } => add(key),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let error = error.into_inner();
    // These errors belong to the parent of the field.
    if let Some(name) = beside(&error.to_string()) {
        add(name);
    }
    StrictFault { error, pointer }
}

/// Field that an error names and that its path lacks.
fn beside(text: &str) -> Option<&str> {
    let beside = ["missing field `", "duplicate field `"];
    let rest = beside.iter().find_map(|it| text.strip_prefix(it))?;
    rest.split_once('`').map(|(name, _)| name)
}

/// Query parameter that an error of the extractor is about.
pub(crate) fn parameter(error: &dyn std::error::Error) -> Option<String> {
    type OfQuery = serde_path_to_error::Error<serde::de::value::Error>;
    let mut causes = std::iter::successors(error.source(), |cause| cause.source());
    let found = causes.find_map(|cause| cause.downcast_ref::<OfQuery>())?;
    let in_path = found.path().iter().find_map(|segment| match segment {
        Segment::Map { key } => Some(key.clone()),
        _ => None,
    });
    in_path.or_else(|| beside(&found.inner().to_string()).map(str::to_owned))
}

/// Wrapper that makes nested values strict too.
struct Strict<T>(T);

/// Accepts the fields of a struct from an object only.
struct StrictObject<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for StrictObject<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(map))
    }
}

/// Largest whole number that is read from a double: 2^43. Up to it, a double separates hundredths even if its last
/// digits are wrong, so no fraction is lost. Larger numbers must be written as integers.
const EXACT_MAX: f64 = 8_796_093_022_208.0;

/// Accepts a whole number in a range.
struct WholeNumber<V> {
    visitor: V,
    min: i128,
    max: i128,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for WholeNumber<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.min, self.max)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        match (self.min..=self.max).contains(&i128::from(value)) {
            true => self.visitor.visit_i64(value),
            false => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        match (self.min..=self.max).contains(&i128::from(value)) {
            true => self.visitor.visit_u64(value),
            false => Err(E::invalid_value(Unexpected::Unsigned(value), &self)),
        }
    }

    /// Accepts a number without a fraction as a whole number, however it is written (JSON Schema, 6.1.1).
    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        if value.fract() != 0.0 || value.abs() > EXACT_MAX {
            return Err(E::invalid_type(Unexpected::Float(value), &self));
        }
        self.visit_i64(value as i64)
    }
}

macro_rules! whole_numbers {
    ($($method:ident: $type:ty;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(WholeNumber {
                visitor,
                min: <$type>::MIN.into(),
                max: <$type>::MAX.into(),
            })
        })*
    };
}

macro_rules! forward_deserialize {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* Strict(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(StrictObject(visitor))
    }

    whole_numbers! {
        deserialize_i8: i8;
        deserialize_i16: i16;
        deserialize_i32: i32;
        deserialize_i64: i64;
        deserialize_u8: u8;
        deserialize_u16: u16;
        deserialize_u32: u32;
        deserialize_u64: u64;
    }

    forward_deserialize! {
        deserialize_any();
        deserialize_bool();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }
}

macro_rules! forward_visit {
    ($($method:ident: $type:ty;)*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_visit! {
        visit_bool: bool;
        visit_i64: i64;
        visit_u64: u64;
        visit_f64: f64;
        visit_str: &str;
        visit_borrowed_str: &'de str;
        visit_string: String;
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Strict(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, value: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(value)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(value))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::from_slice;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it is read matters")]
    struct Outer {
        inner: Inner,
        maybe: Option<Inner>,
        #[serde(default)]
        many: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it is read matters")]
    struct Inner {
        number: u32,
        text: String,
    }

    #[test]
    fn an_object_is_no_array_of_its_values() {
        let check = |json: &str, refusal: &str| match from_slice::<Outer>(json.as_bytes()) {
            Ok(_) => assert_eq!(refusal, "", "{json}"),
            Err(fault) => {
                let error = fault.error.to_string();
                assert!(
                    !refusal.is_empty() && error.starts_with(refusal),
                    "{json}: {error}"
                );
            }
        };
        let inner = r#"{"number":1,"text":"a"}"#;
        check(
            &format!(r#"{{"inner":{inner},"maybe":{inner},"many":[{inner}]}}"#),
            "",
        );
        check(&format!(r#"{{"inner":{inner},"maybe":null}} "#), "");
        let refusal = "invalid type: sequence, expected an object";
        check(&format!("[{inner},null,[]]"), refusal);
        check(r#"{"inner":[1,"a"]}"#, refusal);
        check(&format!(r#"{{"inner":{inner},"maybe":[1,"a"]}}"#), refusal);
        check(&format!(r#"{{"inner":{inner},"many":[[1,"a"]]}}"#), refusal);
        check("null", "invalid type: null, expected an object");
        check(&format!(r#"{{"inner":{inner}}} x"#), "trailing characters");
        check(&format!(r#"{{"inner":{inner},"more":1}}"#), "unknown field");
        check(r#"{"inner":{"number":1,"number":1}}"#, "duplicate field");
    }

    #[test]
    fn a_number_without_a_fraction_is_whole() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Numbers {
            signed: i64,
            small: u8,
        }
        let check = |signed: &str, small: &str, expected: Option<(i64, u8)>| {
            let json = format!(r#"{{"signed":{signed},"small":{small}}}"#);
            let read = from_slice::<Numbers>(json.as_bytes()).ok();
            assert_eq!(read.map(|it| (it.signed, it.small)), expected, "{json}");
        };
        check("1.0", "2.00", Some((1, 2)));
        check("-1.5e1", "0e0", Some((-15, 0)));
        check("8796093022208.0", "1", Some((8_796_093_022_208, 1)));
        check("8796093022207.99", "1", None);
        check("8796093022209.0", "1", None);
        // Doubles cannot represent these fractions.
        check("4503599627370497.5", "1", None);
        check("9007199254740990.5", "1", None);
        check("9007199254740991", "1", Some((9_007_199_254_740_991, 1)));
        check("1e400", "1", None);
        check("1.5", "1", None);
        check("1", "256.0", None);
        check("1", "-1.0", None);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_field_and_without_types() {
        let check = |json: &str, pointer: &str, refusal: &str| {
            let fault = from_slice::<Outer>(json.as_bytes()).unwrap_err();
            let error = fault.error.to_string();
            assert!(error.starts_with(refusal), "{json}: {error}");
            assert_eq!(fault.pointer, pointer, "{json}");
        };
        let number = |number: &str| format!(r#"{{"inner":{{"number":{number},"text":"a"}}}}"#);
        let whole = "a whole number from 0 to 4294967295";
        for (wrong, what) in [
            ("-1", "invalid value: integer `-1`"),
            ("4294967296", "invalid value: integer `4294967296`"),
            ("1.5", "invalid type: floating point `1.5`"),
            ("\"1\"", "invalid type: string \"1\""),
            ("null", "invalid type: null"),
        ] {
            let refusal = format!("{what}, expected {whole}");
            check(&number(wrong), "#/inner/number", &refusal);
        }
        let large = "invalid value: integer `5000000000`, expected a whole number";
        check(&number("5e9"), "#/inner/number", large);
        let text = r#"{"inner":{"number":1,"text":2}}"#;
        check(
            text,
            "#/inner/text",
            "invalid type: integer `2`, expected a string",
        );
        let inner = r#"{"number":1,"text":"a"}"#;
        let many = format!(r#"{{"inner":{inner},"many":[{inner},{{"number":1}}]}}"#);
        check(&many, "#/many/1/text", "missing field `text`");
        check("{}", "#/inner", "missing field `inner`");
        let twice = r#"{"inner":{"number":1,"number":1}}"#;
        check(twice, "#/inner/number", "duplicate field");
        let more = format!(r#"{{"inner":{inner},"a/b~c":1}}"#);
        check(&more, "#/a~1b~0c", "unknown field");
        check("[]", "#", "invalid type: sequence, expected an object");
    }
}
