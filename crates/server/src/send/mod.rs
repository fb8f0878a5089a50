//! Records and values as bodies of responses.

pub mod changes;
pub mod long_record;
pub mod long_value;
pub mod records;
