//! everturn-macros
