//! Tests of SQL on Pando's trees.

mod basics;
mod support;
