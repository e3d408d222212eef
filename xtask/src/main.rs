//! Everturn errands.
fn main() {}
