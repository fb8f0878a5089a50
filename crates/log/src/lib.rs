//! Pando, floor 2: the write-ahead log.
