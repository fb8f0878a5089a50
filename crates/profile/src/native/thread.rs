//! What belongs to the sampled thread: its name and its `errno`.

/// This thread's name, asked of the kernel without a lock.
pub(super) fn thread_name() -> [u64; 2] {
    let mut name = [0_u64; 2];
    // SAFETY: the kernel writes 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// What `errno` was, for the code that was interrupted or is on its way to read it.
pub(super) struct Errno(libc::c_int);

impl Errno {
    pub fn save() -> Self {
        // SAFETY: this thread's errno.
        Errno(unsafe { *libc::__errno_location() })
    }

    pub fn restore(self) {
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
