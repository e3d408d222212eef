//! What a conversation works with, of what is installed.

use everturn_core::tool::{CallContext, Tool, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Registry;
use crate::{Agent, Extension, harness::Choice};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

macro_rules! tools {
    ($($name:ident),*) => {$(
        #[allow(non_camel_case_types)]
        struct $name;
        impl Tool for $name {
            const NAME: &'static str = stringify!($name);
            type Arguments = Nothing;
            fn description(&self) -> &str { "" }
            async fn run(&self, _: &CallContext, _: Nothing) -> ToolResult { Ok("".into()) }
        }
    )*};
}
tools!(read, write, rare, count);

fn registry() -> Registry {
    let files = Extension::new("files").tool(read).tool(write).tool_on_demand(rare);
    Registry::default().with(files).unwrap().with(Extension::new("sums").tool(count)).unwrap()
}

fn tools(registry: &Registry, agent: &Agent, default: Option<&[String]>) -> Vec<String> {
    let selected = registry.select(agent, default);
    selected.specs().iter().map(|spec| spec.name.clone()).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn choose(tools: Choice) -> Agent {
    Agent { tools, ..Agent::default() }
}

#[test]
fn all_that_is_installed_is_on_offer_but_what_is_on_demand() {
    assert_eq!(tools(&registry(), &Agent::default(), None), ["read", "write", "count"]);
}

#[test]
fn an_exact_list_restricts_and_orders() {
    let agent = choose(Choice::Exactly(names(&["count", "gone", "read"])));
    assert_eq!(tools(&registry(), &agent, None), ["count", "read"], "a missing name is skipped");
}

#[test]
fn what_is_removed_is_not_on_offer_and_what_is_added_is() {
    let agent = choose(Choice::Default { added: names(&["rare"]), removed: names(&["write"]) });
    assert_eq!(tools(&registry(), &agent, None), ["read", "rare", "count"]);
}

#[test]
fn the_host_says_which_extensions_are_on_by_default() {
    let sums = names(&["sums"]);
    assert_eq!(tools(&registry(), &Agent::default(), Some(&sums)), ["count"]);
    let added = Choice::Default { added: names(&["files"]), removed: vec![] };
    let agent = Agent { extensions: added, ..Agent::default() };
    assert_eq!(tools(&registry(), &agent, Some(&sums)), ["read", "write", "count"]);
}

#[test]
fn two_tools_of_one_name_are_refused_and_nothing_is_changed() {
    let mut registry = registry();
    let error = registry.install(Extension::new("more").tool(read)).unwrap_err();
    assert!(error.to_string().contains("two of their tools are named read"), "{error}");
    assert!(!registry.has_extension("more"));
    registry.install(Extension::new("files").tool(read)).unwrap();
    assert!(registry.tool("write").is_none(), "one of the same name is replaced");
    assert!(registry.remove("files") && !registry.remove("files"));
}

#[test]
fn nothing_stands_around_a_tool_that_needs_the_session() {
    let registry = Registry::default().with(crate::session_tools()).unwrap();
    let around = Extension::new("around").wrap_tool("agent", |tool| tool);
    let error = registry.with(around).unwrap_err();
    assert!(error.to_string().contains("agent needs the session"), "{error}");
}
