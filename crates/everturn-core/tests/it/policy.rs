//! Verdicts: acts in, effect and rule out.

use everturn_core::policy::{Act, Effect, Layer, Policy, Verdict};

#[test]
fn what_no_rule_allows_is_denied_and_the_rule_is_named() {
    let read = || Act::Read("src/lib.rs".into());
    let tool = |name: &str| Act::Tool(name.into());
    for (acts, effect, rule) in [
        (vec![read()], Effect::Allow, "allow read(**)"),
        (vec![], Effect::Allow, "allow tool(count)"),
        (vec![tool("count")], Effect::Deny, "no rule allows tool(count)"),
        (vec![tool("")], Effect::Deny, "no rule allows tool()"),
        (vec![read(), read()], Effect::Allow, "allow read(**)"),
        (vec![read(), tool("exec"), tool("other")], Effect::Deny, "no rule allows tool(exec)"),
    ] {
        let verdict = Verdict { effect, layer: Layer::Code, rule: rule.into() };
        assert_eq!(Policy::default().verdict("count", &acts), verdict, "{acts:?}");
    }
}
