//! How wide the numbers are that tell one use of a place from the next. All of them wrap; each says at its definition what a wrap
//! costs whoever was stopped for exactly so many uses.
//!
//! Under `cfg(delta_fifo_narrow)` (`bash .ci/narrow`) those that cost an order, or nothing, have two bits. Those on which more
//! depends begin a few steps before their wrap; with `DELTA_FIFO_NARROW=all` they have two bits too, for tests in which no
//! thread stands between two steps while others go once around.

/// Bits of a number whose wrap costs no more than an order.
pub(crate) const fn harmless(bits: u32) -> u32 {
    if cfg!(delta_fifo_narrow) { 2 } else { bits }
}

/// Where a tag or a life of 32 bits begins.
pub(crate) const FIRST: u32 = if cfg!(delta_fifo_narrow) { u32::MAX - 2 } else { 0 };

/// The tag or life after this one.
#[cfg(not(delta_fifo_narrow))]
#[inline(always)]
pub(crate) const fn after(number: u32) -> u32 {
    number.wrapping_add(1)
}

#[cfg(delta_fifo_narrow)]
pub(crate) fn after(number: u32) -> u32 {
    let next = number.wrapping_add(1);
    if all_are_narrow() { number & !3 | next & 3 } else { next }
}

#[cfg(delta_fifo_narrow)]
pub(crate) fn all_are_narrow() -> bool {
    use std::sync::LazyLock;
    static ALL: LazyLock<bool> =
        LazyLock::new(|| std::env::var("DELTA_FIFO_NARROW").is_ok_and(|narrow| narrow == "all"));
    *ALL
}
