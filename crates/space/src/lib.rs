//! Pando, floor 2: the map of used and free extents of the data file.
