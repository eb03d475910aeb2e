//! Units move between accounts while readers add all of them up: each snapshot has exactly as many as there ever were.
//!
//! A pop changes one account, so a transfer is two changes in order: the debit, then the credit, which nobody makes before the
//! pop of the debit has returned; and the next debit of that link comes after the pop of the credit has. Both accounts say
//! how many transfers they have seen, and the debited one how many units the last one is of. So at any moment the receiver has seen as many
//! as the sender, or one less, and then its units are in transit: with these the sum is always the same.
//!
//! `DELTA_FIFO_TRANSFER_SECONDS` says how long, 1 by default.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{Builder, DeltaQueue, KnownView, Lease};

use super::moments::Moments;
use crate::common::{Family, LONG, Random, for_each_queue, with_shards};

for_each_queue!(the_sum_is_the_same_in_every_cut);

type Queue<F> = <F as Family>::Queue<u64, Account>;

/// So many accounts, each of which sends to all others.
const GROUP: usize = 4;
/// What each account begins with.
const FUND: u64 = 100;

const READERS: usize = 8;
const WRITERS: usize = 2;
const CONSUMERS: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    /// How often it has changed.
    changes: u64,
    balance: u64,
    /// By receiver: the last transfer to it.
    sent: [Sent; GROUP],
    /// By sender: the number of the last transfer from it.
    received: [u64; GROUP],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sent {
    number: u64,
    units: u64,
}

/// The accounts, by key; those of one group have neighbouring keys.
struct Bank<'q, Q> {
    queue: &'q Q,
    /// The last that was put in line: who makes a change holds the lock until that is in line too.
    ledger: Vec<Mutex<Account>>,
    /// By sender and receiver: how many transfers are over, as the credit was popped.
    settled: Vec<[AtomicU64; GROUP]>,
    /// By account: its change that was popped last.
    popped: Vec<AtomicU64>,
    /// Snapshots that were added up; and transfers.
    cuts: AtomicU64,
    transfers: AtomicU64,
    start: Barrier,
    /// Nobody begins a transfer after that.
    until: Instant,
}

/// What a reader has seen.
struct Reader<S> {
    random: Random,
    held: VecDeque<(S, Vec<Account>)>,
    /// What the last snapshot of its own showed, and the last shared one.
    last: [Vec<Account>; 2],
    cuts: u64,
}

impl<'q, Q: Moments<Key = u64, Value = Account>> Bank<'q, Q> {
    /// All accounts are known.
    fn new(queue: &'q Q, groups: usize, until: Instant) -> Self {
        let accounts = groups * GROUP;
        for key in 0..accounts as u64 {
            queue.add(key, Account { balance: FUND, ..Account::default() }).unwrap();
            queue.try_pop().unwrap().done();
        }
        Bank {
            queue,
            ledger: (0..accounts)
                .map(|_| Mutex::new(Account { balance: FUND, ..Account::default() }))
                .collect(),
            settled: (0..accounts).map(|_| Default::default()).collect(),
            popped: (0..accounts).map(|_| AtomicU64::new(0)).collect(),
            cuts: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
            start: Barrier::new(READERS + WRITERS + CONSUMERS),
            until,
        }
    }

    /// Makes a change of an account, if it is to be made, and puts it in line.
    fn change(&self, key: usize, change: impl FnOnce(&mut Account) -> bool) -> bool {
        let mut account = self.ledger[key].lock().unwrap();
        let is_made = change(&mut account);
        if is_made {
            account.changes += 1;
            self.queue.update(key as u64, *account).unwrap();
        }
        is_made
    }

    /// Begins a transfer to some account, if that link is free.
    fn begin(&self, from: usize, random: &mut Random) -> bool {
        let to = (from + 1 + random.below(GROUP as u64 - 1) as usize) % GROUP;
        self.change(from, |account| {
            // Acquire: the debit comes after the pop of the credit before.
            let is_free = account.sent[to].number == self.settled[from][to].load(Ordering::Acquire);
            if !is_free || account.balance == 0 {
                return false;
            }
            let units = 1 + random.below(account.balance.min(9));
            account.balance -= units;
            account.sent[to] = Sent { number: account.sent[to].number + 1, units };
            true
        })
    }

    fn write(&self, mut random: Random) {
        self.start.wait();
        while Instant::now() < self.until {
            let from = random.below(self.ledger.len() as u64) as usize;
            if !self.begin(from, &mut random) || random.one_in(4) {
                thread::yield_now();
            }
        }
    }

    /// Until the queue is closed.
    fn consume(&self, mut random: Random) {
        self.start.wait();
        loop {
            if random.one_in(4) {
                let Ok(leases) = self.queue.pop_batch(3) else { return };
                leases.iter().for_each(|lease| self.popped(lease, &mut random));
                leases.done();
            } else {
                let Ok(lease) = self.queue.pop() else { return };
                self.popped(&lease, &mut random);
                if random.one_in(16) { lease.requeue() } else { lease.done() }
            }
        }
    }

    /// The pop has returned. Consumers begin transfers too: so there are many, however seldom another thread has its turn.
    fn popped(&self, lease: &Lease<'_, Q>, random: &mut Random) {
        let (key, account) = (*lease.key() as usize, *lease.deltas().newest().object().unwrap());
        let (group, place) = (key - key % GROUP, key % GROUP);
        self.popped[key].fetch_max(account.changes, Ordering::Release);
        for (other, (sent, received)) in account.sent.into_iter().zip(account.received).enumerate() {
            // Release: see `write`.
            self.settled[group + other][place].fetch_max(received, Ordering::Release);
            // Relaxed: the ledger says whether it is so.
            if self.settled[key][other].load(Ordering::Relaxed) == sent.number {
                continue;
            }
            let is_made = self.change(group + other, |account| {
                let is_new = account.received[place] < sent.number;
                if is_new {
                    account.received[place] = sent.number;
                    account.balance += sent.units;
                }
                is_new
            });
            self.transfers.fetch_add(u64::from(is_made), Ordering::Relaxed);
        }
        if Instant::now() < self.until {
            self.begin(key, random);
        }
    }

    /// In one of the ways to ask.
    fn shown(&self, snapshot: &Q::Snapshot, way: u64) -> Vec<Account> {
        let mut shown = vec![None; self.ledger.len()];
        let mut see = |key: u64, account: Account| {
            assert_eq!(shown[key as usize].replace(account), None, "key {key} twice");
        };
        match way {
            0 => snapshot.iter().for_each(|known| see(*known.key(), *known.object())),
            1 => snapshot.for_each(|key, account| see(*key, *account)),
            _ => (0..self.ledger.len() as u64).for_each(|key| see(key, snapshot.get(&key).unwrap())),
        }
        shown.into_iter().map(|account| account.expect("all keys are known")).collect()
    }

    fn check_sum(&self, shown: &[Account]) {
        let mut units = 0;
        for group in shown.chunks(GROUP) {
            for (from, account) in group.iter().enumerate() {
                units += account.balance;
                for (to, sent) in account.sent.iter().enumerate() {
                    units += match sent.number.checked_sub(group[to].received[from]) {
                        Some(0) => 0,
                        Some(1) => sent.units,
                        _ => panic!("there is no such moment of {from} and {to}: {group:?}"),
                    };
                }
            }
        }
        assert_eq!(units, shown.len() as u64 * FUND, "{shown:?}");
    }

    fn read(&self, random: Random) {
        let last = [0, 1].map(|_| vec![Account::default(); self.ledger.len()]);
        let mut reader = Reader { random, held: VecDeque::new(), last, cuts: 0 };
        self.start.wait();
        while !self.queue.is_closed() {
            self.take(&mut reader);
            if reader.random.one_in(8) {
                thread::yield_now();
            }
            if reader.held.len() > 5 {
                let at = reader.random.below(reader.held.len() as u64) as usize;
                let (snapshot, showed) = reader.held.remove(at).expect("there are so many");
                self.check_again(&snapshot, &showed, &mut reader.random);
            }
        }
        for (snapshot, showed) in reader.held.drain(..) {
            self.check_again(&snapshot, &showed, &mut reader.random);
        }
        self.cuts.fetch_add(reader.cuts, Ordering::Relaxed);
    }

    fn take(&self, reader: &mut Reader<Q::Snapshot>) {
        let before: Vec<u64> = self.popped.iter().map(|change| change.load(Ordering::Acquire)).collect();
        let is_shared = reader.random.one_in(4);
        let snapshot = if is_shared { self.queue.shared() } else { self.queue.snapshot() };
        let shown = self.shown(&snapshot, reader.random.below(3));
        self.check_sum(&shown);
        reader.cuts += 1;
        let last = &mut reader.last[usize::from(is_shared)];
        for (key, account) in shown.iter().enumerate() {
            assert!(is_shared || account.changes >= before[key], "{account:?} of {key} after {before:?}");
            assert!(account.changes >= last[key].changes, "{account:?} of {key} after {:?}", last[key]);
        }
        last.clone_from(&shown);
        reader.held.push_back((snapshot.clone(), shown));
    }

    /// It shows what it showed, in all ways.
    fn check_again(&self, snapshot: &Q::Snapshot, showed: &[Account], random: &mut Random) {
        let way = random.below(3);
        assert_eq!(self.shown(snapshot, way), showed);
        if random.one_in(4) {
            (0..3).for_each(|way| assert_eq!(self.shown(snapshot, way), showed));
            assert_eq!(snapshot.len(), showed.len());
        }
    }

    /// All credits are popped; then the queue is closed, whatever happens.
    fn settle(&self) {
        thread::sleep(self.until.saturating_duration_since(Instant::now()));
        let is_settled = || {
            self.ledger.iter().zip(&self.settled).all(|(account, settled)| {
                let sent = account.lock().unwrap().sent;
                sent.iter().zip(settled).all(|(sent, over)| sent.number == over.load(Ordering::Acquire))
            })
        };
        let limit = Instant::now() + LONG;
        let mut is_over = false;
        while !is_over && Instant::now() < limit {
            thread::sleep(Duration::from_millis(1));
            // Writers may be on their way after their time.
            is_over = is_settled() && self.queue.pending_len() == 0;
        }
        self.queue.close();
        assert!(is_over, "transfers do not end");
    }
}

fn the_sum_is_the_same_in_every_cut<F: Family>()
where
    Queue<F>: Moments<Key = u64, Value = Account>,
{
    let time = Duration::from_secs(crate::number("DELTA_FIFO_TRANSFER_SECONDS", 1));
    let seed = crate::number("DELTA_FIFO_STRESS_SEED", 0);
    let shapes = [(1, 1), (3, 8), (16, 8)];
    for (groups, shards) in shapes {
        let builder = with_shards(Builder::new(), shards).publish_every(Duration::from_micros(50));
        let queue: Queue<F> = builder.build();
        let bank = Bank::new(&queue, groups, Instant::now() + time / shapes.len() as u32);
        thread::scope(|scope| {
            let random = |thread: usize| Random::new(seed * 100 + thread as u64);
            for thread in 0..READERS {
                let (bank, random) = (&bank, random(thread));
                scope.spawn(move || bank.read(random));
            }
            for thread in 0..WRITERS {
                let (bank, random) = (&bank, random(20 + thread));
                scope.spawn(move || bank.write(random));
            }
            for thread in 0..CONSUMERS {
                let (bank, random) = (&bank, random(40 + thread));
                scope.spawn(move || bank.consume(random));
            }
            bank.settle();
        });
        let known: Vec<Account> = bank.ledger.iter().map(|account| *account.lock().unwrap()).collect();
        let last = bank.shown(&queue.snapshot(), 0);
        bank.check_sum(&last);
        assert_eq!(last, known);
        let (cuts, transfers) = (bank.cuts.into_inner(), bank.transfers.into_inner());
        assert!(cuts > 0 && transfers > 0, "{cuts} cuts, {transfers} transfers");
        println!("{} accounts: {cuts} cuts in {transfers} transfers", groups * GROUP);
    }
}
