//! How a key gets in line: push and wake; and mark, if that was somebody else's to do (E4).

use smallvec::SmallVec;

use crate::key_queue::Handle;
use crate::slab::Index;
use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};

use super::DeltaFifo;
use super::lines::At;
use super::word::{State, Then, Word};

/// A key that is Linking: whoever has this owes its line a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the key is not in line yet"]
pub(super) struct ToLink {
    pub(super) at: At,
    pub(super) background: bool,
    /// It is marked then. Somebody else owes it, too, who may be stopped: so nobody has to help again who comes after this. Or it has
    /// moved on from the background line, whose handle is good until that is said.
    pub(super) marks: bool,
}

impl ToLink {
    pub(super) fn new(shard: usize, index: Index, word: Word) -> Self {
        let at = At { shard, index, generation: word.generation() };
        ToLink { at, background: word.is_background(), marks: false }
    }
}

impl<K, V, S> DeltaFifo<K, V, S> {
    /// What an append asks for. `due`: when the delay was to end that it makes void.
    #[inline(always)]
    pub(super) fn follow(
        &self,
        shard: usize,
        index: Index,
        before: Word,
        after: Word,
        then: Then,
        due: Option<u64>,
    ) -> Option<ToLink> {
        match then {
            Then::Nothing => return None,
            Then::Link if before.state() == State::Linking => return self.help(shard, index, after),
            Then::Link if before.state() == State::Queued => {
                return Some(ToLink { marks: true, ..ToLink::new(shard, index, after) });
            }
            Then::Link => {}
            Then::Undelay if planted("a key that is pending stays delayed") => {}
            Then::Undelay => {
                let due = due.expect("a delayed entry says when it is due");
                self.delays.remove(due, ToLink::new(shard, index, before).at.handle());
            }
        }
        Some(ToLink::new(shard, index, after))
    }

    /// Whoever meets a key that is not in line yet helps (E4): no call returns on the strength of it before it is there.
    pub(super) fn help(&self, shard: usize, index: Index, word: Word) -> Option<ToLink> {
        let owed = word.state() == State::Linking && !planted("no help for a half-linked key");
        owed.then(|| ToLink { marks: true, ..ToLink::new(shard, index, word) })
    }

    /// Puts a key in line that is Linking (E4).
    #[inline(always)]
    pub(super) fn link(&self, link: ToLink, guard: &Guard) {
        self.promote(guard);
        self.put_in_line(link, guard);
    }

    #[inline(always)]
    pub(super) fn put_in_line(&self, link: ToLink, guard: &Guard) {
        pause_point("link: owed");
        self.lines.push(link.at, link.background);
        if link.marks && planted("marked before the wake") {
            self.mark_queued(link, guard);
        }
        pause_point("link: in line");
        if !planted("a change wakes nobody") {
            self.wake_consumers(1);
        }
        if link.marks {
            pause_point("link: woken");
            self.mark_queued(link, guard);
        }
    }

    /// The same for several keys, with one decision about whom to wake.
    pub(super) fn link_all(&self, links: &[ToLink], guard: &Guard) {
        if links.is_empty() {
            return;
        }
        self.promote(guard);
        let first = links.iter().filter(|link| !link.background);
        let mut handles: SmallVec<[Handle; 32]> = first.map(|link| link.at.handle()).collect();
        if planted("a batch goes in line from its end") {
            handles.reverse();
        }
        pause_point("link: owed");
        self.lines.push_all(&handles);
        for link in links.iter().filter(|link| link.background) {
            self.lines.push(link.at, true);
        }
        pause_point("link: in line");
        self.wake_consumers(if planted("a batch wakes one") { 1 } else { links.len() });
        pause_point("link: woken");
        for link in links.iter().filter(|link| link.marks) {
            self.mark_queued(*link, guard);
        }
    }

    /// Under a guard that is older than the handle, so that the entry is not recycled meanwhile (E6).
    pub(super) fn mark_queued(&self, link: ToLink, _guard: &Guard) {
        let entry = self.core.shards[link.at.shard].entries.get(link.at.index);
        // Repeats when a fact has come. Ends when the key is leased, or has moved on to the first line, which is for who
        // moved it to see to.
        loop {
            let word = entry.word();
            let same = word.generation() == link.at.generation || planted("no generation in the word");
            let moved = word.is_background() != link.background && !planted("who marks forgets the line");
            if !same || word.state() != State::Linking || moved {
                return;
            }
            pause_point("link: before the mark");
            if entry.advance(word, word.linked()) {
                return;
            }
        }
    }
}
