//! Records and values as bodies of responses.

pub mod changes;
#[cfg(feature = "compression")]
pub mod compressed;
pub mod long_record;
pub mod long_value;
pub mod records;
