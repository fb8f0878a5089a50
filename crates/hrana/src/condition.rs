//! Conditions of the steps of a batch.

use crate::failure::{Failure, Outcome};
use serde::Deserialize;

/// A condition on the steps before, and on the stream. Its depth is bounded by that of the JSON that it is read from.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Condition {
    /// The step succeeded.
    Ok {
        /// The place of the step, from 0.
        step: u32,
    },
    /// The step failed.
    Error {
        /// The place of the step, from 0.
        step: u32,
    },
    /// The condition does not hold.
    Not {
        /// The condition.
        cond: Box<Condition>,
    },
    /// All hold.
    And {
        /// The conditions.
        conds: Vec<Condition>,
    },
    /// At least one holds.
    Or {
        /// The conditions.
        conds: Vec<Condition>,
    },
    /// No transaction is open.
    IsAutocommit,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Badly,
    Skipped,
}

impl Condition {
    /// Returns whether the condition holds after the steps in `ended`.
    ///
    /// # Errors
    /// `BATCH_COND_BAD_STEP` if it names a step that is not one of them.
    pub(crate) fn holds(&self, ended: &[Ended], is_autocommit: bool) -> Outcome<bool> {
        let is = |step: u32, wanted: Ended| match ended.get(step as usize) {
            Some(ended) => Ok(*ended == wanted),
            None => Err(Failure::new(
                "BATCH_COND_BAD_STEP",
                format!("a condition of step {} names step {step}, which is not before it", ended.len()),
            )),
        };
        // All are evaluated, so that a wrong step is noticed.
        let count = |conds: &[Condition]| -> Outcome<usize> {
            conds.iter().try_fold(0, |count, cond| Ok(count + usize::from(cond.holds(ended, is_autocommit)?)))
        };
        match self {
            Condition::Ok { step } => is(*step, Ended::Well),
            Condition::Error { step } => is(*step, Ended::Badly),
            Condition::Not { cond } => Ok(!cond.holds(ended, is_autocommit)?),
            Condition::And { conds } => Ok(count(conds)? == conds.len()),
            Condition::Or { conds } => Ok(count(conds)? > 0),
            Condition::IsAutocommit => Ok(is_autocommit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_as_the_protocol_says() {
        let ended = [Ended::Well, Ended::Badly, Ended::Skipped];
        let holds = |text: &str, is_autocommit| {
            let condition: Condition = serde_json::from_str(text).unwrap();
            condition.holds(&ended, is_autocommit).map_err(|failure| failure.code().to_owned())
        };
        let (ok, error) = (
            |step| format!(r#"{{"type":"ok","step":{step}}}"#),
            |step| format!(r#"{{"type":"error","step":{step}}}"#),
        );
        let not = |cond: &str| format!(r#"{{"type":"not","cond":{cond}}}"#);
        let of = |kind: &str, conds: &[&str]| format!(r#"{{"type":"{kind}","conds":[{}]}}"#, conds.join(","));
        let autocommit = r#"{"type":"is_autocommit"}"#;
        for (text, expected) in [
            (ok(0), true),
            (ok(1), false),
            (ok(2), false),
            (error(0), false),
            (error(1), true),
            (error(2), false),
            (not(&ok(2)), true),
            (of("and", &[]), true),
            (of("or", &[]), false),
            (of("and", &[&ok(0), &error(1)]), true),
            (of("and", &[&ok(0), &ok(1)]), false),
            (of("or", &[&ok(1), &ok(0)]), true),
            (not(&of("or", &[&ok(1), &ok(2)])), true),
            (autocommit.to_owned(), true),
        ] {
            assert_eq!(holds(&text, true), Ok(expected), "{text}");
        }
        assert_eq!(holds(autocommit, false), Ok(false));
        let bad = Err("BATCH_COND_BAD_STEP".to_owned());
        assert_eq!(holds(&ok(3), true), bad);
        assert_eq!(holds(&of("or", &[&ok(0), &ok(u32::MAX)]), true), bad);
    }
}
