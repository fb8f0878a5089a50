//! The in-page allocator.
