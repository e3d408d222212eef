//! everturn-engine
