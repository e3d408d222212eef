//! everturn-store
