//! Chunks: slots side by side, behind a header that each of them finds by its address.
//!
//! ```text
//!  a multiple of `ALIGN`
//!  │ owner, number of the first slot │ slot │ slot │ slot │ …
//! ```
//!
//! # Invariants
//!
//! - **C1** A chunk is as aligned as it is long, or more. So the address of a slot without its low bits is that of the header.
//! - **C2** Header and slots are written before the chunk is told to anybody, and the header not after that.

#![expect(unsafe_code, reason = "a slot leads to what stands before it in memory")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::{INDEX_MASK, Index};

struct Header {
    owner: *const (),
    /// The number of the first slot.
    first: u32,
}

/// A chunk of small slots is so long at the most.
const BYTES: usize = 8_192;

/// What is known of chunks of these slots.
pub(super) struct Chunk<T>(PhantomData<T>);

impl<T> Chunk<T> {
    /// Where the first slot stands.
    const OFFSET: usize = size_of::<Header>().next_multiple_of(align_of::<T>());

    /// How many slots there are.
    pub(super) const SLOTS: u32 = {
        let room = BYTES.saturating_sub(Self::OFFSET) / size_of::<T>();
        match room {
            _ if crate::sync::CHECKED => 2,
            0 => 1,
            room => room as u32,
        }
    };

    const LEN: usize = Self::OFFSET + Self::SLOTS as usize * size_of::<T>();
    /// C1.
    const ALIGN: usize = Self::LEN.next_power_of_two();

    fn layout() -> Layout {
        Layout::from_size_align(Self::LEN, Self::ALIGN).expect("a chunk is less than half of the memory")
    }

    /// As indices have but so many bits, one multiplication divides them by `SLOTS` (Granlund and Montgomery, *Division by Invariant
    /// Integers using Multiplication*, 1994): what the factor is too large by, at most `SLOTS`, is too little to show.
    const FACTOR: u64 = (1 << Self::SHIFT) / Self::SLOTS as u64 + 1;
    const SHIFT: u32 = INDEX_MASK.trailing_ones() + Self::SLOTS.next_power_of_two().ilog2();

    /// The slot of an index, as its chunk's number and its place in there.
    #[inline(always)]
    pub(super) fn locate(index: Index) -> (u32, usize) {
        let index = index.get() & INDEX_MASK;
        let chunk = ((u64::from(index) * const { Self::FACTOR }) >> const { Self::SHIFT }) as u32;
        (chunk, (index - chunk * const { Self::SLOTS }) as usize)
    }
}

impl<T: Default> Chunk<T> {
    /// The first slot of a new chunk, which is the `number`th of its owner. Ends the process if there is no memory for it.
    pub(super) fn make(owner: *const (), number: u32) -> NonNull<T> {
        let layout = Self::layout();
        // SAFETY: the layout is not empty: it has a header.
        let Some(chunk) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: the chunk is as long as the layout, whose beginning is aligned for a header and whose `OFFSET` is for slots;
        // nobody else knows of it.
        unsafe {
            chunk.cast::<Header>().write(Header { owner, first: number * Self::SLOTS });
            let first = chunk.byte_add(Self::OFFSET).cast::<T>();
            for slot in 0..Self::SLOTS as usize {
                first.add(slot).write(T::default());
            }
            first
        }
    }
}

impl<T> Chunk<T> {
    /// # Safety
    ///
    /// It came from [`make`](Self::make), and nobody uses it any more.
    pub(super) unsafe fn free(first: NonNull<T>) {
        // SAFETY: the caller's promise; `make` wrote so many slots, and allocated this layout so much before them.
        unsafe {
            ptr::slice_from_raw_parts_mut(first.as_ptr(), Self::SLOTS as usize).drop_in_place();
            dealloc(first.byte_sub(Self::OFFSET).cast().as_ptr(), Self::layout());
        }
    }

    /// Whose a slot is, and its index.
    ///
    /// # Safety
    ///
    /// The slot is of a chunk that is there; the pointer is good for all of that.
    #[inline(always)]
    pub(super) unsafe fn origin(slot: NonNull<T>) -> (*const (), Index) {
        let header = slot.as_ptr().map_addr(|address| address & !(Self::ALIGN - 1)).cast::<Header>();
        // SAFETY: C1: there the header stands; C2: nobody writes it any more, and who has a slot's pointer sees the chunk.
        let Header { owner, first } = unsafe { header.read() };
        let place = (slot.as_ptr().addr() - header.addr() - Self::OFFSET) / size_of::<T>();
        (owner, Index::new(first + place as u32).expect("index 0 is handed out to nobody"))
    }
}
