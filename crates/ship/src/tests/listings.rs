//! The databases of a bucket.

use super::faulty::Faulty;
use super::model::Model;
use super::restores::ship_all;
use crate::bucket::Bucket;
use crate::handle::Shipper;
use crate::options::Options;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

fn ship_to(bucket: &Bucket, model: &Model) {
    let options = Options { sync: true, ..Options::default() };
    let shipper = Shipper::over(Arc::new(model.clone()), bucket.clone(), options).unwrap();
    shipper.wait(model.commit(1, "shipped")).unwrap();
    shipper.release().unwrap();
}

fn listed(bucket: &Bucket) -> Vec<(String, u64)> {
    let found = bucket.listings().unwrap();
    assert!(found.iter().all(|found| found.listing.is_ok()), "{found:?}");
    found.into_iter().map(|found| (found.database, found.incarnation)).collect()
}

#[test]
fn databases_are_found_beside_a_lineage_that_is_the_bucket_itself() {
    let store = Faulty::new(1);
    let bucket = store.bucket();
    ship_to(&bucket.within("shop").unwrap(), &Model::new(1));
    assert!(!bucket.is_shipped().unwrap());
    ship_to(&bucket, &Model::new(1));
    // One that has the name of a folder of the lineage.
    ship_to(&bucket.within("log").unwrap(), &Model::new(1));
    assert!(bucket.is_shipped().unwrap());
    assert_eq!(bucket.databases().unwrap(), ["log", "shop"]);
    let expected = ["", "log", "shop"].map(|name| (name.to_owned(), 1));
    assert_eq!(listed(&bucket), expected);
}

#[test]
fn a_database_without_a_base_cannot_be_restored_yet() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    assert!(!store.bucket().has_base().unwrap());
    ship_all(&store, &model, Options::default());
    assert!(store.bucket().has_base().unwrap());
    let begun = store.bucket().within("begun").unwrap();
    let bytes = store.read(&object_store::path::Path::from("prefix/lineage"));
    store.write(&object_store::path::Path::from("prefix/begun/lineage"), &bytes);
    assert!(begun.is_shipped().unwrap() && !begun.has_base().unwrap());
}

/// A bucket can be all of a disk.
#[test]
fn what_the_file_system_has_in_a_folder_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = Bucket::connect(dir.path().to_str().unwrap()).unwrap();
    ship_to(&bucket.within("shop").unwrap(), &Model::new(1));
    for name in ["lost+found", ".Trash-0"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        // It cannot be read.
        symlink("lineage", dir.path().join(name).join("lineage")).unwrap();
    }
    assert_eq!(bucket.databases().unwrap(), ["shop"]);
    assert_eq!(listed(&bucket), [("shop".to_owned(), 1)]);
    // No server can have such a database. It is listed for people.
    ship_to(&bucket.within("old.db").unwrap(), &Model::new(1));
    assert_eq!(bucket.databases().unwrap(), ["shop"]);
    assert_eq!(listed(&bucket).len(), 2);
}
