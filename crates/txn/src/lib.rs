//! Pando, floor 3: clocks, publication, read sets, isolation and validation; no I/O.
