//! Weighing: which of the rules that fit an act decides.

use super::{
    Effect, Layer, Policy, Rule, Verdict,
    explain::{Matching, Standing},
    subject::Subject,
    word::Fit,
};

/// A rule that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fitting {
    pub(super) layer: Layer,
    pub(super) rule: Rule,
    pub(super) fit: Fit,
}

/// An act with the rules that fit it, by layer.
pub(super) struct Case<'a> {
    pub(super) policy: &'a Policy,
    pub(super) found: Vec<Fitting>,
    pub(super) subject: &'a Subject<'a>,
}

impl Case<'_> {
    /// The effect, and which rule has it; none, where no rule decides.
    pub(super) fn decide(&self) -> (Effect, Option<usize>) {
        if let Some(at) = self.find(|one| one.rule.effect == Effect::Deny && one.fit == Fit::Yes) {
            return (Effect::Deny, Some(at));
        }
        let last = Layer::ALL
            .into_iter()
            .fold((self.otherwise(), None), |decided, layer| self.behind_layer(layer, decided));
        match self.find(|one| self.asks_for_good(one)) {
            Some(at) if last.0 == Effect::Allow => (Effect::Ask, Some(at)),
            _ => last,
        }
    }

    /// What is decided when a layer more is looked at.
    fn behind_layer(&self, layer: Layer, decided: (Effect, Option<usize>)) -> (Effect, Option<usize>) {
        let find =
            |effect, fit| self.find(|one| one.layer == layer && one.rule.effect == effect && one.fit >= fit);
        let allowed = find(Effect::Allow, Fit::Yes).filter(|_| self.may_loosen(layer));
        let allow = || if self.may_allow() { Effect::Allow } else { Effect::Ask };
        let decided = allowed.map_or(decided, |at| (allow(), Some(at)));
        // What asks only perhaps takes an allow back, and is no reason to ask for what is denied.
        let asked = find(Effect::Ask, Fit::Yes).filter(|_| self.may_loosen(layer));
        let asked = asked.or(find(Effect::Ask, Fit::Perhaps).filter(|_| decided.0 == Effect::Allow));
        asked.map_or(decided, |at| (Effect::Ask, Some(at)))
    }

    /// Whether no later layer takes back that a rule asks: its layer is locked, or it is a deny that fits perhaps.
    fn asks_for_good(&self, one: &Fitting) -> bool {
        match one.rule.effect {
            Effect::Allow => false,
            Effect::Ask => self.policy.locked.contains(&one.layer),
            Effect::Deny => one.fit == Fit::Perhaps,
        }
    }

    fn may_loosen(&self, layer: Layer) -> bool {
        layer != Layer::Project || self.policy.is_trusted
    }

    /// Whether what is done shows; if not, an allow asks.
    fn may_allow(&self) -> bool {
        self.subject.hides().is_none()
    }

    /// What happens where no rule decides.
    fn otherwise(&self) -> Effect {
        match self.policy.otherwise {
            _ if self.subject.is_outside() => Effect::Deny,
            Effect::Allow if !self.may_allow() => Effect::Ask,
            otherwise => otherwise,
        }
    }

    fn find(&self, is: impl Fn(&Fitting) -> bool) -> Option<usize> {
        self.found.iter().position(is)
    }

    /// The verdict over `act` for a decision.
    pub(super) fn verdict(&self, effect: Effect, by: Option<usize>, act: &str) -> Verdict {
        let by = by.map(|at| &self.found[at]);
        let layer = by.map_or(Layer::Code, |one| one.layer);
        let mut rule = by.map_or_else(|| self.without_rule(effect, act), |one| one.rule.to_string());
        match (effect, by.map(|one| one.rule.effect)) {
            (Effect::Ask, Some(Effect::Deny)) => rule.push_str(" (it may fit)"),
            (Effect::Ask, Some(Effect::Allow)) => {
                rule.extend(self.subject.hides().map(|why| format!(" ({why})")));
            }
            _ => {}
        }
        if effect == Effect::Ask && !self.policy.is_attended {
            rule.push_str(" (nobody can be asked)");
            return Verdict { effect: Effect::Deny, layer, rule };
        }
        Verdict { effect, layer, rule }
    }

    fn without_rule(&self, effect: Effect, act: &str) -> String {
        match self.subject.hides() {
            Some(why) => format!("no rule allows {act}: {why}"),
            None if self.subject.is_outside() => format!("no rule allows {act}, outside of the root"),
            None if effect == Effect::Allow => format!("no rule denies {act}"),
            None => format!("no rule allows {act}"),
        }
    }

    /// How each of the rules stands beside the one that decides.
    pub(super) fn standings(&self, by: Option<usize>) -> Vec<Matching> {
        let standing = |at: usize, one: &Fitting| match one.rule.effect {
            _ if by == Some(at) => Standing::Decides,
            Effect::Allow if !self.may_loosen(one.layer) => Standing::Untrusted,
            Effect::Ask if !self.may_loosen(one.layer) && by.is_none() => Standing::Untrusted,
            _ if one.fit == Fit::Perhaps => Standing::Perhaps,
            _ => Standing::Overruled,
        };
        let matching = |(at, one): (usize, &Fitting)| Matching {
            layer: one.layer,
            rule: one.rule.clone(),
            standing: standing(at, one),
        };
        self.found.iter().enumerate().map(matching).collect()
    }
}
