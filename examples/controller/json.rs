//! JSON by its own rules: serde's derived code is more generous than a trace may be.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::fault::Fault;

/// A struct that was written as a JSON object. Derived code takes an array of the fields' values too.
pub(crate) struct JsonObject<T>(T);

/// Reads a JSON object from a text that holds nothing else.
pub(crate) fn parse_object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    match serde_json::from_str(text) {
        Ok(JsonObject(fields)) => Ok(fields),
        // Not every error in the syntax is one: serde_json has no other category for an array that is too long,
        // say. Skipping over the whole text tells.
        Err(error) => Err(match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Fault::wrong_shape(&error),
            Err(syntax) => Fault::wrong_syntax(&syntax),
        }),
    }
}

impl<T> Deref for JsonObject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(JsonObject)
    }
}

/// For `deserialize_with`: a number, without the name of a Rust type in the message.
pub(crate) fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Whole;

    impl Visitor<'_> for Whole {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number")
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }
    }

    deserializer.deserialize_u64(Whole)
}

/// `["namespace/name","resource version"]`.
pub(crate) struct Pair<'a>(pub(crate) Cow<'a, str>, pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Pair<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A string that borrows where it can, which only derived code knows how to do.
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

        struct Two;

        impl<'de> Visitor<'de> for Two {
            type Value = Pair<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key and its resource version")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pair<'de>, A::Error> {
                let mut next = |before| {
                    let text: Option<Text<'de>> = seq.next_element()?;
                    text.map(|text| text.0).ok_or_else(|| A::Error::invalid_length(before, &self))
                };
                let pair = Pair(next(0)?, next(1)?);
                let mut more = 0;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    more += 1;
                }
                if more > 0 { Err(A::Error::invalid_length(2 + more, &self)) } else { Ok(pair) }
            }
        }

        deserializer.deserialize_seq(Two)
    }
}
