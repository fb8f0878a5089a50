//! What several tests begin with.

use base::Result;
use pando_io::File;
use pando_io::sim::SimDisk;
use std::sync::Arc;

/// A disk with the file "f" of `bytes`, everything durable.
pub fn disk_with(bytes: &[u8]) -> Result<(SimDisk, Arc<dyn File>)> {
    let disk = SimDisk::new();
    let file = disk.dir().create("f")?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    disk.dir().sync()?;
    Ok((disk, file))
}
