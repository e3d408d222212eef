//! everturn-models
