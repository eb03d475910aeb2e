//! What is known of a key: its newest version, for the lease holder to change and for everybody to read, and older ones that
//! snapshots still show.
//!
//! ```text
//!  entry           cell                 cell                 cell
//!  version ──────▶ newest, epoch 9 ───▶ older, epoch 7 ───▶ oldest, epoch 3
//!                  └ snapshots from 9 on   └ 7 and 8           └ 3 to 6
//! ```
//!
//! A version is the cell of its object, in whose head it has its stamp and its link where the fact had other things before. One
//! of nothing (the key was deleted) has a cell without a value.
//!
//! # Invariants
//!
//! - **V1, holder.** Only the key's lease holder installs a version, so there is one installer at a time. Whoever has retired
//!   an entry, or drops the queue, is as good.
//! - **V2, owner.** The entry owns a reference to its newest version, each version in the chain one to the next older.
//!   Whoever takes a version out of the chain gets that reference: one, since it takes a store that nobody else may do, or an
//!   exchange that one wins.
//! - **V3, hold and check.** A reader takes a reference of whatever stands in a cell, and then looks whether the link by which it
//!   came still leads there. If it does, what it holds is the version that was meant: while it holds the cell that is not
//!   recycled, so it was not when it was held either, unless the very cell came back as a version of the same key; which is
//!   just as good.
//! - **V4, stamp.** A version is installed without one. The installer stamps it with the current epoch before it does anything
//!   else; so does everybody who meets it, before anything is made of it. Only the newest version can be without.
//!   Each carries a flag that the debt of a fact, which stands in the same place, does not have; and from the beginning one that
//!   says whether the version is of nothing.
//! - **V5, decided once.** A link to the version before is UNDECIDED until the installer, who has stamped the new one, knows
//!   whether a snapshot shows the old one. Until then nobody else changes that link.
//!   What stays becomes a matter of `kept.rs`.
//! - **V6, taken out.** A version that no snapshot shows, nor ever will, is taken out of the chain: first its own link is
//!   MARKED, from when on it never changes, then the link that leads to it is exchanged for its own. So what a marked link leads
//!   to is in the chain as long as what leads to the marked version is unmarked and unchanged.
//! - **V7, shown.** Who watches an epoch and comes by a link to a cell whose stamp is not after it, while the version that owns the
//!   link, if one does, is after it, has found what that epoch shows; it stays, with its cell, as long as the epoch is watched, and
//!   needs not be held. For if the version that the link meant were another one than the epoch shows, it would be after it; and
//!   whatever its cell is once it has gone is not stamped, or later still, since whoever stamps holds the cell. One of nothing may go
//!   all the same if it is the last: its stamp says that there is nothing, and its cell is left alone.

use crate::delta::{FactHead, Object};
use crate::object::{Lent, Spot};
use crate::slab::{INDEX_MASK, Index};
use crate::sync::atomic::{AtomicU32, Ordering, fence};
use crate::sync::hint::spin_loop;
use crate::sync::{fence_after_rmw, pause_point, planted, weaken};

use super::Objects;
use super::chain::{self, InView};
use super::epochs::{Epochs, Watched};

/// The index of the newest version, and whether that is of nothing.
#[derive(Default)]
pub(super) struct Version(AtomicU32);

/// The newest version is of nothing. A bit that no index has, as the two of links.
const ABSENT: u32 = 1 << 30;
/// Of a link: V5.
const UNDECIDED: u32 = 1 << 30;
/// Of a link: V6.
const MARKED: u32 = 1 << 31;

/// What every stamp has beside its epoch (V4).
const STAMP: u64 = 1 << 63;
/// What that of a version of nothing has, too.
const NOTHING: u64 = 1 << 62;
const EPOCH: u64 = NOTHING - 1;

#[inline(always)]
fn index(link: u32) -> Option<Index> {
    Index::new(link & INDEX_MASK)
}

#[inline(always)]
fn older(head: &FactHead) -> &AtomicU32 {
    &head.carrier
}

/// Of no epoch yet.
#[inline(always)]
fn is_missing(stamp: u64) -> bool {
    stamp & !NOTHING == STAMP
}

/// If it is a version that was there in this epoch: whether it is one of an object.
#[inline(always)]
fn stamped_by(head: &FactHead, epoch: u64) -> Option<bool> {
    // Relaxed: V7 needs but the order of values in this one place; what the version is was published by the one that the caller
    // came from, and nothing is asked of epochs after this.
    let stamp = head.debt.load(Ordering::Relaxed);
    let is_stamp = stamp & STAMP != 0 || planted("a debt passes for a stamp");
    let was_there = is_stamp && !is_missing(stamp) && stamp & EPOCH <= epoch;
    was_there.then_some(stamp & NOTHING == 0 || planted("what is of nothing is looked into"))
}

/// V4. The epoch.
#[inline(always)]
fn stamp(head: &FactHead, epochs: &Epochs, after_rmw: bool) -> u64 {
    // Acquire: pairs with the exchange below (Release); who reads a stamp has seen what its writer saw of epochs.
    let stamp = head.debt.load(weaken("a stamp is read relaxed", Ordering::Acquire));
    if !is_missing(stamp) {
        return stamp & EPOCH;
    }
    // Pairs with the fence in `Epochs::begin` (P2).
    match after_rmw {
        _ if planted("no fence before a stamp") => {}
        true => fence_after_rmw(),
        false => fence(Ordering::SeqCst),
    }
    let now = epochs.now();
    pause_point("version: about to be stamped");
    let lost = weaken("a stamp that came first is read relaxed", Ordering::Acquire);
    let publish = weaken("a stamp is written relaxed", Ordering::Release);
    // Release, Acquire: see above. It fails if somebody else has stamped it, whose stamp counts.
    match head.debt.compare_exchange(stamp, stamp | now, publish, lost) {
        Ok(_) => now,
        Err(stamp) => stamp & EPOCH,
    }
}

/// What an installation came to.
pub(super) struct Installed<V> {
    /// The object before, if there was one.
    pub(super) before: Option<Object<V>>,
    /// The version before, if it stays.
    pub(super) kept: Option<Keep<V>>,
}

/// A version that stays, as a snapshot shows it.
pub(super) struct Keep<V> {
    pub(super) version: Object<V>,
    pub(super) watched: Watched,
}

impl Version {
    #[inline(always)]
    fn load(&self) -> u32 {
        // Acquire: pairs with the swap in `install` (Release); publishes the version.
        self.0.load(weaken("a version is read relaxed", Ordering::Acquire))
    }

    /// The cell of the object, if one is known.
    #[inline(always)]
    pub(super) fn index(&self) -> Option<Index> {
        let newest = self.load();
        index(newest).filter(|_| newest & ABSENT == 0)
    }

    #[inline(always)]
    pub(super) fn exists(&self) -> bool {
        self.index().is_some()
    }

    /// The object. V3. Lock-free: repeats when the object has changed in between, which is a lease that has gone on.
    pub(super) fn object<V>(&self, objects: &Objects<V>, epochs: &Epochs) -> Option<Object<V>> {
        let held = self.hold_newest(objects)?;
        stamp(held.head(), epochs, false);
        held.value().is_some().then_some(held)
    }

    fn hold_newest<V>(&self, objects: &Objects<V>) -> Option<Object<V>> {
        loop {
            let newest = self.load();
            let index = index(newest)?;
            pause_point("version: read");
            if let Some(held) = hold(objects, index, &self.0, newest) {
                return Some(held);
            }
        }
    }

    /// Where the newest version is, for [`in_view`](Self::in_view). None if there is none.
    #[inline(always)]
    pub(super) fn glance<'o, V>(&self, objects: &'o Objects<V>) -> Option<Spot<'o, V, FactHead>> {
        Some(objects.spot(index(self.load())?))
    }

    /// The object that an epoch shows which the caller watches, and has watched before it took the `glance`. It stays as long as the
    /// epoch is watched (V7). Wait-free if it is the newest one, else lock-free: repeats when the key's versions have changed in
    /// between.
    #[inline(always)]
    pub(super) fn in_view<'o, V>(
        &self,
        glance: &Spot<'o, V, FactHead>,
        objects: &'o Objects<V>,
        epochs: &Epochs,
        epoch: u64,
    ) -> Option<InView<'o, V>> {
        pause_point("version: newest read");
        match stamped_by(glance.head(), epoch) {
            Some(exists) => exists.then(|| InView::known_by_stamp(glance.clone())),
            None => self.look_for(objects, epochs, epoch),
        }
    }

    /// The same of any version. V3, V6.
    fn look_for<'o, V>(&self, objects: &'o Objects<V>, epochs: &Epochs, epoch: u64) -> Option<InView<'o, V>> {
        'newest: loop {
            // What leads to the version that is looked at: a link that is not marked, in a version that is held, or this.
            let mut newer = None::<Passing<'_, V>>;
            let mut link = self.load();
            let mut next = index(link);
            loop {
                let (at, place) = (next?, newer.as_ref().map_or(&self.0, |newer| older(newer.head())));
                pause_point("version: link read");
                let spot = objects.spot(at);
                if let Some(exists) = stamped_by(spot.head(), epoch) {
                    return exists.then(|| InView::known_by_stamp(spot));
                }
                let Some(held) = hold(objects, at, place, link) else { continue 'newest };
                let held = Passing { objects, held: Some(held) };
                if stamp(held.head(), epochs, false) <= epoch {
                    return held.exists().then(|| InView::known_by_stamp(spot));
                }
                // Acquire: pairs with the exchanges of links (Release); publishes the older version.
                let its = older(held.head()).load(Ordering::Acquire);
                next = index(its);
                if its & MARKED == 0 || planted("a marked link is trusted") {
                    (newer, link) = (Some(held), its);
                }
            }
        }
    }

    /// V1, V2: the caller is the holder, and hands over a reference to the new object, if there is one: its cell, and the head of that.
    /// `garbage` gets what no snapshot shows any more, but for the object before.
    #[inline(always)]
    pub(super) fn install<V>(
        &self,
        objects: &Objects<V>,
        epochs: &Epochs,
        object: Option<(Index, &FactHead)>,
        garbage: &mut impl Extend<Object<V>>,
    ) -> Installed<V> {
        let (new, head) = match object {
            Some((cell, head)) => (cell.get(), head),
            None => {
                let cell = objects.draft(None).publish();
                (cell.get() | ABSENT, objects.head(cell))
            }
        };
        // Relaxed: only the holder changes it (V1).
        let newest = self.0.load(Ordering::Relaxed);
        let before = index(newest);
        // Relaxed, both: published by the swap.
        head.debt.store(STAMP | if object.is_some() { 0 } else { NOTHING }, Ordering::Relaxed);
        let undecided = if planted("a link is decided at once") { 0 } else { UNDECIDED };
        older(head).store(before.map_or(0, |before| before.get() | undecided), Ordering::Relaxed);
        // Release: pairs with `load` (Acquire), publishes the version. A swap, for the fence behind it; what was there is the
        // holder's (V1).
        self.0.swap(new, weaken("a version is installed relaxed", Ordering::Release));
        pause_point("version: installed");
        let stamp = stamp(head, epochs, true);
        epochs.note_stamp(stamp);
        match before {
            None => Installed { before: None, kept: None },
            Some(before) => {
                let existed = newest & ABSENT == 0;
                self.decide(objects, epochs, (head, stamp), (before, existed), garbage)
            }
        }
    }

    /// V5.
    #[inline(always)]
    fn decide<V>(
        &self,
        objects: &Objects<V>,
        epochs: &Epochs,
        (new, stamp): (&FactHead, u64),
        (before, existed): (Index, bool),
        garbage: &mut impl Extend<Object<V>>,
    ) -> Installed<V> {
        let lent = chain::lend_before(objects, before);
        let old = lent.head();
        // Relaxed: by V5 nobody takes the old one away, and its stamp was there before the holder's lease or is the holder's.
        let (since, is_last) =
            (old.debt.load(Ordering::Relaxed), older(old).load(Ordering::Relaxed) & INDEX_MASK == 0);
        debug_assert!(since & STAMP != 0 && !is_missing(since), "V4");
        let since = since & EPOCH;
        pause_point("version: about to be decided");
        let watched = epochs.watched(since, stamp).filter(|_| existed || !is_last);
        if is_last && watched.is_none() {
            // Relaxed: who finds the old one's cell recycled finds this link changed, as its reference is let go of after this, by a
            // release of its own. What ends a chain publishes nothing.
            older(new).store(0, Ordering::Relaxed);
            let old = chain::take_lent_version(lent);
            let old = (!planted("the version before is forgotten")).then_some(old);
            return Installed { before: old.filter(|_| existed), kept: None };
        }
        self.keep_before(objects, epochs, (new, &lent), (before, existed, is_last, watched), garbage)
    }

    /// The same where somebody may see the version before, or one before that.
    #[cold]
    #[inline(never)]
    fn keep_before<V>(
        &self,
        objects: &Objects<V>,
        epochs: &Epochs,
        (new, lent): (&FactHead, &Lent<V, FactHead>),
        (before, existed, is_last, mut watched): (Index, bool, bool, Option<Watched>),
        garbage: &mut impl Extend<Object<V>>,
    ) -> Installed<V> {
        let old = Object::clone(lent);
        // Release: pairs with `hold` and `take_out` (Acquire). From here on others may take it out, and have the reference above behind
        // them. No model sees that: the count is a read-modify-write, which loom never puts off.
        older(new).store(before.get(), Ordering::Release);
        pause_point("version: decided");
        if !is_last {
            watched = None;
            self.trim(objects, epochs, garbage, |at, by| watched = watched.or((at == before).then_some(by)));
        }
        let kept = watched.map(|watched| Keep { version: old.clone(), watched });
        Installed { before: Some(old).filter(|_| existed), kept }
    }

    /// V6: takes out what no snapshot shows, and says of what stays who shows it. Lock-free: repeats when others have changed the
    /// chain.
    pub(super) fn trim<V>(
        &self,
        objects: &Objects<V>,
        epochs: &Epochs,
        garbage: &mut impl Extend<Object<V>>,
        mut stays: impl FnMut(Index, Watched),
    ) {
        'newest: loop {
            let Some(mut newer) = self.hold_newest(objects) else { return };
            // Whether that is not this call's to take out.
            let mut is_fixed = true;
            let mut until = stamp(newer.head(), epochs, false);
            loop {
                let place = older(newer.head());
                // Acquire: as in `look_for`.
                let link = place.load(Ordering::Acquire);
                let is_end = link & UNDECIDED != 0 && planted("a walk ends at an undecided link");
                let Some(at) = index(link).filter(|_| !is_end) else {
                    let says_nothing = !is_fixed && newer.value().is_none();
                    garbage.extend([newer]);
                    if says_nothing {
                        continue 'newest;
                    }
                    return;
                };
                pause_point("trim: link read");
                let held = if link & MARKED == 0 { hold(objects, at, place, link) } else { None };
                let Some(held) = held else {
                    garbage.extend([newer]);
                    continue 'newest;
                };
                let since = stamp(held.head(), epochs, false);
                // Relaxed: what ends the chain does so for good, and a mark is there for good.
                let its = older(held.head()).load(Ordering::Relaxed);
                let says_nothing = its & INDEX_MASK == 0 && held.value().is_none();
                // It goes even if it seems to be watched: `begin` may have a watch on an epoch that is over, for as long as its
                // thread is stopped there.
                let is_marked = its & MARKED != 0 && !planted("what is marked is looked for again");
                let watched = epochs.watched(since, until).filter(|_| !says_nothing && !is_marked);
                is_fixed = link & UNDECIDED != 0 || planted("nothing is taken out");
                if is_fixed || watched.is_some() {
                    // V5: the one before an undecided link is the installer's to look after.
                    watched.into_iter().filter(|_| !is_fixed).for_each(|watched| stays(at, watched));
                    garbage.extend([std::mem::replace(&mut newer, held)]);
                    until = since;
                    continue;
                }
                let taken = take_out(objects, place, link, at, &held);
                garbage.extend([held]);
                let Some(taken) = taken else {
                    garbage.extend([newer]);
                    continue 'newest;
                };
                garbage.extend([taken]);
            }
        }
    }

    /// Whether there is more than the newest version.
    pub(super) fn has_older<V>(&self, objects: &Objects<V>) -> bool {
        let Some(newest) = self.hold_newest(objects) else { return false };
        let newest = Passing { objects, held: Some(newest) };
        // Relaxed: of that moment; ordered by the fences of those who ask.
        older(newest.head()).load(Ordering::Relaxed) & INDEX_MASK != 0
    }

    /// Takes the versions out, newest first, when nobody installs any more and no snapshot shows the old ones.
    pub(super) fn dismantle<V>(&self, objects: &Objects<V>) -> impl Iterator<Item = Object<V>> {
        // Relaxed: only the holder's steps before it count, which the caller has seen.
        let mut next = index(self.0.swap(0, Ordering::Relaxed));
        std::iter::from_fn(move || {
            let version = chain::take_version(objects, next?);
            // Relaxed: the caller has seen the end of the chain, or has it to itself.
            next = index(older(version.head()).load(Ordering::Relaxed));
            Some(version)
        })
    }
}

/// V6: the version at an index, which `place` leads to. None if somebody else has taken it out, or is taking out the one before.
fn take_out<V>(
    objects: &Objects<V>,
    place: &AtomicU32,
    link: u32,
    at: Index,
    version: &Object<V>,
) -> Option<Object<V>> {
    let its = if planted("what is taken out is not marked") {
        older(version.head()).load(Ordering::Acquire)
    } else {
        // AcqRel: takes over, and passes on, what the link publishes: the marks that were set before it was changed.
        older(version.head()).fetch_or(MARKED, Ordering::AcqRel)
    };
    pause_point("trim: marked");
    let publish = weaken("a link is exchanged relaxed", Ordering::AcqRel);
    // AcqRel: passes on the mark (V6), also that of others before.
    let taken = place.compare_exchange(link, its & INDEX_MASK, publish, Ordering::Relaxed);
    taken.is_ok().then(|| chain::take_version(objects, at))
}

/// A version that a reader holds on its way. If it is the last to do so, a consumer drops the object.
struct Passing<'o, V> {
    objects: &'o Objects<V>,
    /// None only while it is dropped.
    held: Option<Object<V>>,
}

impl<V> Passing<'_, V> {
    fn head(&self) -> &FactHead {
        self.held.as_ref().expect("not dropped").head()
    }

    /// Whether it is one of an object.
    fn exists(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.value().is_some())
    }
}

impl<V> Drop for Passing<'_, V> {
    fn drop(&mut self) {
        // A model that has failed would fail again, and abort.
        if let Some(held) = self.held.take().filter(|_| !(cfg!(delta_fifo_loom) && std::thread::panicking()))
        {
            self.objects.release_later(held);
        }
    }
}

/// V3: what stands in a cell, if `place` still says that it is what is meant.
fn hold<V>(objects: &Objects<V>, at: Index, place: &AtomicU32, link: u32) -> Option<Object<V>> {
    if let Some(held) = objects.hold(at) {
        pause_point("version: object held");
        let again = weaken("a link is looked at again relaxed", Ordering::Acquire);
        // Acquire: pairs with the exchanges of links and `install` (Release): if the very cell has come back, what it is now is seen.
        // That the look is after the hold is the work of that one's ordering.
        if place.load(again) == link || planted("a version is looked at once") {
            return Some(held);
        }
        objects.release_later(held);
    }
    // Models let a thread read an old value for ever.
    spin_loop();
    None
}
