//! The word of an entry: all that a compare-and-swap must know, in 64 bits.
//!
//! ```text
//!  63   61    60        59       58             32 31              0
//! ┌───────┬──────┬────────────┬──────────────────┬─────────────────┐
//! │ state │ kind │ background │    generation    │   newest fact   │
//! └───────┴──────┴────────────┴──────────────────┴─────────────────┘
//! ```
//!
//! Every change of state has a name here, and says what its caller must do when its compare-and-swap has won.

use std::fmt;

use crate::slab::Index;
use crate::sync::{planted, width};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not in the table, or about to be unlinked by whoever meets it.
    Retired,
    /// Has no deltas: it stands for what is known of its key, or for a key that an open replace may ask for.
    Idle,
    /// Has deltas; whoever moved it here owes the line a handle, and anybody who meets it helps first.
    Linking,
    /// Has deltas and stands in line.
    Queued,
    /// A consumer has it; facts may be arriving.
    Leased,
    /// Has deltas and waits for its time.
    Delayed,
}

/// The newest delta: of the facts, else of what was given back, else of the lease, else what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newest {
    Live,
    Deleted,
}

impl Newest {
    pub(super) fn of(exists: bool) -> Self {
        if exists { Newest::Live } else { Newest::Deleted }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

const NEWEST: u64 = u32::MAX as u64;
const GENERATION: u32 = 32;
pub(super) const GENERATION_BITS: u32 = 27;
const GENERATIONS: u64 = (1 << width::harmless(GENERATION_BITS)) - 1;
const BACKGROUND: u64 = 1 << 59;
const DELETED: u64 = 1 << 60;
const STATE: u32 = 61;

/// What an append asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing: it stands in line, or its lease's end puts it there.
    Nothing,
    /// Put it in line.
    Link,
    /// The same, and its delay is void.
    Undelay,
}

impl Word {
    /// Of a slot that was never used.
    pub(super) const NEW: Word = Word(0);

    pub(super) fn from_bits(bits: u64) -> Self {
        Word(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) fn state(self) -> State {
        match self.0 >> STATE {
            0 => State::Retired,
            1 => State::Idle,
            2 => State::Linking,
            3 => State::Queued,
            4 => State::Leased,
            _ => State::Delayed,
        }
    }

    pub(super) fn kind(self) -> Newest {
        Newest::of(self.0 & DELETED == 0)
    }

    pub(super) fn newest(self) -> Option<Index> {
        Index::new((self.0 & NEWEST) as u32)
    }

    pub(super) fn generation(self) -> u32 {
        ((self.0 >> GENERATION) & GENERATIONS) as u32
    }

    /// In which line it stands, or will.
    pub(super) fn is_background(self) -> bool {
        self.0 & BACKGROUND != 0
    }

    fn with_state(self, state: State) -> Self {
        Word(self.0 & !(7 << STATE) | (state as u64) << STATE)
    }

    fn with_kind(self, kind: Newest) -> Self {
        match kind {
            Newest::Live => Word(self.0 & !DELETED),
            Newest::Deleted => Word(self.0 | DELETED),
        }
    }

    fn with_newest(self, newest: Option<Index>) -> Self {
        Word(self.0 & !NEWEST | u64::from(newest.map_or(0, Index::get)))
    }

    fn with_background(self, background: bool) -> Self {
        if background { Word(self.0 | BACKGROUND) } else { Word(self.0 & !BACKGROUND) }
    }

    #[inline(always)]
    fn next_generation(self) -> Self {
        let wrap = if planted("a generation runs over") { u64::MAX } else { GENERATIONS };
        let generation = (u64::from(self.generation()) + 1) & wrap;
        Word(self.0 & !(GENERATIONS << GENERATION) | generation << GENERATION)
    }

    /// Has deltas that no lease has taken.
    #[inline(always)]
    pub(super) fn is_pending(self) -> bool {
        match self.state() {
            State::Retired | State::Idle => false,
            State::Leased => self.newest().is_some(),
            State::Linking | State::Queued | State::Delayed => true,
        }
    }

    /// A key without an entry becomes pending.
    #[must_use]
    #[inline(always)]
    pub(super) fn first(self, fact: Index, kind: Newest, background: bool) -> Word {
        debug_assert_eq!(self.state(), State::Retired);
        self.next_generation()
            .with_state(State::Linking)
            .with_newest(Some(fact))
            .with_kind(kind)
            .with_background(background)
    }

    /// Undoes `first` for an entry that nobody has seen. The generation goes on.
    #[must_use]
    pub(super) fn unused(self) -> Word {
        self.with_state(State::Retired).with_newest(None)
    }

    /// A fact is appended.
    #[must_use]
    #[inline(always)]
    pub(super) fn append(self, fact: Index, kind: Newest, background: bool) -> (Word, Then) {
        let stays = self.is_background() && background;
        let next = self.with_newest(Some(fact)).with_kind(kind);
        match self.state() {
            State::Retired => unreachable!("nothing is appended to a retired entry"),
            State::Idle => {
                let next =
                    if planted("an idle key keeps its generation") { next } else { next.next_generation() };
                (next.with_state(State::Linking).with_background(background), Then::Link)
            }
            // Helps whoever owes the handle: this call must not return before it is there.
            State::Linking => (next.with_background(stays), Then::Link),
            // A real change moves it to the first line; its old handle stays where it is, and good.
            State::Queued if planted("a key in the background stays there") => (next, Then::Nothing),
            State::Queued if self.is_background() && !stays => {
                (next.with_state(State::Linking).with_background(false), Then::Link)
            }
            State::Queued => (next, Then::Nothing),
            State::Leased if self.newest().is_none() => (next.with_background(background), Then::Nothing),
            State::Leased => (next.with_background(stays), Then::Nothing),
            State::Delayed if planted("a new fact leaves the delay alone") => (next, Then::Nothing),
            State::Delayed => {
                let next = next.next_generation().with_state(State::Linking).with_background(stays);
                (next, Then::Undelay)
            }
        }
    }

    /// The handle of this word is in its line.
    #[must_use]
    pub(super) fn linked(self) -> Word {
        debug_assert_eq!(self.state(), State::Linking);
        self.with_state(State::Queued)
    }

    /// A consumer that holds a handle of `generation` takes all facts. None: the handle is stale.
    #[must_use]
    #[inline(always)]
    pub(super) fn lease(self, generation: u32) -> Option<Word> {
        let valid = match self.state() {
            State::Linking => !planted("a handle is no good before it is marked"),
            State::Queued => true,
            State::Leased => planted("a handle is good whatever the state"),
            State::Retired | State::Idle | State::Delayed => false,
        };
        let current = self.generation() == generation || planted("a handle is good for ever");
        let kind = if planted("a leased key is not known") { Newest::Deleted } else { self.kind() };
        (valid && current).then(|| self.with_state(State::Leased).with_newest(None).with_kind(kind))
    }

    /// The same whatever the state is, for who discards everything. None: nothing is pending, or it is leased.
    #[must_use]
    pub(super) fn seize(self) -> Option<Word> {
        let free = matches!(self.state(), State::Linking | State::Queued | State::Delayed);
        free.then(|| self.with_state(State::Leased).with_newest(None))
    }

    /// The lease holder knows what the facts came to.
    #[must_use]
    pub(super) fn resolved(self, kind: Newest) -> Word {
        debug_assert_eq!(self.state(), State::Leased);
        if self.newest().is_some() { self } else { self.with_kind(kind) }
    }

    /// The lease ends well, and this is what is known of the key: it goes in line with what arrived meanwhile, or rests, or
    /// is of no use any more.
    #[must_use]
    #[inline(always)]
    pub(super) fn finish(self, known: Newest, stays: bool) -> Word {
        debug_assert_eq!(self.state(), State::Leased);
        match self.newest() {
            None => self.with_state(if stays { State::Idle } else { State::Retired }).with_kind(known),
            Some(_) if planted("a dirty key is retired") => self.with_state(State::Retired),
            Some(_) if planted("a dirty key keeps its generation") => self.with_state(State::Linking),
            Some(_) => self.next_generation().with_state(State::Linking),
        }
    }

    /// Nobody asks any more for a key of which nothing is known.
    #[must_use]
    pub(super) fn retired(self) -> Word {
        debug_assert_eq!(self.state(), State::Idle);
        self.with_state(State::Retired)
    }

    /// The lease's deltas, of which the newest is of this kind, come back: at once, or later if nothing arrived.
    #[must_use]
    pub(super) fn give_back(self, kind: Newest, background: bool, delayed: bool) -> Word {
        debug_assert_eq!(self.state(), State::Leased);
        let next = self.next_generation();
        match self.newest() {
            Some(_) => next.with_state(State::Linking).with_background(self.is_background() && background),
            None => next
                .with_state(if delayed { State::Delayed } else { State::Linking })
                .with_kind(kind)
                .with_background(background),
        }
    }

    /// The facts that arrived during the lease are taken too, by who discards everything.
    #[must_use]
    pub(super) fn drained(self) -> Word {
        self.with_newest(None)
    }

    /// The delay of `generation` is over. None: it was already.
    #[must_use]
    pub(super) fn due(self, generation: u32) -> Option<Word> {
        let current = self.generation() == generation || planted("a delay is due for ever");
        let waits = self.state() == State::Delayed && current;
        waits.then(|| self.next_generation().with_state(State::Linking))
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.state())?;
        if self.is_background() {
            f.write_str(" in the background")?;
        }
        write!(f, ", {:?}, generation {}, newest fact {:?}", self.kind(), self.generation(), self.newest())
    }
}
