//! Access control: users, and what each may do.
//!
//! ```text
//! words --Rule::parse--> Rule --User::apply--> User --User::check--> Denied, or nothing
//! ```
//! The rules are those of Redis 7.0 without selectors, and one of our own for databases (`db=`). A user is plain data: a
//! server keeps users by name, asks [`User::check`] before each command, and does what costs time or chance itself: it
//! gives [`User::apply`] a [`Keeper`] that turns passwords into what is kept of them.

mod classes;
mod databases;
mod file;
mod rules;
mod user;

#[cfg(test)]
mod tests;

pub use classes::{CATEGORIES, categories_of, commands_of};
pub use file::{FileError, Line, is_name, lines};
pub use rules::{Rule, Secret};
pub use user::{Denied, Keeper, User, is_for_anybody};
