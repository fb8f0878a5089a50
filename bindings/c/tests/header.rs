//! `pando.h` is what cbindgen makes of the sources. After a change of the interface, write it with
//! `PANDO_WRITE_HEADER=1 cargo test --test header`.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut made = Vec::new();
    let bindings = cbindgen::Builder::new().with_config(config).with_crate(root).generate();
    bindings.expect("cbindgen reads the sources").write(&mut made);
    let made = String::from_utf8(made).expect("a header is text");
    let path = root.join("pando.h");
    if std::env::var_os("PANDO_WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("pando.h is written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let difference = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
    assert!(
        made == kept,
        "pando.h is not what the sources say; write it with PANDO_WRITE_HEADER=1. First difference: \
         {difference:?}"
    );
    let version = format!("#define PANDO_VERSION {:?}", env!("CARGO_PKG_VERSION"));
    assert!(made.contains(&version), "cbindgen.toml has another version than Cargo.toml");
}
