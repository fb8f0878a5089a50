//! The name and the `errno` of the sampled thread.

/// Returns this thread's name, which the kernel provides without a lock.
pub(super) fn thread_name() -> [u64; 2] {
    let mut name = [0_u64; 2];
    // SAFETY: the kernel writes 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// The saved value of `errno`, for code that was interrupted before it could read it.
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
