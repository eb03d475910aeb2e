use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread;

use super::chunk::Chunk;
use super::rows::{ROW, locate, places};
use super::{INDEX_MASK, Index, MAX, Slab, Slot};
use crate::sync::stopped::{Gate, stop_me_at, stumble};

const CHUNK: u32 = Chunk::<Plain>::SLOTS;

#[derive(Default)]
struct Plain {
    link: AtomicU32,
    taken: AtomicBool,
    note: AtomicU32,
}

impl Slot for Plain {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

fn index(number: u32) -> Index {
    Index::new(number).expect("not 0")
}

#[test]
fn every_index_has_its_own_place() {
    let mut last = (0, 0, 0);
    for number in 1..100_000 {
        let (row, place, slot) = locate::<Plain>(index(number));
        assert!(place < places(row) && slot < CHUNK as usize);
        assert!((row, place, slot) > last);
        last = (row, place, slot);
    }
    let (row, place, _) = locate::<Plain>(index(MAX as u32));
    assert!(row < 32 && place < places(row));
}

#[test]
fn a_chunk_of_big_slots_is_short() {
    let slots = [
        Chunk::<[u64; 1]>::SLOTS,
        Chunk::<[u64; 8]>::SLOTS,
        Chunk::<[u64; 512]>::SLOTS,
        Chunk::<[u64; 1 << 17]>::SLOTS,
    ];
    assert_eq!(slots, [1022, 127, 1, 1]);
}

#[test]
fn a_slot_leads_to_its_owner() {
    let (slab, owner) = (Slab::<Plain>::new(), 7);
    slab.set_owner(std::ptr::NonNull::from(&owner));
    for number in 1..3 * CHUNK {
        let index = slab.take();
        // SAFETY: the slab is there.
        let (whose, found) = unsafe { Slab::origin(slab.ptr(index)) };
        assert_eq!((found, index.get()), (index, number));
        assert!(std::ptr::eq(whose.cast(), &owner));
    }
}

#[test]
fn a_given_slot_is_taken_again() {
    let slab = Slab::<Plain>::new();
    assert_eq!(slab.allocated(), 0);
    let (a, b) = (slab.take(), slab.take());
    assert_ne!(a, b);
    slab.get(a).note.store(7, SeqCst);
    slab.give(a);
    assert_eq!(slab.take(), a);
    assert_eq!(slab.get(a).note.load(SeqCst), 7);
    assert_eq!(slab.allocated(), 2);
}

#[test]
fn slots_do_not_move() {
    let slab = Slab::<Plain>::new();
    let first = slab.take();
    let address = std::ptr::from_ref(slab.get(first));
    let many: HashSet<Index> = (0..CHUNK * ROW * 3).map(|_| slab.take()).collect();
    assert_eq!(many.len() as u32, CHUNK * ROW * 3);
    assert!(std::ptr::eq(slab.get(first), address));
    let addresses: HashSet<*const Plain> =
        many.iter().map(|index| std::ptr::from_ref(slab.get(*index))).collect();
    assert_eq!(addresses.len(), many.len());
    let mut met = 0;
    slab.for_each(|index, slot| {
        assert!(std::ptr::eq(slab.get(index), slot));
        met += 1;
    });
    assert_eq!(met, slab.allocated());
}

#[test]
fn a_chain_is_given_at_once() {
    let slab = Slab::<Plain>::new();
    let chain = [slab.take(), slab.take(), slab.take()];
    for two in chain.windows(2) {
        slab.get(two[0]).link().store(two[1].get(), SeqCst);
    }
    slab.give_chain(chain[0], chain[2]);
    assert_eq!([slab.take(), slab.take(), slab.take()], chain);
    assert_eq!(slab.allocated(), 3);
}

#[test]
fn who_finds_the_stock_empty_gets_what_others_gave() {
    let slab = Arc::new(Slab::<Plain>::new());
    let taken: HashSet<Index> = (0..10).map(|_| slab.take()).collect();
    thread::spawn({
        let (slab, taken) = (Arc::clone(&slab), taken.clone());
        move || taken.into_iter().for_each(|index| slab.give(index))
    })
    .join()
    .expect("no panic");
    // Those are the stock now, but for one. What is given meanwhile comes when they are used up.
    let first = slab.take();
    slab.give(first);
    let again: Vec<Index> = (0..10).map(|_| slab.take()).collect();
    assert_eq!(again.iter().copied().collect::<HashSet<Index>>(), taken);
    assert_eq!(again.last(), Some(&first));
    assert_eq!(slab.allocated(), 10);
    slab.take();
    assert_eq!((slab.allocated(), slab.close()), (11, 0));
}

#[test]
fn who_is_stopped_while_it_restocks_holds_nobody_up_and_loses_nothing() {
    let slab = Arc::new(Slab::<Plain>::new());
    let taken: Vec<Index> = (0..4).map(|_| slab.take()).collect();
    taken.iter().for_each(|index| slab.give(*index));
    let gate = Gate::new();
    let stopped = thread::spawn({
        let (slab, gate) = (Arc::clone(&slab), gate.clone());
        move || {
            stop_me_at("take: restocking", &gate);
            slab.take()
        }
    });
    while !gate.is_reached() {
        thread::yield_now();
    }
    // The others make new ones, use those again, and restock.
    let new: Vec<Index> = (0..3).map(|_| slab.take()).collect();
    assert!(new.iter().all(|index| !taken.contains(index)));
    new.iter().for_each(|index| slab.give(*index));
    assert!(new.contains(&slab.take()));
    gate.open();
    stopped.thread().unpark();
    assert_eq!(stopped.join().expect("no panic"), taken[3]);
    assert_eq!((slab.allocated(), slab.close()), (7, 5), "three of the stopped one, and two");
}

#[test]
#[should_panic(expected = "never handed out")]
fn an_index_of_nothing_panics() {
    Slab::<Plain>::new().get(index(1 << 20));
}

#[test]
fn a_closed_list_takes_nothing_and_knows_what_it_has() {
    let slab = Slab::<Plain>::new();
    let (a, b, c) = (slab.take(), slab.take(), slab.take());
    slab.give(a);
    assert!(slab.offer(c, c));
    assert_eq!(slab.close(), 2);
    assert!(!slab.offer(b, b));
}

#[test]
fn slots_are_dropped_with_the_slab() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Counted(AtomicU32);
    impl Default for Counted {
        fn default() -> Self {
            ALIVE.fetch_add(1, SeqCst);
            Counted(AtomicU32::new(0))
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, SeqCst);
        }
    }
    impl Slot for Counted {
        fn link(&self) -> &AtomicU32 {
            &self.0
        }
    }
    let slab = Slab::<Counted>::new();
    let chunk = Chunk::<Counted>::SLOTS;
    for _ in 0..=chunk {
        slab.take();
    }
    assert_eq!(ALIVE.load(SeqCst), 2 * chunk as usize);
    drop(slab);
    assert_eq!(ALIVE.load(SeqCst), 0);
}

/// Threads take and give, by ones and by chains; all of it is free in the end.
fn hammer(rounds: usize, before: fn(u64)) -> Arc<Slab<Plain>> {
    let slab = Arc::new(Slab::<Plain>::new());
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let slab = Arc::clone(&slab);
            thread::spawn(move || {
                before(thread);
                for round in 0..rounds {
                    let taken: Vec<Index> = (0..1 + round % 7).map(|_| slab.take()).collect();
                    for index in &taken {
                        assert!(!slab.get(*index).taken.swap(true, SeqCst), "taken twice");
                    }
                    for index in &taken {
                        assert!(slab.get(*index).taken.swap(false, SeqCst));
                    }
                    if round % 2 == 0 {
                        taken.iter().for_each(|index| slab.give(*index));
                    } else {
                        for two in taken.windows(2) {
                            slab.get(two[0]).link().store(two[1].get(), SeqCst);
                        }
                        slab.give_chain(taken[0], *taken.last().expect("at least one"));
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    slab
}

#[test]
fn nobody_has_a_slot_that_another_has() {
    let slab = hammer(2_000, |_| ());
    // 28 are out at most; some more are made while somebody restocks.
    assert!(slab.allocated() <= 500, "{} for 32,000 takes", slab.allocated());
    assert_eq!(slab.close(), slab.allocated(), "none is lost");
}

#[test]
fn so_it_is_where_threads_give_their_turn_away_half_way() {
    let slab = hammer(500, |thread| stumble(2 * thread + 1));
    assert_eq!(slab.close(), slab.allocated(), "none is lost");
}

/// One takes, another gives: everything goes through the free list.
#[test]
fn what_one_takes_another_gives_and_none_is_lost() {
    let slab = Arc::new(Slab::<Plain>::new());
    let threads: Vec<_> = (0..2u64)
        .flat_map(|pair| {
            let (sender, receiver) = std::sync::mpsc::sync_channel::<Index>(16);
            let (taking, giving) = (Arc::clone(&slab), Arc::clone(&slab));
            let taker = thread::spawn(move || {
                stumble(pair + 10);
                for _ in 0..2_000 {
                    let index = taking.take();
                    assert!(!taking.get(index).taken.swap(true, SeqCst), "taken twice");
                    sender.send(index).expect("the other is there");
                }
            });
            let giver = thread::spawn(move || {
                stumble(pair + 20);
                for index in receiver {
                    assert!(giving.get(index).taken.swap(false, SeqCst));
                    giving.give(index);
                }
            });
            [taker, giver]
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(slab.close(), slab.allocated(), "none is lost");
}

/// One multiplication in place of a division: at both ends of each chunk, and of all indices.
#[test]
fn an_index_leads_to_its_place() {
    fn check<T>() {
        let slots = Chunk::<T>::SLOTS;
        let ends = [1, 2, 3, 1_000, 65_535, (INDEX_MASK / slots) - 1, INDEX_MASK / slots];
        let near = ends.into_iter().flat_map(|chunk| [chunk * slots - 1, chunk * slots, chunk * slots + 1]);
        for number in
            near.chain([INDEX_MASK - 1, INDEX_MASK]).filter(|number| (1..=INDEX_MASK).contains(number))
        {
            let index = Index::new(number).expect("not 0");
            assert_eq!(Chunk::<T>::locate(index), (number / slots, (number % slots) as usize), "{number}");
        }
    }
    check::<[u8; 1]>();
    check::<[u8; 24]>();
    check::<[u8; 64]>();
    check::<[u8; 112]>();
    check::<[u8; 127]>();
    check::<[u8; 1_000]>();
    check::<[u8; 9_000]>();
}
