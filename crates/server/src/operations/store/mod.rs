//! The handlers of a server over a remote store whose native counterparts use what only the engine has. Their entries
//! are beside those.

pub mod databases;
pub mod health;
pub mod outcome;
pub mod tables;
