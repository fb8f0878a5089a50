//! Pando, floor 9: the command.
fn main() {}
