//! Pando, floor 3: the concurrent, insert-only, ordered MVCC tree.
