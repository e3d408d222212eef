//! everturn-testkit
