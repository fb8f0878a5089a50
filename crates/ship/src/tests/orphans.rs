//! Parts of bases that were begun and never published.

use super::faulty::Faulty;
use super::model::Model;
use super::race::node;
use super::restores::restored;
use super::takeover::{Node, ship};
use crate::bases::Draft;
use crate::lineage::Lineage;
use crate::name;
use crate::options::Options;
use crate::parts::PartWriter;
use crate::restore::Goal;
use crate::source::Source as _;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Uploads a base, which is not published.
fn uploaded(node: &mut Node) -> Draft {
    let (attempt, folder) = (node.writer.begin_attempt(), name::BASE_PARTS.to_owned());
    let mut parts = PartWriter::of_attempt(&node.writer.lineage.bucket, folder, attempt);
    let commit = node.model.backup(&mut parts).unwrap();
    Draft { commit, time_ms: 0, parts: parts.finish().unwrap() }
}

fn publish(node: &mut Node, draft: &Draft) {
    let tail = *node.writer.tail();
    node.writer.publish(&draft.manifest(tail.number, tail.hash, None)).unwrap();
}

fn commit(node: &mut Node) {
    node.model.commit(1, vec![7; 3000]);
    ship(node).unwrap();
}

/// Deletes what can go.
fn retain(node: &mut Node, keep_bases: usize) {
    let options = Options { keep_bases, keep_for: Duration::ZERO, ..Options::default() };
    node.retention.begin(&node.writer, &options, u64::MAX).unwrap();
    while node.retention.step(&node.writer).unwrap() {}
}

/// Returns whether the bucket has the parts of a base.
fn has(store: &Arc<Faulty>, draft: &Draft) -> bool {
    let listed = store.bucket().list(name::BASE_PARTS, None).unwrap();
    let attempts: BTreeSet<_> = listed.iter().filter_map(|part| name::attempt_of(part)).collect();
    attempts.contains(&draft.parts.attempt)
}

#[test]
fn parts_of_a_base_that_was_given_up_are_removed() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let mut node = node(&store, &model);
    commit(&mut node);
    let given_up = uploaded(&mut node);
    let published = uploaded(&mut node);
    publish(&mut node, &published);
    commit(&mut node);
    let in_progress = uploaded(&mut node);
    retain(&mut node, 9);
    assert!(!has(&store, &given_up), "nothing removes it");
    assert!(has(&store, &published) && has(&store, &in_progress));
    publish(&mut node, &in_progress);
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, model.history());
}

#[test]
fn parts_of_a_writer_that_was_replaced_stay_until_its_bases_cannot_count() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let mut old = node(&store, &model);
    commit(&mut old);
    let in_progress = uploaded(&mut old);
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let copy = Model::restored(2, model.history(), lineage.id);
    let mut new = node(&store, &copy);
    commit(&mut new);
    let first = uploaded(&mut new);
    publish(&mut new, &first);
    retain(&mut new, 9);
    assert!(has(&store, &in_progress), "its writer may be alive, and publish the base");
    retain(&mut new, 1);
    assert!(!has(&store, &in_progress) && has(&store, &first));
    // It does so now, too late.
    let tail = *old.writer.tail();
    old.writer.publish(&in_progress.manifest(tail.number, tail.hash, None)).unwrap();
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, copy.history());
    commit(&mut new);
    retain(&mut new, 1);
    assert_eq!(restored(&store, Goal::Newest).unwrap().1, copy.history());
}

/// The manifest may be put back.
#[test]
fn nothing_is_removed_while_a_manifest_is_damaged() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let mut node = node(&store, &model);
    commit(&mut node);
    let given_up = uploaded(&mut node);
    let published = uploaded(&mut node);
    publish(&mut node, &published);
    let manifest = store.bucket().list(name::BASES, None).unwrap().pop().unwrap();
    let path = object_store::path::Path::from(format!("prefix/{manifest}"));
    let bytes = store.read(&path);
    store.write(&path, b"");
    let options = Options::default();
    // It looks at the bases first, which fails.
    assert!(node.retention.begin(&node.writer, &options, u64::MAX).is_err());
    while node.retention.step(&node.writer).unwrap() {}
    assert!(has(&store, &given_up) && has(&store, &published));
    store.write(&path, &bytes);
    retain(&mut node, 9);
    assert!(!has(&store, &given_up) && has(&store, &published));
}
