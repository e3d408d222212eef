//! Explanations: which rules fit an act, which of them decides, and why.

use std::fmt;

use super::{Layer, Rule, Verdict};

/// Why an act has its verdict. Its text is for people.
///
/// ```
/// use everturn_core::policy::{Act, Judged, Layer, Policy, Standing};
///
/// let policy = Policy::default().rule(Layer::Organisation, "ask read(keys/**)".parse()?);
/// let why = policy.explain(&Act::Read("keys/a.pem".into()), &Judged::default());
/// assert_eq!(why.rules[1].standing, Standing::Decides);
/// assert_eq!(why.to_string(), "\
/// ask: read(keys/a.pem)
/// because: ask read(keys/**)
///   code          allow read(**)     a stricter or later rule decides
///   organisation  ask read(keys/**)  decides");
/// # Ok::<(), everturn_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The act, as text; of a long one, the beginning.
    pub act: String,
    /// What policy says of it.
    pub verdict: Verdict,
    /// The rules that fit, by layer.
    pub rules: Vec<Matching>,
}

/// A rule that fits an act.
///
/// ```
/// use everturn_core::policy::{Act, Judged, Layer, Policy};
///
/// let why = Policy::default().explain(&Act::Read("a.txt".into()), &Judged::default());
/// assert_eq!((why.rules[0].layer, why.rules[0].rule.to_string()), (Layer::Code, "allow read(**)".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Matching {
    /// Where it stands.
    pub layer: Layer,
    /// The rule.
    pub rule: Rule,
    /// What it comes to beside the others.
    pub standing: Standing,
}

/// What a rule that fits comes to.
///
/// ```
/// use everturn_core::policy::{Act, Judged, Layer, Policy, Standing};
///
/// let policy = Policy::new().rule(Layer::Project, "allow read(**)".parse().unwrap());
/// let why = policy.explain(&Act::Read("a.txt".into()), &Judged::default());
/// assert_eq!(why.rules[0].standing, Standing::Untrusted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It decides.
    Decides,
    /// A stricter rule decides, or one of a later layer.
    Overruled,
    /// It is of a project whose directory is not trusted, and would loosen.
    Untrusted,
    /// It fits in its broad reading only or for some values only, and what is decided is no looser.
    Perhaps,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Decides => "decides",
            Self::Overruled => "a stricter or later rule decides",
            Self::Untrusted => "does not count: the project's directory is not trusted",
            Self::Perhaps => "fits perhaps, and the verdict is as strict",
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\nbecause: {}", self.verdict.effect, self.act, self.verdict.rule)?;
        let width = |text: &dyn Fn(&Matching) -> String| {
            self.rules.iter().map(|one| text(one).chars().count()).max().unwrap_or(0)
        };
        let (layers, rules) = (width(&|one| one.layer.to_string()), width(&|one| one.rule.to_string()));
        for Matching { layer, rule, standing } in &self.rules {
            write!(f, "\n  {layer:layers$}  {:rules$}  {standing}", rule.to_string())?;
        }
        Ok(())
    }
}
