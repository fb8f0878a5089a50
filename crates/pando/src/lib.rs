//! Pando: an embedded transactional storage engine.
