//! Everything that the crate promises, tested at its edge.

mod document;
