//! The tests of the server that need no more than this library. Those that run `pando` beside it, or are about its
//! options, are tests of the command.

mod documents;
mod http;
mod serving;
mod streams;
