//! What a rule finds.

use super::figures::Figures;

/// How urgent a finding is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Data is not accepted, not copied, or in danger.
    Critical,
    /// Something is slow, nearly full, or will fail later.
    Warning,
    /// Something could be better.
    Note,
}

impl Severity {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// One thing that is wrong, or could be better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How urgent it is.
    pub severity: Severity,
    /// The name of the rule, for programs.
    pub name: &'static str,
    /// What is wrong, in sentences.
    pub what: String,
    /// What to do about it, in sentences.
    pub advice: String,
}

impl Finding {
    /// Returns a finding to act on now.
    pub fn critical(name: &'static str, what: String, advice: impl Into<String>) -> Self {
        Finding { severity: Severity::Critical, name, what, advice: advice.into() }
    }

    /// Returns a finding that needs attention.
    pub fn warning(name: &'static str, what: String, advice: impl Into<String>) -> Self {
        Finding { severity: Severity::Warning, name, what, advice: advice.into() }
    }

    /// Returns a finding that can wait.
    pub fn note(name: &'static str, what: String, advice: impl Into<String>) -> Self {
        Finding { severity: Severity::Note, name, what, advice: advice.into() }
    }
}

/// A rule: what it finds in the figures.
pub type Rule = fn(&Figures) -> Vec<Finding>;
