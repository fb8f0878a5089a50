//! Records and values as bodies of responses.

pub mod changed_rows;
pub mod changes;
#[cfg(feature = "compression")]
pub mod compressed;
#[cfg(feature = "remote")]
mod gathered;
pub mod long_record;
pub mod long_value;
pub mod look_ups;
pub mod records;
pub mod rows;
