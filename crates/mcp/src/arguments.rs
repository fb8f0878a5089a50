//! What a call asks for: the members of its arguments, each of the type that its tool's schema says.

use crate::failure::{Failure, Outcome};
use crate::shown::{Object, bytes_of_hex};
use serde_json::Value;

/// The arguments of a call. A member that no schema names is refused, so that a misspelt one is noticed.
#[derive(Debug)]
pub struct Arguments(Object);

impl Arguments {
    /// Takes `members`, of which `known` are allowed.
    ///
    /// # Errors
    /// Naming the first unknown member.
    pub fn new(members: Object, known: &Object) -> Outcome<Self> {
        if let Some(name) = members.keys().find(|name| !known.contains_key(*name)) {
            let all = known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Failure::argument(format!("unknown argument {name:?}; this tool takes: {all}")));
        }
        Ok(Arguments(members))
    }

    /// Returns a member, unless it is null.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns a required text.
    pub fn text(&self, name: &str) -> Outcome<&str> {
        self.optional_text(name)?
            .ok_or_else(|| Failure::argument(format!("the argument {name:?} is missing")))
    }

    /// Returns an optional text.
    pub fn optional_text(&self, name: &str) -> Outcome<Option<&str>> {
        let not_text = || Failure::argument(format!("the argument {name:?} must be a text"));
        self.get(name).map(|value| value.as_str().ok_or_else(not_text)).transpose()
    }

    /// Returns a number of at most `most`; `default` if it is missing.
    pub fn number(&self, name: &str, default: usize, most: usize) -> Outcome<usize> {
        let bad = || Failure::argument(format!("the argument {name:?} must be a number from 0 to {most}"));
        let Some(value) = self.get(name) else { return Ok(default) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok()).ok_or_else(bad)?;
        if number > most { Err(bad()) } else { Ok(number) }
    }

    /// Returns true or false; false if it is missing.
    pub fn flag(&self, name: &str) -> Outcome<bool> {
        let bad = || Failure::argument(format!("the argument {name:?} must be true or false"));
        self.get(name).map_or(Ok(false), |value| value.as_bool().ok_or_else(bad))
    }

    /// Bytes: the text `name`, or the hexadecimal digits `name_hex`.
    pub fn optional_bytes(&self, name: &str) -> Outcome<Option<Vec<u8>>> {
        let in_hex = format!("{name}_hex");
        match (self.optional_text(name)?, self.optional_text(&in_hex)?) {
            (Some(_), Some(_)) => {
                Err(Failure::argument(format!("give {name:?} or {in_hex:?}, but not both")))
            }
            (Some(text), None) => Ok(Some(text.as_bytes().to_vec())),
            (None, Some(digits)) => bytes_of_hex(digits).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Bytes that must be there.
    pub fn bytes(&self, name: &str) -> Outcome<Vec<u8>> {
        let missing = || Failure::argument(format!("the argument {name:?} (or \"{name}_hex\") is missing"));
        self.optional_bytes(name)?.ok_or_else(missing)
    }
}
