//! What only the system can tell about this process.

#![allow(unsafe_code, reason = "libc's functions are unsafe to call, and std has none for this")]

pub mod stop;

use std::time::Duration;

/// What of this process is in memory, in bytes. `None` where the system does not tell.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(1024 * kib)
}

/// Of all threads, from the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time, the system's part of it too.
    pub cpu: Duration,
    /// How often a thread went to sleep.
    pub sleeps: u64,
}

impl Usage {
    /// `None` where the system does not tell.
    #[cfg(unix)]
    pub fn now() -> Option<Self> {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: there is room for what it writes.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: it has succeeded, so it has written all.
        let usage = unsafe { usage.assume_init() };
        let time = |value: libc::timeval| {
            Duration::new(value.tv_sec.try_into().unwrap_or(0), 0)
                + Duration::from_micros(value.tv_usec.try_into().unwrap_or(0))
        };
        Some(Self {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            sleeps: usage.ru_nvcsw.try_into().unwrap_or(0),
        })
    }

    #[cfg(not(unix))]
    pub fn now() -> Option<Self> {
        None
    }

    pub fn since(self, before: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(before.cpu), sleeps: self.sleeps.saturating_sub(before.sleeps) }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_and_sleep_are_told_apart() {
        let before = Usage::now().expect("this system tells");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        let worked = Usage::now().unwrap();
        assert!(worked.since(before).cpu > Duration::ZERO);
        (0..20).for_each(|_| std::thread::sleep(Duration::from_micros(100)));
        assert!(Usage::now().unwrap().since(worked).sleeps >= 20);
    }
}
