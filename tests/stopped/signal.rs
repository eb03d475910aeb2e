//! Stops a thread at any instruction, by a signal whose handler does not return until the thread is told to go on.
//!
//! The processor's trap flag makes each instruction end in a SIGTRAP, and at the n-th the handler stays. So the next stop is
//! anywhere, however busy the machine is: a signal from outside comes where threads are mostly, which is in system calls.
//!
//! The allocator is left alone: a thread that is stopped there may have a lock of the system's, for which the others would
//! wait, and the queue's promise is one outside of it. Nor is a thread stopped outside of the calls that are tried.

use std::alloc::{GlobalAlloc, Layout, System};
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, compiler_fence};

/// The system's, which is marked while a thread is in there.
pub(crate) struct Marked;

thread_local! {
    // Without initializer and destructor: the handler may read it at any time. Atomic, and between fences, as the handler runs
    // in the middle of what writes it.
    static ALLOCATING: AtomicU32 = const { AtomicU32::new(0) };
    /// It is in a call that is tried.
    static INSIDE: AtomicBool = const { AtomicBool::new(false) };
}

fn marked<R>(f: impl FnOnce() -> R) -> R {
    let add = |by: u32| ALLOCATING.with(|depth| depth.store(depth.load(Relaxed).wrapping_add(by), Relaxed));
    add(1);
    compiler_fence(SeqCst);
    let result = f();
    compiler_fence(SeqCst);
    add(u32::MAX);
    trap_if_asked();
    result
}

fn trap_if_asked() {
    if INSIDE.with(|inside| inside.load(Relaxed)) && STATE.load(SeqCst) == ASKED {
        trap_each(true);
    }
}

// SAFETY: all is the system's.
unsafe impl GlobalAlloc for Marked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        marked(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        marked(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        marked(|| unsafe { System.dealloc(place, layout) });
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        marked(|| unsafe { System.realloc(place, layout, size) })
    }
}

/// What is between the one thread that is stopped and the one that stops it.
static STATE: AtomicU32 = AtomicU32::new(RUNNING);
const RUNNING: u32 = 0;
/// It is to stop when it has made `LEFT` more instructions of calls that are tried.
const ASKED: u32 = 1;
const STOPPED: u32 = 2;

static LEFT: AtomicUsize = AtomicUsize::new(0);
/// The instruction at which it stands.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// Runs a call in which the thread may be stopped. One thread at a time does.
pub(crate) fn inside<R>(call: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.with(|inside| inside.store(false, Relaxed));
            trap_each(false);
        }
    }
    let _leave = Leave;
    INSIDE.with(|inside| inside.store(true, Relaxed));
    trap_if_asked();
    call()
}

/// Whether each instruction of this thread ends in a SIGTRAP.
#[inline(always)]
fn trap_each(on: bool) {
    if on {
        // SAFETY: nothing but the trap flag changes, whose signal has a handler.
        unsafe { asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq") };
    } else {
        // SAFETY: as above.
        unsafe { asm!("pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq") };
    }
}

/// Nothing but loads, stores and a system call that is safe in handlers.
extern "C" fn after_an_instruction(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let allocates = ALLOCATING.with(|depth| depth.load(Relaxed)) != 0;
    if !allocates && LEFT.fetch_sub(1, SeqCst) > 1 {
        return;
    }
    // SAFETY: what the system gives a handler that was installed with `SA_SIGINFO`.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[libc::REG_EFL as usize] &= !0x100;
    if allocates {
        // `marked` begins again.
        return;
    }
    PLACE.store(registers[libc::REG_RIP as usize] as usize, SeqCst);
    // SAFETY: the calling thread's own.
    let errno = unsafe { *libc::__errno_location() };
    STATE.store(STOPPED, SeqCst);
    while STATE.load(SeqCst) == STOPPED {
        futex(libc::FUTEX_WAIT, STOPPED);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn futex(operation: c_int, value: u32) {
    let (operation, no_limit) = (operation | libc::FUTEX_PRIVATE_FLAG, std::ptr::null::<libc::timespec>());
    // SAFETY: the word is there for good, and a null limit is none.
    unsafe { libc::syscall(libc::SYS_futex, STATE.as_ptr(), operation, value, no_limit) };
}

pub(crate) fn install() {
    // SAFETY: all zero is an empty set of signals and no flags; the handler keeps to what a handler may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = after_an_instruction as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0, "no handler");
    }
}

/// The thread is to stop after so many more instructions of calls that are tried.
pub(crate) fn ask(instructions: usize) {
    LEFT.store(instructions, SeqCst);
    STATE.store(ASKED, SeqCst);
}

/// The instruction at which it stands, if it does yet.
pub(crate) fn place() -> Option<usize> {
    (STATE.load(SeqCst) == STOPPED).then(|| PLACE.load(SeqCst))
}

/// It goes on. Does nothing if it has already.
pub(crate) fn go_on() {
    if STATE.swap(RUNNING, SeqCst) == STOPPED {
        futex(libc::FUTEX_WAKE, 1);
    }
}

/// The instruction as `addr2line` wants it.
pub(crate) fn offset(place: usize) -> usize {
    // SAFETY: all zero is what it is before it is written.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: it may be asked about any address.
    let is_known = unsafe { libc::dladdr(std::ptr::without_provenance(place), &mut found) } != 0;
    if is_known { place.wrapping_sub(found.dli_fbase.addr()) } else { place }
}
