//! Pointers as arguments: what C passes becomes a value that safe code checks and uses.
//!
//! The constructors are unsafe, since only the caller of a function knows that its pointers are what the header
//! demands. Everything else that can be known of a pointer is checked here: NULL, alignment, the type of a handle,
//! lengths.

use binding::{Failure, Kind, Outcome};
use pando::{ErrorKind, limits};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// The longest key in bytes that any database can hold.
const MAX_KEY_BYTES: usize = limits::max_key_bytes(limits::MAX_PAGE_BYTES);
/// The most elements of an array of keys or values.
const MAX_COUNT: usize = 1 << 24;

/// A type whose objects C knows by pointer only.
pub trait Handle {
    /// What is behind the pointer.
    type Object;
    /// How messages call it, as in "the table".
    const NAME: &'static str;
    /// A number that no other type has, in front of every object.
    const TAG: u64;
}

/// An object as it lies in memory. The tag comes first, so that it can be read through a pointer to any handle.
#[repr(C)]
struct Tagged<T> {
    tag: u64,
    object: T,
}

/// Declares types of handles: the name in C, what it holds, how messages call it, and its number.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident = $object:ty, $what:literal, $tag:literal;)*) => {$(
        impl crate::memory::Handle for $name {
            type Object = $object;
            const NAME: &'static str = $what;
            const TAG: u64 = u64::from_le_bytes(*$tag);
        }
    )*};
}
pub(crate) use handles;

/// Makes a handle of an object. [`free`] ends it.
pub(crate) fn handle<H: Handle>(object: H::Object) -> *mut H {
    Box::into_raw(Box::new(Tagged { tag: H::TAG, object })).cast()
}

/// Ends a handle; NULL and handles of another type are left alone. A panic of the object's destructor is caught.
///
/// # Safety
/// `given` is NULL, or came from [`handle`] and was not freed. No call uses it.
pub(crate) unsafe fn free<H: Handle>(given: *mut H) {
    // SAFETY: as the caller promises.
    if unsafe { Ref::of_mut(given) }.get().is_ok() {
        // SAFETY: the tag says that `handle` made it of such a box; the caller says that this happens once.
        let freed = unsafe { Box::from_raw(given.cast::<Tagged<H::Object>>()) };
        let _ = binding::guard(|| {
            drop(freed);
            Ok(())
        });
    }
}

/// A handle as an argument.
#[derive(Clone, Copy)]
pub(crate) struct Ref<'a, H: Handle>(*const H, PhantomData<&'a H::Object>);

impl<'a, H: Handle> Ref<'a, H> {
    /// # Safety
    /// `given` is NULL, or came from [`handle`] for some type, and is not freed during `'a`.
    pub unsafe fn new(given: *const H) -> Self {
        Ref(given, PhantomData)
    }

    /// # Safety
    /// As for [`Ref::new`]. The header says with `const` what a function does not change.
    pub unsafe fn of_mut(given: *mut H) -> Self {
        Ref(given.cast_const(), PhantomData)
    }

    /// The object.
    pub fn get(self) -> Outcome<&'a H::Object> {
        if self.0.is_null() {
            return Err(Failure::misuse(format!("{} is NULL", H::NAME)));
        }
        if !self.0.cast::<u64>().is_aligned() {
            return Err(Failure::misuse(format!("the pointer to {} does not point to a handle", H::NAME)));
        }
        // SAFETY: `new` says that it is a handle of some type, and each begins with a tag.
        let tag = unsafe { self.0.cast::<u64>().read() };
        if tag != H::TAG {
            return Err(Failure::misuse(format!("{} is a handle of another type, or was freed", H::NAME)));
        }
        // SAFETY: the tag says that `handle` made it of this type. Only shared references to it are ever made.
        Ok(unsafe { &(*self.0.cast::<Tagged<H::Object>>()).object })
    }
}

/// Bytes as an argument.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(*const c_void, usize, PhantomData<&'a [u8]>);

impl<'a> Bytes<'a> {
    /// # Safety
    /// `given` is NULL, or `length` bytes can be read there and nobody changes them during `'a`.
    pub unsafe fn new(given: *const c_void, length: usize) -> Self {
        Bytes(given, length, PhantomData)
    }

    /// The bytes, if there are at most `most`.
    fn at_most(self, what: &str, most: u64) -> Outcome<&'a [u8]> {
        let Bytes(given, length, _) = self;
        if length == 0 {
            return Ok(&[]);
        }
        if given.is_null() {
            return Err(Failure::misuse(format!("{what} is NULL, and its length is {length}")));
        }
        if length as u64 > most || isize::try_from(length).is_err() {
            return Err(Failure::invalid(format!("{what} has {length} bytes; at most {most} are possible")));
        }
        // SAFETY: `new` says so; the length fits an `isize`, and bytes need no alignment.
        Ok(unsafe { std::slice::from_raw_parts(given.cast::<u8>(), length) })
    }

    /// The bytes of a key.
    pub fn key(self) -> Outcome<&'a [u8]> {
        self.at_most("the key", MAX_KEY_BYTES as u64)
    }

    /// The bytes of a value.
    pub fn value(self) -> Outcome<&'a [u8]> {
        self.at_most("the value", limits::MAX_VALUE_BYTES)
    }

    /// The bytes of a text, which must be UTF-8.
    pub fn text(self) -> Outcome<&'a str> {
        let bytes = self.at_most("the text", limits::MAX_VALUE_BYTES)?;
        std::str::from_utf8(bytes).map_err(|_| Failure::invalid("the text is not UTF-8"))
    }

    /// The bytes of a value; `None` if the pointer is NULL.
    pub fn optional_value(self) -> Outcome<Option<&'a [u8]>> {
        if self.0.is_null() && self.1 == 0 { Ok(None) } else { self.value().map(Some) }
    }

    /// The bytes of one end of a range; `None` if the pointer is NULL.
    pub fn bound(self) -> Outcome<Option<&'a [u8]>> {
        if self.0.is_null() && self.1 == 0 { Ok(None) } else { self.key().map(Some) }
    }
}

/// A string as an argument.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    /// # Safety
    /// `given` is NULL, or points to a string that ends with a zero byte and that nobody changes during `'a`.
    pub unsafe fn new(given: *const c_char) -> Self {
        Text(given, PhantomData)
    }

    fn string(self, what: &str) -> Outcome<&'a CStr> {
        if self.0.is_null() {
            return Err(Failure::misuse(format!("{what} is NULL")));
        }
        // SAFETY: `new` says so.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// The string.
    pub fn get(self, what: &str) -> Outcome<&'a str> {
        let text = self.string(what)?.to_str();
        text.map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
    }

    /// The string; `None` if the pointer is NULL.
    pub fn optional(self, what: &str) -> Outcome<Option<&'a str>> {
        if self.0.is_null() { Ok(None) } else { self.get(what).map(Some) }
    }

    /// The string as a path.
    pub fn path(self, what: &str) -> Outcome<&'a Path> {
        Ok(Path::new(OsStr::from_bytes(self.string(what)?.to_bytes())))
    }
}

/// An array as an argument.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a, T>(*const T, usize, PhantomData<&'a [T]>);

impl<'a, T> Array<'a, T> {
    /// # Safety
    /// `given` is NULL, or `count` elements can be read there and nobody changes them during `'a`.
    pub unsafe fn new(given: *const T, count: usize) -> Self {
        Array(given, count, PhantomData)
    }

    /// The elements.
    pub fn get(self, what: &str) -> Outcome<&'a [T]> {
        if self.1 == 0 {
            return Ok(&[]);
        }
        check_array(self.0, self.1, what)?;
        // SAFETY: `new` says so; it is neither NULL nor misaligned nor too long.
        Ok(unsafe { std::slice::from_raw_parts(self.0, self.1) })
    }

    /// The only element; `None` if the pointer is NULL.
    pub fn optional(self, what: &str) -> Outcome<Option<&'a T>> {
        if self.0.is_null() { Ok(None) } else { Ok(self.get(what)?.first()) }
    }
}

fn check_array<T>(given: *const T, count: usize, what: &str) -> Outcome<()> {
    if given.is_null() || !given.is_aligned() {
        return Err(Failure::misuse(format!("{what} is NULL or misaligned")));
    }
    if count > MAX_COUNT || count.checked_mul(size_of::<T>()).is_none() {
        return Err(Failure::invalid(format!(
            "{what} has {count} elements; at most {MAX_COUNT} are possible"
        )));
    }
    Ok(())
}

/// A place for a result.
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// # Safety
    /// `given` is NULL, or a `T` can be written there until the value is dropped.
    pub unsafe fn new(given: *mut T) -> Self {
        Out(given)
    }

    /// The same place, known to be there, and set to `initial`.
    pub fn required(self, what: &str, initial: T) -> Outcome<Self> {
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(Failure::misuse(format!("the output {what} is NULL or misaligned")));
        }
        self.set(initial);
        Ok(self)
    }

    /// Sets the place, if there is one.
    pub fn set(self, value: T) {
        self.set_with(|| value);
    }

    /// Sets the place to what `value` returns, if there is one; otherwise does not call it.
    pub fn set_with(self, value: impl FnOnce() -> T) {
        if !self.0.is_null() && self.0.is_aligned() {
            // SAFETY: `new` says so. What was there is not dropped: C's values have no destructors.
            unsafe { self.0.write(value()) };
        }
    }
}

/// Places for several results, one after another.
pub(crate) struct Outs<T>(*mut T, usize);

impl<T: Copy> Outs<T> {
    /// # Safety
    /// `given` is NULL, or `count` elements can be written there until the value is dropped.
    pub unsafe fn new(given: *mut T, count: usize) -> Self {
        Outs(given, count)
    }

    /// The same places, known to be there, and each set to `initial`.
    pub fn required(self, what: &str, initial: T) -> Outcome<Self> {
        if self.1 > 0 {
            check_array(self.0, self.1, what)?;
        }
        for index in 0..self.1 {
            self.set(index, initial);
        }
        Ok(self)
    }

    /// Sets one place.
    pub fn set(&self, index: usize, value: T) {
        assert!(index < self.1, "the places were counted");
        // SAFETY: `new` and `required` say so, and the index is one of them.
        unsafe { self.0.add(index).write(value) };
    }
}

/// The caller's buffer.
#[derive(Clone, Copy)]
pub(crate) struct Buffer(*mut c_void, usize);

impl Buffer {
    /// # Safety
    /// `given` is NULL, or `length` bytes can be written there until the value is dropped.
    pub unsafe fn new(given: *mut c_void, length: usize) -> Self {
        Buffer(given, length)
    }

    /// The same buffer, known to be there if it has a length.
    pub fn checked(self) -> Outcome<Self> {
        if self.0.is_null() && self.1 > 0 {
            return Err(Failure::misuse(format!("the buffer is NULL, and its length is {}", self.1)));
        }
        Ok(self)
    }

    /// Copies `bytes`, which fit, to the beginning of the buffer. Returns the rest of it.
    pub fn filled_with(self, bytes: &[u8]) -> Self {
        assert!(self.fill(bytes), "the bytes were counted");
        Buffer(self.0.cast::<u8>().wrapping_add(bytes.len()).cast(), self.1 - bytes.len())
    }

    /// Copies `bytes` to the buffer, if they fit. Returns whether they do.
    pub fn fill(self, bytes: &[u8]) -> bool {
        if bytes.len() > self.1 {
            return false;
        }
        if !bytes.is_empty() {
            // SAFETY: `new` says that it can be written, it is long enough and, as it has a length, not NULL. `bytes`
            // are the library's own memory, which no buffer of C overlaps.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast::<u8>(), bytes.len()) };
        }
        true
    }
}

/// Where lent elements are. If there are none, it is the address of a byte: Rust's own is below 4096, which Go's
/// garbage collector takes for damage and ends the program.
pub(crate) fn lent<T>(elements: &[T]) -> *const T {
    const { assert!(align_of::<T>() <= align_of::<Nothing>()) };
    if elements.is_empty() { (&raw const NOTHING).cast() } else { elements.as_ptr() }
}

#[repr(C, align(16))]
struct Nothing(u8);

static NOTHING: Nothing = Nothing(0);

/// Memory of `malloc`, freed unless it is handed out.
pub(crate) struct Owned {
    start: *mut u8,
    length: usize,
}

impl Owned {
    /// A block of `length` bytes, all zero.
    pub fn new(length: usize) -> Outcome<Self> {
        // SAFETY: a call without conditions. At least a byte, so that NULL means only that there is no memory.
        let start = unsafe { libc::calloc(length.max(1), 1) }.cast::<u8>();
        if start.is_null() {
            let message = format!("malloc cannot allocate {length} bytes for a result");
            return Err(Failure::new(Kind::Engine(ErrorKind::Full), message));
        }
        Ok(Owned { start, length })
    }

    /// A copy of `bytes`.
    pub fn copy(bytes: &[u8]) -> Outcome<Self> {
        let mut owned = Owned::new(bytes.len())?;
        owned.write(0, bytes);
        Ok(owned)
    }

    /// A copy of `text`, with a zero byte at its end.
    pub fn text(text: &str) -> Outcome<Self> {
        let mut owned = Owned::new(text.len() + 1)?;
        owned.write(0, text.as_bytes());
        Ok(owned)
    }

    /// Copies `bytes` to the place `at`.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        // SAFETY: the block has `length` bytes, which are initialized, and `self` is borrowed alone.
        let block = unsafe { std::slice::from_raw_parts_mut(self.start, self.length) };
        block[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Stores element `index` of an array at the block's beginning.
    pub fn write_element<T: Copy>(&mut self, index: usize, element: T) {
        const { assert!(align_of::<T>() <= align_of::<libc::max_align_t>()) };
        let end = (index + 1) * size_of::<T>();
        assert!(end <= self.length, "within the block");
        // SAFETY: the place is within the block and aligned, as `calloc` aligns for every type; a `Copy` type has no
        // destructor.
        unsafe { self.start.cast::<T>().add(index).write(element) };
    }

    /// Where the byte `at` of the block will be.
    pub fn pointer(&self, at: usize) -> *const u8 {
        assert!(at <= self.length, "within the block");
        self.start.wrapping_add(at)
    }

    /// Hands the block out, to be freed with `pando_free`.
    pub fn release(self) -> *mut c_void {
        let start = self.start;
        std::mem::forget(self);
        start.cast()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it came from `calloc`, and was not handed out.
        unsafe { libc::free(self.start.cast()) };
    }
}

/// Frees memory that a function of this library returned as a plain pointer. Threads: any.
// # Safety: as "Arguments" in pando.h says: the pointer is NULL or came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pando_free(memory: *mut c_void) {
    // SAFETY: what the library hands out as plain pointers came from `calloc`.
    unsafe { libc::free(memory) };
}
