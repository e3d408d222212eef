//! Verdicts: acts in, effect and rule out.

use everturn_core::policy::{Act, Effect, Layer, Policy, Verdict};

#[test]
fn what_no_rule_allows_is_denied_and_the_rule_is_named() {
    let read = || Act::Read("src/lib.rs".into());
    let tool = |name: &str| Act::Tool(name.into());
    let policy = Policy::default().allow_tool("count");
    for (acts, effect, rule) in [
        (vec![read()], Effect::Allow, "allow read(**)"),
        (vec![tool("count")], Effect::Allow, "allow tool(count)"),
        (vec![tool("Count")], Effect::Deny, "no rule allows tool(Count)"),
        (vec![tool("")], Effect::Deny, "no rule allows tool()"),
        (vec![], Effect::Deny, "no act declared"),
        (vec![read(), tool("count")], Effect::Allow, "allow read(**)"),
        (vec![read(), tool("exec"), tool("count")], Effect::Deny, "no rule allows tool(exec)"),
        (vec![tool("first"), tool("second")], Effect::Deny, "no rule allows tool(first)"),
    ] {
        let verdict = Verdict { effect, layer: Layer::Code, rule: rule.into() };
        assert_eq!(policy.verdict(&acts), verdict, "{acts:?}");
    }
}
