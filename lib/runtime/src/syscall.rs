//! The system calls, one function each, made from the one table (`abi::for_each_syscall!`).
//!
//! Most are safe: whatever words they are given, the kernel protects everybody else, and the caller's own memory stays
//! as it is. Those that read or write memory at an address, or change what lies behind one's own addresses, are unsafe;
//! the modules named after their nouns wrap them. The calls that come back with their registers lost or that pass them
//! on live in [`crate::time_slice`], [`crate::predicate`] and [`crate::transfer`].

pub use abi::syscall::{BatchRow, Row, TABLE, number};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress, Word};
use core::arch::asm;

/// What comes back from a call, made into a result.
#[inline]
pub(crate) fn result<T: Word>(error: u64, detail: u64) -> Result<T, Failure> {
    if error == 0 {
        return Ok(T::from_word(detail));
    }
    Err(Failure { error: Error::from_number(error).unwrap_or(Error::UnknownCall), detail })
}

macro_rules! trap {
    ($number:expr $(, $register:tt = $value:expr)*) => {{
        let (error, detail): (u64, u64);
        asm!(
            "syscall",
            inlateout("rax") $number => error,
            $(in($register) $value,)*
            lateout("rdx") detail, lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
        (error, detail)
    }};
}

macro_rules! pass {
    ($number:expr,) => {
        trap!($number)
    };
    ($number:expr, $a:ident) => {
        trap!($number, "rdi" = $a)
    };
    ($number:expr, $a:ident $b:ident) => {
        trap!($number, "rdi" = $a, "rsi" = $b)
    };
    ($number:expr, $a:ident $b:ident $c:ident) => {
        trap!($number, "rdi" = $a, "rsi" = $b, "rdx" = $c)
    };
    ($number:expr, $a:ident $b:ident $c:ident $d:ident) => {
        trap!($number, "rdi" = $a, "rsi" = $b, "rdx" = $c, "r10" = $d)
    };
    ($number:expr, $a:ident $b:ident $c:ident $d:ident $e:ident) => {
        trap!($number, "rdi" = $a, "rsi" = $b, "rdx" = $c, "r10" = $d, "r8" = $e)
    };
    ($number:expr, $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident) => {
        trap!($number, "rdi" = $a, "rsi" = $b, "rdx" = $c, "r10" = $d, "r8" = $e, "r9" = $f)
    };
}

macro_rules! safe {
    ($name:ident [$($doc:tt)*] $number:literal ($($argument:ident: $type:ty),*) -> $result:ty) => {
        $($doc)*
        ///
        /// # Errors
        /// The kernel's refusals, as the table lists them.
        #[inline]
        pub fn $name($($argument: $type),*) -> Result<$result, Failure> {
            $(let $argument = $argument.to_word();)*
            // SAFETY: this call neither reads nor writes memory at an address, nor changes what lies at the addresses
            // of live objects; it clobbers rax, rdx, rcx and r11 only.
            let (error, detail) = unsafe { pass!($number as u64, $($argument)*) };
            result(error, detail)
        }
    };
}

macro_rules! raw {
    ($name:ident [$($doc:tt)*] $number:literal ($($argument:ident: $type:ty),*) -> $result:ty) => {
        $($doc)*
        ///
        /// # Errors
        /// The kernel's refusals, as the table lists them.
        ///
        /// # Safety
        /// The addresses are those of memory that is as long as the call takes it to be and that may be read or written
        /// as it does. What lies at the address of a live object does not change.
        #[inline]
        pub unsafe fn $name($($argument: $type),*) -> Result<$result, Failure> {
            $(let $argument = $argument.to_word();)*
            // SAFETY: the caller answers for the addresses; the call clobbers rax, rdx, rcx and r11 only.
            let (error, detail) = unsafe { pass!($number as u64, $($argument)*) };
            result(error, detail)
        }
    };
}

macro_rules! stub {
    (time_slice_yield $($rest:tt)*) => {};
    (predicate_wait $($rest:tt)*) => {};
    (batch $($rest:tt)*) => { raw! { batch $($rest)* } };
    (page_unbind $($rest:tt)*) => { raw! { page_unbind $($rest)* } };
    (page_map $($rest:tt)*) => { raw! { page_map $($rest)* } };
    (page_allocate $($rest:tt)*) => { raw! { page_allocate $($rest)* } };
    (address_space_switch $($rest:tt)*) => { raw! { address_space_switch $($rest)* } };
    (page_table_link $($rest:tt)*) => { raw! { page_table_link $($rest)* } };
    (page_table_unlink $($rest:tt)*) => { raw! { page_table_unlink $($rest)* } };
    (environment_create $($rest:tt)*) => { raw! { environment_create $($rest)* } };
    (context_set $($rest:tt)*) => { raw! { context_set $($rest)* } };
    (region_copy $($rest:tt)*) => { raw! { region_copy $($rest)* } };
    (device_submit $($rest:tt)*) => { raw! { device_submit $($rest)* } };
    (page_become $($rest:tt)*) => { raw! { page_become $($rest)* } };
    (volume_step $($rest:tt)*) => { raw! { volume_step $($rest)* } };
    (block_read $($rest:tt)*) => { raw! { block_read $($rest)* } };
    (block_write $($rest:tt)*) => { raw! { block_write $($rest)* } };
    (block_modify $($rest:tt)*) => { raw! { block_modify $($rest)* } };
    (filter_insert $($rest:tt)*) => { raw! { filter_insert $($rest)* } };
    (channel_send $($rest:tt)*) => { raw! { channel_send $($rest)* } };
    (channel_receive $($rest:tt)*) => { raw! { channel_receive $($rest)* } };
    (entropy_read $($rest:tt)*) => { raw! { entropy_read $($rest)* } };
    ($($rest:tt)*) => { safe! { $($rest)* } };
}

macro_rules! stubs {
    ($($(#[doc = $doc:literal])* $number:literal $name:ident($($argument:ident: $type:ty),*) -> $result:ty,
       right $right:literal, errors [$($error:ident),*];)*) => {
        $(stub! { $name [$(#[doc = $doc])*] $number ($($argument: $type),*) -> $result })*
    };
}

abi::for_each_syscall!(stubs);

/// Any call by number, with six words: for tests, and for calls that are chosen at run time.
///
/// # Safety
/// As for the call that has this number; it is none of those that lose or pass on registers.
#[inline]
pub unsafe fn invoke(number: u64, arguments: [u64; 6]) -> Result<u64, Failure> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller answers for the number and the arguments.
    let (error, detail) = unsafe { pass!(number, a b c d e f) };
    result(error, detail)
}
