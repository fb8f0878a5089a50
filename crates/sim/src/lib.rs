//! Pando's crash explorer: seeded workloads on the simulated disk, every image a crash could leave.
