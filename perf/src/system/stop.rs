//! Stops a thread by a signal whose handler does not return until the thread is told to go on.
//!
//! It stops where the signal finds it, at whatever instruction of a call that is [tried](Target::inside). Not elsewhere: the
//! handler looks where the thread was, and unless that is in this program's own code it lets the thread go on, and whoever
//! asked asks again. So nobody is stopped in the system's allocator, whose locks are nobody's queue.
//!
//! One thread at a time, and x86-64 Linux alone; elsewhere nothing is ever stopped.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use native::*;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod native {
    use std::cell::Cell;
    use std::ffi::{c_int, c_void};
    use std::marker::PhantomData;
    use std::ops::Range;
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering::{Relaxed, SeqCst};
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, compiler_fence};
    use std::thread;
    use std::time::{Duration, Instant};

    use parking_lot::{Mutex, MutexGuard};

    const RUNNING: u32 = 0;
    /// It is to stop at the next signal that finds it in the right place.
    const ASKED: u32 = 1;
    const STOPPED: u32 = 2;
    static STATE: AtomicU32 = AtomicU32::new(RUNNING);

    /// Held by whoever has a thread stopped.
    static ALONE: Mutex<()> = Mutex::new(());
    /// The thread that may be stopped. The lock is held while it is signalled, and when it says that it ends.
    static TARGET: Mutex<Option<libc::pthread_t>> = Mutex::new(None);
    /// Where the program's own code lies.
    static CODE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

    thread_local! {
        // Without initializer and destructor: the handler may read it at any time.
        static INSIDE: AtomicBool = const { AtomicBool::new(false) };
    }

    /// The calling thread can be stopped as long as this lives.
    pub struct Target {
        /// Of this thread and no other.
        stays_here: PhantomData<*mut ()>,
        calls: Cell<u64>,
    }

    impl Target {
        #[expect(clippy::new_without_default, reason = "it does something to the thread")]
        pub fn new() -> Self {
            // SAFETY: it has no conditions.
            *TARGET.lock() = Some(unsafe { libc::pthread_self() });
            Self { stays_here: PhantomData, calls: Cell::new(0) }
        }

        /// A call in which the thread may be stopped.
        pub fn inside<R>(&self, call: impl FnOnce() -> R) -> R {
            self.calls.set(self.calls.get() + 1);
            marked(true, call)
        }
    }

    /// A part of such a call in which it may not.
    pub fn outside<R>(part: impl FnOnce() -> R) -> R {
        marked(false, part)
    }

    fn marked<R>(inside: bool, f: impl FnOnce() -> R) -> R {
        // Relaxed, and between fences of the compiler: the handler runs in this very thread.
        let before = INSIDE.with(|it| it.swap(inside, Relaxed));
        compiler_fence(SeqCst);
        let result = f();
        compiler_fence(SeqCst);
        INSIDE.with(|it| it.store(before, Relaxed));
        result
    }

    impl Drop for Target {
        fn drop(&mut self) {
            *TARGET.lock() = None;
        }
    }

    /// Nobody else stops anybody meanwhile.
    pub struct Stopper(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

    impl Stopper {
        /// `None`: it cannot be done here.
        pub fn new() -> Option<Self> {
            static INSTALLED: OnceLock<bool> = OnceLock::new();
            let alone = ALONE.lock();
            INSTALLED.get_or_init(install).then_some(Self(alone))
        }

        /// Stops the thread, if it comes to a place where it may be stopped before the patience is over.
        pub fn stop(&mut self, patience: Duration) -> bool {
            let began = Instant::now();
            STATE.store(ASKED, SeqCst);
            while began.elapsed() < patience {
                match *TARGET.lock() {
                    // SAFETY: it has not ended: it says so first, for which it takes the lock.
                    Some(thread) => _ = unsafe { libc::pthread_kill(thread, libc::SIGUSR2) },
                    None => break,
                }
                thread::sleep(Duration::from_micros(60));
                if STATE.load(SeqCst) == STOPPED {
                    return true;
                }
            }
            STATE.compare_exchange(ASKED, RUNNING, SeqCst, SeqCst).is_err()
        }

        /// The thread goes on, if it is stopped.
        pub fn go_on(&mut self) {
            if STATE.swap(RUNNING, SeqCst) == STOPPED {
                futex(libc::FUTEX_WAKE, 1);
            }
        }
    }

    impl Drop for Stopper {
        fn drop(&mut self) {
            self.go_on();
        }
    }

    fn install() -> bool {
        let Some(Range { start, end }) = own_code() else { return false };
        CODE[0].store(start, SeqCst);
        CODE[1].store(end, SeqCst);
        // SAFETY: all zero is an empty set of signals and no flags; the handler keeps to what a handler may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) == 0
        }
    }

    /// As the system has mapped it.
    fn own_code() -> Option<Range<usize>> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let here = own_code as *const () as usize;
        let ranges = maps.lines().filter_map(|line| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            let address = |text| usize::from_str_radix(text, 16).ok();
            Some(address(start)?..address(end)?)
        });
        ranges.into_iter().find(|range| range.contains(&here))
    }

    /// Nothing but loads, stores and a system call that is safe in handlers.
    extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: what the system gives a handler that was installed with `SA_SIGINFO`.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let place = registers[libc::REG_RIP as usize] as usize;
        let is_own = (CODE[0].load(SeqCst)..CODE[1].load(SeqCst)).contains(&place);
        if !is_own || !INSIDE.with(|inside| inside.load(Relaxed)) {
            return;
        }
        // SAFETY: the calling thread's own.
        let errno = unsafe { *libc::__errno_location() };
        if STATE.compare_exchange(ASKED, STOPPED, SeqCst, SeqCst).is_ok() {
            while STATE.load(SeqCst) == STOPPED {
                futex(libc::FUTEX_WAIT, STOPPED);
            }
        }
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }

    fn futex(operation: c_int, value: u32) {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        let no_limit = std::ptr::null::<libc::timespec>();
        // SAFETY: the word is there for good, and a null limit is none.
        unsafe { libc::syscall(libc::SYS_futex, STATE.as_ptr(), operation, value, no_limit) };
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::sync::atomic::AtomicU64;

        #[test]
        fn a_stopped_thread_stands_still_until_it_may_go_on() {
            let mut stopper = Stopper::new().expect("it can be done here");
            let (count, end) = (AtomicU64::new(0), AtomicBool::new(false));
            thread::scope(|scope| {
                scope.spawn(|| {
                    let target = Target::new();
                    while !end.load(SeqCst) {
                        target.inside(|| (0..1_000).for_each(|_| _ = count.fetch_add(1, Relaxed)));
                    }
                });
                while count.load(Relaxed) == 0 {
                    thread::yield_now();
                }
                for _ in 0..20 {
                    assert!(stopper.stop(Duration::from_secs(20)));
                    let before = count.load(SeqCst);
                    thread::sleep(Duration::from_millis(2));
                    assert_eq!(count.load(SeqCst), before);
                    stopper.go_on();
                    while count.load(SeqCst) == before {
                        thread::yield_now();
                    }
                }
                end.store(true, SeqCst);
            });
            assert!(!stopper.stop(Duration::from_secs(20)), "nobody is there any more");
        }

        #[test]
        fn nobody_is_stopped_outside() {
            let mut stopper = Stopper::new().expect("it can be done here");
            let end = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let target = Target::new();
                    target.inside(|| {
                        outside(|| {
                            while !end.load(SeqCst) {
                                std::hint::spin_loop()
                            }
                        })
                    });
                });
                assert!(!stopper.stop(Duration::from_millis(20)));
                end.store(true, SeqCst);
            });
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub use elsewhere::*;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod elsewhere {
    use std::time::Duration;

    pub struct Target;

    impl Target {
        #[expect(clippy::new_without_default, reason = "as where it does something")]
        pub fn new() -> Self {
            Self
        }

        pub fn inside<R>(&self, call: impl FnOnce() -> R) -> R {
            call()
        }
    }

    pub fn outside<R>(part: impl FnOnce() -> R) -> R {
        part()
    }

    pub struct Stopper(());

    impl Stopper {
        pub fn new() -> Option<Self> {
            None
        }

        pub fn stop(&mut self, _: Duration) -> bool {
            false
        }

        pub fn go_on(&mut self) {}
    }
}
