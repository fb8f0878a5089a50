//! Pando, floor 1: the one page layout, its in-page allocator and its search; bytes only, no I/O.
