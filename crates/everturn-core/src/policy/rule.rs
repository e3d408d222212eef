//! Rules: an effect for the acts that fit a pattern.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{
    Act, Effect,
    pattern::{self, Pattern},
    subject::Subject,
    word::Fit,
};
use crate::Error;

/// What may happen with acts that fit a pattern. In JSON it is its text.
///
/// Errors: reading one says what is wrong and what is right.
///
/// ```
/// use everturn_core::policy::{Effect, Rule};
///
/// let rule: Rule = "deny exec(git push ** --force **)".parse()?;
/// assert_eq!(rule.effect, Effect::Deny);
/// assert_eq!(rule.act.to_string(), "exec(git push ** --force **)");
/// assert_eq!(serde_json::to_string(&rule).unwrap(), r#""deny exec(git push ** --force **)""#);
/// # Ok::<(), everturn_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    /// What happens with them.
    pub effect: Effect,
    /// Which acts it is for.
    pub act: Pattern,
}

impl Rule {
    /// The rule that "allow for this session" adds for an act: it allows this act and nothing else. None where a
    /// rule cannot allow the act, or would ask again; it may be allowed once, each time.
    ///
    /// ```
    /// use everturn_core::policy::{Act, Rule};
    ///
    /// let rule = Rule::for_act(&Act::Exec(vec!["rm".into(), "*.tmp".into()])).unwrap();
    /// assert_eq!(rule.to_string(), r"allow exec(rm \*.tmp)", "the star is a star");
    /// assert_eq!(Rule::for_act(&Act::Write(".git/config".into())), None);
    /// ```
    pub fn for_act(act: &Act) -> Option<Self> {
        let subject = Subject::of(act).ok().filter(|subject| subject.hides().is_none())?;
        Some(Self { effect: Effect::Allow, act: Pattern::exactly(&subject)? })
    }

    /// How surely it is for an act. An allow rule is, or is not.
    pub(super) fn fits(&self, subject: &Subject<'_>) -> Fit {
        match self.effect {
            Effect::Allow | Effect::Ask if self.act.fits_narrowly(subject) => Fit::Yes,
            Effect::Allow => Fit::No,
            Effect::Ask => self.act.fits_broadly(subject).min(Fit::Perhaps),
            Effect::Deny => self.act.fits_broadly(subject),
        }
    }
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|why| Error::invalid(format!("read rule {text:?}: {why}")))
    }
}

fn parse(text: &str) -> Result<Rule, String> {
    let (word, act) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let effect = [Effect::Allow, Effect::Ask, Effect::Deny].into_iter().find(|effect| effect.word() == word);
    let effect = effect.ok_or_else(|| {
        format!("{word:?} is no effect; begin with allow, ask or deny, as in allow read(src/**)")
    })?;
    Ok(Rule { effect, act: pattern::parse(act.trim_start())? })
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.effect, self.act)
    }
}

impl TryFrom<String> for Rule {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}
