//! Judging: layers of rules and a call in, a verdict out.

use super::{
    Act, Effect, Layer, Rule, Verdict,
    explain::Explanation,
    subject::Subject,
    text::beginning,
    weigh::{Case, Fitting},
    word::{Fit, Word},
};

/// The rules that calls are judged by. [`Policy::new`] has none; the default allows to read below the root.
///
/// ```
/// use everturn_core::policy::{Act, Effect, Judged, Layer, Policy};
///
/// let policy = Policy::default()
///     .rule(Layer::User, "allow write(src/**)".parse()?)
///     .rule(Layer::Project, "ask write(src/generated/**)".parse()?);
/// let effect = |path: &str| {
///     policy.verdict(&Judged { tool: "write", acts: &[Act::Write(path.into())], ..Judged::default() }).effect
/// };
/// assert_eq!(effect("src/lib.rs"), Effect::Allow);
/// assert_eq!(effect("src/generated/tables.rs"), Effect::Ask);
/// assert_eq!(effect("notes.md"), Effect::Deny, "what no rule allows is denied");
/// # Ok::<(), everturn_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<(Layer, Rule)>,
    pub(super) locked: Vec<Layer>,
    pub(super) otherwise: Effect,
    pub(super) is_trusted: bool,
    pub(super) is_attended: bool,
}

/// A call as policy sees it, with what stands beside the policy.
///
/// ```
/// use everturn_core::policy::{Act, Effect, Judged, Policy, Rule};
///
/// let count = Judged { tool: "count", installed: &["count"], ..Judged::default() };
/// assert_eq!(Policy::default().verdict(&count).rule, "allow tool(count)", "it declares no acts");
///
/// let write = [Act::Write("a.txt".into())];
/// let session = Vec::from_iter(Rule::for_act(&write[0]));
/// let write = Judged { tool: "write", acts: &write, session: &session, ..Judged::default() };
/// assert_eq!(Policy::default().verdict(&write).effect, Effect::Allow, "allowed for this session");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged<'a> {
    /// The tool that is called.
    pub tool: &'a str,
    /// What the call does. Nothing: it is judged by the tool's name.
    pub acts: &'a [Act],
    /// Rules of the session's layer beside those of the policy.
    pub session: &'a [Rule],
    /// Installed tools that declare no acts: the code layer allows each of them by its name.
    pub installed: &'a [&'a str],
}

impl Default for Policy {
    fn default() -> Self {
        let read = "allow read(**)".parse().expect("the text of a rule");
        Self::new().rule(Layer::Code, read)
    }
}

impl Policy {
    /// One without rules: all is denied. The organisation's layer is locked.
    pub fn new() -> Self {
        Self {
            rules: Vec::new(),
            locked: vec![Layer::Organisation],
            otherwise: Effect::Deny,
            is_trusted: false,
            is_attended: true,
        }
    }

    /// The same with a rule more.
    #[must_use]
    pub fn rule(mut self, layer: Layer, rule: Rule) -> Self {
        self.rules.push((layer, rule));
        self
    }

    /// The same with a locked layer more: its asks stay asks, whatever later layers allow.
    #[must_use]
    pub fn locked(mut self, layer: Layer) -> Self {
        if !self.locked.contains(&layer) {
            self.locked.push(layer);
            self.locked.sort();
        }
        self
    }

    /// The same for a directory that the user has trusted: rules of the project's layer may loosen.
    #[must_use]
    pub fn trusted(self) -> Self {
        Self { is_trusted: true, ..self }
    }

    /// The same with what happens where no rule fits. Even where that is allow, commands that hide what they run are
    /// asked for, and paths outside of the root are denied.
    #[must_use]
    pub fn otherwise(self, effect: Effect) -> Self {
        Self { otherwise: effect, ..self }
    }

    /// The same where nobody can be asked: ask means deny.
    #[must_use]
    pub fn unattended(self) -> Self {
        Self { is_attended: false, ..self }
    }

    /// The same for a call that somebody was asked about and has decided: whether anyone can be asked now no longer matters.
    #[must_use]
    pub fn attended(self) -> Self {
        Self { is_attended: true, ..self }
    }

    /// Judges a call by all its acts: the strictest verdict holds, and of those the first.
    pub fn verdict(&self, call: &Judged<'_>) -> Verdict {
        let of_name = [Act::Tool(call.tool.into())];
        let acts = if call.acts.is_empty() { &of_name } else { call.acts };
        let verdicts =
            acts.iter().map(|act| self.weigh((act.to_string(), Subject::of(act)), call, |_, _| ()).0);
        verdicts.reduce(Verdict::and).expect("there is at least the act of the tool's name")
    }

    /// Judges one command of a call of which some words are not known before it runs.
    pub fn command(&self, words: &[Word<'_>], call: &Judged<'_>) -> Verdict {
        let texts: Vec<_> = words.iter().map(Word::to_string).collect();
        let act = format!("exec({})", texts.join(" "));
        self.weigh((act, Subject::of_words(words.to_vec())), call, |_, _| ()).0
    }

    /// Says which rules fit an act of a call, which of them decides, and why. The verdict is the one that the act has.
    pub fn explain(&self, act: &Act, call: &Judged<'_>) -> Explanation {
        let text = act.to_string();
        let (verdict, rules) =
            self.weigh((text.clone(), Subject::of(act)), call, |case, by| case.standings(by));
        Explanation { act: beginning(text), verdict, rules: rules.unwrap_or_default() }
    }

    /// A text that is the same for policies that say the same, and most likely another for others. Recorded with
    /// approvals; it proves nothing against someone who looks for two policies with one hash.
    ///
    /// ```
    /// use everturn_core::policy::{Layer, Policy};
    ///
    /// let rules = ["allow write(a)", "deny spawn(*)"].map(|rule| rule.parse().unwrap());
    /// let policy = |rules: &[_]| rules.iter().cloned().fold(Policy::new(), |policy, rule| policy.rule(Layer::User, rule));
    /// let [a, b] = [policy(&rules), policy(&[rules[1].clone(), rules[0].clone()])];
    /// assert_eq!(a.hash(), b.hash(), "the order of rules in a layer has no meaning");
    /// assert_ne!(a.hash(), a.locked(Layer::User).hash());
    /// ```
    pub fn hash(&self) -> String {
        let mut lines: Vec<_> = self.rules.iter().map(|(layer, rule)| format!("{layer}: {rule}")).collect();
        lines.sort();
        lines.dedup();
        lines.extend(self.locked.iter().map(|layer| format!("locked: {layer}")));
        lines.push(format!("otherwise: {}", self.otherwise));
        lines.push(format!("trusted: {}, attended: {}", self.is_trusted, self.is_attended));
        format!("{:016x}", fnv_1a(lines.join("\n").as_bytes()))
    }

    /// Weighs the rules that fit an act or a command, by its text and what it is. Gives the verdict, and what is to be seen in
    /// the case and of the rule that decides; none where no rule could.
    fn weigh<T>(
        &self,
        (act, subject): (String, Result<Subject<'_>, &'static str>),
        call: &Judged<'_>,
        see: impl FnOnce(&Case<'_>, Option<usize>) -> T,
    ) -> (Verdict, Option<T>) {
        let act = beginning(act);
        match subject {
            Err(why) => {
                let rule = format!("no rule can allow {act}: {why}");
                (Verdict { effect: Effect::Deny, layer: Layer::Code, rule }, None)
            }
            Ok(subject) => {
                let case = Case { policy: self, found: self.fitting(&subject, call), subject: &subject };
                let (effect, by) = case.decide();
                (case.verdict(effect, by, &act), Some(see(&case, by)))
            }
        }
    }

    /// The rules of all layers that fit.
    fn fitting(&self, subject: &Subject<'_>, call: &Judged<'_>) -> Vec<Fitting> {
        let installed = match subject {
            Subject::Tool(name) if call.installed.contains(name) => Rule::for_act(&Act::Tool((*name).into())),
            _ => None,
        };
        let mut rules: Vec<_> = installed.iter().map(|rule| (Layer::Code, rule)).collect();
        rules.extend(self.rules.iter().map(|(layer, rule)| (*layer, rule)));
        rules.extend(call.session.iter().map(|rule| (Layer::Session, rule)));
        rules.sort_by_key(|(layer, _)| *layer);
        let fitting = rules.into_iter().map(|(layer, rule)| (layer, rule, rule.fits(subject)));
        fitting
            .filter(|(_, _, fit)| *fit != Fit::No)
            .map(|(layer, rule, fit)| Fitting { layer, rule: rule.clone(), fit })
            .collect()
    }
}

/// FNV-1a, 64 bits.
fn fnv_1a(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
