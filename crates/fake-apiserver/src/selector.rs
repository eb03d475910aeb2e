//! Label and field selectors.

use crate::store::Entry;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Equal(String, String),
    NotEqual(String, String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
    /// Of a field.
    Name(String, bool),
    Namespace(String, bool),
}

/// Which objects of a resource are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Empty: all.
    namespace: String,
    requirements: Vec<Requirement>,
}

/// At commas outside of parentheses.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn values(list: &str) -> Vec<String> {
    let list = list.trim().trim_start_matches('(').trim_end_matches(')');
    list.split(',').map(|value| value.trim().to_owned()).collect()
}

/// The two sides of an equality, and whether it is one.
fn sides(part: &str) -> Option<(String, String, bool)> {
    let (left, right, equal) = if let Some((left, right)) = part.split_once("!=") {
        (left, right, false)
    } else if let Some((left, right)) = part.split_once("==") {
        (left, right, true)
    } else {
        let (left, right) = part.split_once('=')?;
        (left, right, true)
    };
    Some((left.trim().to_owned(), right.trim().to_owned(), equal))
}

fn label(part: &str) -> Requirement {
    if let Some((key, list)) = part.split_once(" notin ") {
        return Requirement::NotIn(key.trim().to_owned(), values(list));
    }
    if let Some((key, list)) = part.split_once(" in ") {
        return Requirement::In(key.trim().to_owned(), values(list));
    }
    match sides(part) {
        Some((key, value, true)) => Requirement::Equal(key, value),
        Some((key, value, false)) => Requirement::NotEqual(key, value),
        None => match part.strip_prefix('!') {
            Some(key) => Requirement::Missing(key.trim().to_owned()),
            None => Requirement::Exists(part.to_owned()),
        },
    }
}

fn field(part: &str) -> Result<Requirement, String> {
    match sides(part) {
        Some((key, value, equal)) if key == "metadata.name" => Ok(Requirement::Name(value, equal)),
        Some((key, value, equal)) if key == "metadata.namespace" => Ok(Requirement::Namespace(value, equal)),
        _ => Err(format!("field label not supported: {part}")),
    }
}

impl Selector {
    /// # Errors
    ///
    /// A field that cannot be selected by.
    pub(crate) fn new(namespace: &str, labels: &str, fields: &str) -> Result<Self, String> {
        let mut requirements: Vec<Requirement> = parts(labels).into_iter().map(label).collect();
        for part in parts(fields) {
            requirements.push(field(part)?);
        }
        Ok(Selector { namespace: namespace.to_owned(), requirements })
    }

    pub(crate) fn is_all(&self) -> bool {
        *self == Selector::default()
    }

    pub(crate) fn holds(&self, entry: &Entry) -> bool {
        let label =
            |key: &str| entry.labels.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str());
        (self.namespace.is_empty() || self.namespace == entry.namespace)
            && self.requirements.iter().all(|requirement| match requirement {
                Requirement::Equal(key, value) => label(key) == Some(value),
                Requirement::NotEqual(key, value) => label(key) != Some(value),
                Requirement::In(key, values) => {
                    label(key).is_some_and(|value| values.iter().any(|other| other == value))
                }
                Requirement::NotIn(key, values) => {
                    label(key).is_none_or(|value| values.iter().all(|other| other != value))
                }
                Requirement::Exists(key) => label(key).is_some(),
                Requirement::Missing(key) => label(key).is_none(),
                Requirement::Name(name, equal) => (entry.name == *name) == *equal,
                Requirement::Namespace(name, equal) => (entry.namespace == *name) == *equal,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(labels: &[(&str, &str)]) -> Entry {
        Entry {
            namespace: "prod".to_owned(),
            name: "web".to_owned(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            uid: String::new(),
            version: 1,
            json: bytes::Bytes::new(),
        }
    }

    #[test]
    fn every_operator() {
        let object = entry(&[("app", "web"), ("tier", "front")]);
        for (labels, fields, holds) in [
            ("", "", true),
            ("app=web", "", true),
            ("app==web,tier!=back", "", true),
            ("app=db", "", false),
            ("app in (web, db),tier notin (back)", "", true),
            ("app notin (web,db)", "", false),
            ("app,!gone", "", true),
            ("gone", "", false),
            ("!app", "", false),
            ("", "metadata.name=web,metadata.namespace!=test", true),
            ("", "metadata.name!=web", false),
        ] {
            let selector = Selector::new("", labels, fields).expect("it can be read");
            assert_eq!(selector.holds(&object), holds, "{labels} {fields}");
        }
        assert!(Selector::new("", "", "spec.nodeName=a").is_err());
        assert!(!Selector::new("test", "", "").expect("it can be read").holds(&object));
    }
}
