//! The tree itself passes its checks.

use std::path::Path;

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let findings = xtask::tidy::check(root).expect("the tree can be read");
    let errors: Vec<_> = findings.iter().filter(|f| f.is_error()).map(ToString::to_string).collect();
    assert!(errors.is_empty(), "cargo xtask tidy:\n{}", errors.join("\n"));
}
