//! everturn-worlds
