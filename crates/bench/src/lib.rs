//! Pando's workloads: exact definitions, verified answers, one row of figures each.
