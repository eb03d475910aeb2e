//! Every interleaving of the protocol's edges, and every reordering that the memory model allows. Each model is named
//! after what it shows, and must fail in each of its broken forms.
//!
//! `RUSTFLAGS="--cfg delta_fifo_loom" cargo test --release --lib wait -- --nocapture` prints what each explored. A bound
//! stands where all interleavings are too many: all models and their broken twins together take 40 s of one core.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use super::*;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Arc, explore};

/// Names the bug that a child process plants.
const MUTANT: &str = "DELTA_FIFO_MUTANT";

/// Runs the model to its end, with the bug that the environment names.
fn run(name: &str, preemptions: Option<usize>, model: fn()) {
    let start = Instant::now();
    let executions = explore("", preemptions, model);
    println!("{name}: {executions} executions, {:.2?}", start.elapsed());
}

/// The model must fail with this bug: in a process of its own, since a model that deadlocks cannot be unwound.
fn fails(module: &str, bug: &str) {
    let test = format!("{}::holds", module.split_once("::").expect("a path").1);
    let child = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", &test, "--nocapture"])
        .env(MUTANT, bug)
        .output()
        .expect("the test again");
    let text = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(text.contains("running 1 test"), "{test} was not run: {text}");
    assert!(!child.status.success(), "{test} does not notice: {bug}");
    // What loom says when all threads wait, when accesses to a cell overlap, and what the models' own asserts say.
    let signs =
        ["deadlock; threads", "Causality violation", "the middle one is woken", "the youngest is not"];
    let sign = text.lines().find(|line| signs.iter().any(|sign| line.contains(sign)));
    println!("{test} fails, {bug}: {}", sign.unwrap_or_else(|| panic!("for another reason: {text}")));
}

macro_rules! model {
    ($name:ident, $bound:expr, broken by [$($bug:literal),*], $model:expr) => {
        mod $name {
            use super::*;

            const BUGS: &[&str] = &[$($bug),*];

            #[test]
            fn holds() {
                run(stringify!($name), $bound, $model);
            }

            #[test]
            fn fails_when_broken() {
                BUGS.iter().for_each(|bug| fails(module_path!(), bug));
            }
        }
    };
}

mod stopped;

/// A line of indistinguishable items.
struct Line {
    items: AtomicUsize,
    waiters: Waiters,
}

impl Line {
    fn new() -> Arc<Self> {
        Arc::new(Line { items: AtomicUsize::new(0), waiters: Waiters::new() })
    }

    fn push(&self) {
        self.items.fetch_add(1, Ordering::Release);
    }

    fn add(&self) {
        self.push();
        self.waiters.notify(1);
    }

    fn take(&self) -> Option<()> {
        let mut items = self.items.load(Ordering::Acquire);
        while items > 0 {
            match self.items.compare_exchange(items, items - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(()),
                Err(now) => items = now,
            }
        }
        None
    }

    fn pop(&self) {
        self.waiters.wait_until(Deadline::Never, || self.take()).expect("no deadline");
    }

    fn pop_async(&self) -> WaitFor<'_, impl FnMut() -> Option<()>> {
        self.waiters.wait_for(|| self.take())
    }
}

fn spawn<T: 'static>(f: impl FnOnce() -> T + 'static) -> loom::thread::JoinHandle<T> {
    loom::thread::spawn(f)
}

fn popper(line: &Arc<Line>) -> loom::thread::JoinHandle<()> {
    let line = Arc::clone(line);
    spawn(move || line.pop())
}

fn adder(line: &Arc<Line>) -> loom::thread::JoinHandle<()> {
    let line = Arc::clone(line);
    spawn(move || line.add())
}

/// A waker of one poll: which task it wakes is told apart from others on the same thread.
struct Flag {
    set: AtomicBool,
    thread: Option<thread::Thread>,
}

impl Flag {
    fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Flag { set: AtomicBool::new(false), thread: Some(thread::current()) })
    }

    /// Unparks nobody: for a task whose thread waits for other things, which loom's unpark would disturb.
    fn mute() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Flag { set: AtomicBool::new(false), thread: None })
    }

    fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    fn wait(&self) {
        while !self.is_set() {
            thread::park();
        }
    }
}

impl Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.set.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F, flag: &std::sync::Arc<Flag>) -> Poll<F::Output> {
    let waker = Waker::from(std::sync::Arc::clone(flag));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// A tiny executor.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    loop {
        let flag = Flag::new();
        if let Poll::Ready(output) = poll(&mut future, &flag) {
            return output;
        }
        flag.wait();
    }
}

model!(i4_one_add_wakes_the_one_sleeper, None,
    broken by ["no notifier fence", "no waiter fence", "no second look"], || {
    let line = Line::new();
    let popper = popper(&line);
    line.add();
    popper.join().unwrap();
});

model!(i4_one_add_wakes_the_one_task, None,
    broken by ["no notifier fence", "no waiter fence", "no second look"], || {
    let line = Line::new();
    let task = spawn({
        let line = Arc::clone(&line);
        move || block_on(line.pop_async())
    });
    line.add();
    task.join().unwrap();
});

model!(i5_two_adders_two_sleepers, Some(1), broken by ["no notifier fence", "no waiter fence"], || {
    let line = Line::new();
    let poppers = [popper(&line), popper(&line)];
    let adder = adder(&line);
    line.add();
    adder.join().unwrap();
    for popper in poppers {
        popper.join().unwrap();
    }
});

model!(i5_notify_twice_wakes_two, Some(2), broken by ["content with another's claim"], || {
    let line = Line::new();
    let poppers = [popper(&line), popper(&line)];
    line.add();
    line.add();
    for popper in poppers {
        popper.join().unwrap();
    }
});

model!(i5_notify_of_two_wakes_two, Some(1), broken by ["no notifier fence"], || {
    let line = Line::new();
    let poppers = [popper(&line), popper(&line)];
    line.push();
    line.push();
    line.waiters.notify(2);
    for popper in poppers {
        popper.join().unwrap();
    }
});

// The task is registered and older than the thread, so it is claimed first.
model!(i7_a_cancelled_task_hands_on, Some(2), broken by ["a wake-up is kept"], || {
    let line = Line::new();
    let mut task = line.pop_async();
    assert!(poll(&mut task, &Flag::mute()).is_pending());
    let popper = popper(&line);
    let adder = adder(&line);
    drop(task);
    adder.join().unwrap();
    popper.join().unwrap();
});

// An item came while the task was about to register: it finds it by its second look. Another item's notifier may have
// claimed the task by then.
model!(i7_a_task_that_takes_before_it_knows_hands_on, Some(2),
    broken by ["a wake-up is kept", "a wake-up is spent unseen"], || {
    let line = Line::new();
    line.add();
    let popper = popper(&line);
    let adder = adder(&line);
    let mut looks = 0;
    let mut task = line.waiters.wait_for(|| {
        looks += 1;
        if looks == 1 { None } else { line.take() }
    });
    let _ = poll(&mut task, &Flag::mute());
    drop(task);
    adder.join().unwrap();
    popper.join().unwrap();
});

model!(i7_a_timed_out_thread_hands_on, Some(2), broken by ["no last look"], || {
    let line = Line::new();
    let impatient = spawn({
        let line = Arc::clone(&line);
        // The time is up at once; when that is, among the others' steps, is the explorer's choice.
        move || line.waiters.wait_with(|| false, || line.take())
    });
    let popper = popper(&line);
    line.add();
    if impatient.join().unwrap().is_some() {
        line.add();
    }
    popper.join().unwrap();
});

model!(i2_a_waker_replaced_while_a_notify_runs, Some(3),
    broken by ["the old waker is kept", "a waker is replaced in place"], || {
    let line = Line::new();
    let adder = adder(&line);
    let mut task = line.pop_async();
    let (old, new) = (Flag::new(), Flag::new());
    if poll(&mut task, &old).is_pending() && poll(&mut task, &new).is_pending() {
        new.wait(); // the old one is of no use any more
        block_on(task);
    }
    adder.join().unwrap();
});

/// Two tasks fill the first segment.
fn crowd(line: &Line) -> [WaitFor<'_, impl FnMut() -> Option<()>>; 2] {
    let mut tasks = [(); 2].map(|()| line.waiters.wait_for(|| None));
    for task in &mut tasks {
        assert!(poll(task, &Flag::mute()).is_pending());
    }
    tasks
}

model!(i8_notify_all_against_a_registration_in_a_new_segment, Some(2),
    broken by ["the first segment only", "no notifier fence", "no waiter fence"], || {
    let line = Line::new();
    let crowd = crowd(&line);
    let popper = popper(&line);
    line.push();
    line.waiters.notify_all();
    popper.join().unwrap();
    drop(crowd);
});

model!(i8_two_append_a_segment, Some(1), broken by ["the first segment only"], || {
    let line = Line::new();
    let crowd = crowd(&line);
    let poppers = [popper(&line), popper(&line)];
    line.push();
    line.push();
    line.waiters.notify_all();
    for popper in poppers {
        popper.join().unwrap();
    }
    drop(crowd);
});

model!(close_reaches_all, Some(2), broken by ["a close wakes one", "no notifier fence", "no waiter fence"], || {
    let waiters = Arc::new(Waiters::new());
    let closed = Arc::new(AtomicBool::new(false));
    let poppers = [(); 2].map(|()| {
        let (waiters, closed) = (Arc::clone(&waiters), Arc::clone(&closed));
        spawn(move || waiters.wait_until(Deadline::Never, || closed.load(Ordering::Acquire).then_some(())))
    });
    closed.store(true, Ordering::Release);
    if planted("a close wakes one") {
        waiters.notify(1);
    } else {
        waiters.notify_all();
    }
    for popper in poppers {
        popper.join().unwrap();
    }
});

// The popper comes back for another item while the first one's notifier still reads its handle.
model!(i2_a_late_notifier_and_the_cell_used_again, Some(2), broken by ["pins are ignored"], || {
    let line = Line::new();
    let popper = spawn({
        let line = Arc::clone(&line);
        move || {
            line.pop();
            line.pop();
        }
    });
    let adder = adder(&line);
    line.add();
    adder.join().unwrap();
    popper.join().unwrap();
});

// Three tasks; the oldest is cancelled and the youngest takes its cell while a notify is on its way to the oldest.
model!(fair_a_late_notifier_does_not_take_the_youngest, None, broken by ["no tickets"], || {
    let line = Line::new();
    let flags = [(); 3].map(|()| Flag::mute());
    let [mut oldest, mut middle, mut youngest] = [(); 3].map(|()| line.waiters.wait_for(|| None::<()>));
    assert!(poll(&mut oldest, &flags[0]).is_pending());
    assert!(poll(&mut middle, &flags[1]).is_pending());
    let notifier = spawn({
        let line = Arc::clone(&line);
        move || line.waiters.notify(1)
    });
    drop(oldest);
    assert!(poll(&mut youngest, &flags[2]).is_pending());
    notifier.join().unwrap();
    assert!(flags[1].is_set(), "the middle one is woken, by the notifier or by the oldest");
    assert!(!flags[2].is_set(), "the youngest is not");
    drop((middle, youngest));
});

model!(a_spinner_claimed_on_its_way_to_sleep, None, broken by ["asleep by a store"], || {
    let line = Line::new();
    let popper = spawn({
        let line = Arc::clone(&line);
        move || {
            let place = line.waiters.register(Handle::Thread(thread::current()), None, State::Spinning);
            if line.take().is_some() {
                return;
            }
            if place.cell.sleep(place.ticket) {
                while !place.cell.is_notified() {
                    thread::park();
                }
            }
            place.leave_and(|| line.take()).expect("woken for an item");
        }
    });
    line.add();
    popper.join().unwrap();
});
