//! The loaded code: the executable and its libraries, each with its unwind tables.
//!
//! The loader lists what it has mapped (`dl_iterate_phdr`). In each object, `PT_GNU_EH_FRAME` is the sorted index of
//! the unwind tables (`.eh_frame_hdr`), whose first field leads to the tables (`.eh_frame`). The tables end somewhere
//! in the same segment. That bound is sufficient, because they are only entered through the index. Both are copied,
//! because an object may be unloaded.

use framehop::{ExplicitModuleSectionInfo, Module};
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;

/// The only encoding of the index's first field that linkers write: a signed 32-bit distance from the field itself.
const DISTANCE_FROM_HERE: u8 = 0x1b;

/// The number of objects that the loader has ever loaded and unloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation {
    added: u64,
    removed: u64,
}

/// Returns all loaded objects.
pub(super) fn loaded() -> (Generation, Vec<Module<Vec<u8>>>) {
    let mut found = (Generation::default(), Vec::new());
    // SAFETY: `each` is called with the pointer below, which is valid until this call returns, and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    found
}

/// # Safety
/// `info` is an entry that the loader passes; `data` is a `(Generation, Vec<Module>)`.
unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the caller guarantees both; the loader's entry lives for this call.
    let (info, found) = unsafe { (&*info, &mut *data.cast::<(Generation, Vec<Module<Vec<u8>>>)>()) };
    found.0 = Generation { added: info.dlpi_adds, removed: info.dlpi_subs };
    // SAFETY: the loader's entry names its own headers.
    found.1.extend(unsafe { module(info) });
    0
}

/// # Safety
/// `info` is an entry of the loader, which holds its lock: the object stays mapped.
unsafe fn module(info: &libc::dl_phdr_info) -> Option<Module<Vec<u8>>> {
    // SAFETY: the headers that the entry names, as many as it says.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let segments = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let start = segments().map(|segment| segment.p_vaddr).min()?;
    let end = segments().map(|segment| segment.p_vaddr + segment.p_memsz).max()?;

    let index = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let index = index.p_vaddr..index.p_vaddr + index.p_memsz;
    let holder = segments().find(|segment| within(segment).contains(&index.start))?;
    // SAFETY: this is a part of a readable segment that the loader has mapped.
    let index_bytes = unsafe { copy(info.dlpi_addr, &index) };
    let (&encoding, distance) = (index_bytes.get(1)?, index_bytes.get(4..8)?);
    if encoding != DISTANCE_FROM_HERE {
        return None;
    }
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    let tables = (index.start + 4).checked_add_signed(distance.into())?..within(holder).end;
    if !within(holder).contains(&tables.start) {
        return None;
    }
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        // SAFETY: see above.
        eh_frame: Some(unsafe { copy(info.dlpi_addr, &tables) }),
        eh_frame_svma: Some(tables),
        eh_frame_hdr: Some(index_bytes),
        eh_frame_hdr_svma: Some(index),
        ..Default::default()
    };
    // SAFETY: the loader's string, or null if there is no name.
    let name = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Some(Module::new(name, info.dlpi_addr + start..info.dlpi_addr + end, info.dlpi_addr, sections))
}

/// Returns the part of a segment that comes from its file.
fn within(segment: &libc::Elf64_Phdr) -> Range<u64> {
    segment.p_vaddr..segment.p_vaddr + segment.p_filesz
}

/// # Safety
/// `range` above `base` is mapped and readable.
unsafe fn copy(base: u64, range: &Range<u64>) -> Vec<u8> {
    let start = (base + range.start) as *const u8;
    // SAFETY: the caller guarantees this.
    unsafe { std::slice::from_raw_parts(start, (range.end - range.start) as usize) }.to_vec()
}
