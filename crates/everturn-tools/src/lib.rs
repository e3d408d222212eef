//! everturn-tools
