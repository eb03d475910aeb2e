//! Ends the program when a round does not end, and says where everybody stands.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::DeltaQueue;

use crate::common::Family;

use super::round::Round;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// What a thread was doing last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Doing {
    Nothing,
    Change,
    Replace,
    Resync,
    Mark,
    Close,
    Pop,
    Lease,
    Look,
    Rest,
}

const ALL: [Doing; 10] = [
    Doing::Nothing,
    Doing::Change,
    Doing::Replace,
    Doing::Resync,
    Doing::Mark,
    Doing::Close,
    Doing::Pop,
    Doing::Lease,
    Doing::Look,
    Doing::Rest,
];

/// One cell for each thread; the last is of the one that checks.
pub(crate) struct Board(Vec<AtomicUsize>);

impl Board {
    pub(crate) fn new(threads: usize) -> Self {
        Board((0..threads).map(|_| AtomicUsize::new(0)).collect())
    }

    pub(crate) fn note(&self, thread: usize, doing: Doing) {
        self.0[thread].store(doing as usize, Ordering::Relaxed);
    }

    fn read(&self) -> Vec<Doing> {
        self.0.iter().map(|cell| ALL[cell.load(Ordering::Relaxed)]).collect()
    }
}

/// Past the capture of the test harness, which an abort would lose.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Watches one round at a time until `over`.
pub(crate) fn watch<F: Family>(rounds: &mpsc::Receiver<Arc<Round<F>>>, over: &AtomicBool) {
    let mut watched: Option<(Arc<Round<F>>, Instant)> = None;
    while !over.load(Ordering::SeqCst) {
        // The newest; its arrival is the progress.
        if let Some(round) = rounds.try_iter().last() {
            watched = Some((round, Instant::now()));
        }
        if let Some((round, since)) = &watched {
            if round.over.load(Ordering::SeqCst) {
                watched = None;
            } else if since.elapsed() > LIMIT {
                dump(round);
            }
        }
        thread::park_timeout(Duration::from_millis(20));
    }
}

fn dump<F: Family>(round: &Arc<Round<F>>) {
    say(&format!("stress: a round does not end\n{}", round.title()));
    say(&format!("threads: {:?}", round.board.read()));
    say(&format!("roles: {:?}", round.roles));
    // What hangs may hang these too.
    let (round, (sender, receiver)) = (Arc::clone(round), mpsc::channel());
    thread::spawn(move || {
        let _ = sender.send(format!("{:?}", round.queue));
        let lens = (round.queue.pending_len(), round.queue.leased_len());
        let _ = sender.send(format!("pending, leased: {lens:?}"));
    });
    for what in ["Debug", "pending_len and leased_len"] {
        match receiver.recv_timeout(Duration::from_secs(5)) {
            Ok(text) => say(&text),
            Err(_) => say(&format!("{what} does not end either")),
        }
    }
    std::process::abort();
}
