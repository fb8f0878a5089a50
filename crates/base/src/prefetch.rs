//! A prefetch hint to the processor.

/// Asks the processor to fetch the cache line at `at`, which may be any address. It is one instruction, which does not
/// wait.
///
/// ```
/// let words = [1u64, 2, 3];
/// pando_base::prefetch::prefetch(&words[2]);
/// ```
#[inline(always)]
pub fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect that a program could observe, at any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
