//! Pando, floor 2: the page pool.
