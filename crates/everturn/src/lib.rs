//! everturn
