//! Every call made to fail in turn.
