//! Pando, floor 3: a B+tree of immutable pages: search, cursor, editor, checker.
