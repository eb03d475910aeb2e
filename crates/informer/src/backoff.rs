//! How long to wait before the source is asked again.

use std::time::Duration;

use tokio::time::Instant;

/// How long to wait before the source is asked again: client-go's way, by default with client-go's numbers.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// After the first failure. Doubled by each further one.
    pub initial: Duration,
    /// At most.
    pub max: Duration,
    /// So long without a failure, and the next one counts as the first.
    pub reset_after: Duration,
    /// Up to so many times longer, at random, so that many clients do not come back at once.
    pub jitter: f64,
}

impl Default for RetryPolicy {
    /// 800 ms to 30 s, up to twice as long; reset after two minutes.
    fn default() -> Self {
        RetryPolicy {
            initial: Duration::from_millis(800),
            max: Duration::from_secs(30),
            reset_after: Duration::from_secs(120),
            jitter: 1.0,
        }
    }
}

/// Where one source stands.
#[derive(Debug)]
pub(crate) struct Retry {
    policy: RetryPolicy,
    next: Duration,
    last: Option<Instant>,
}

impl Retry {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Retry { next: policy.initial.min(policy.max), policy, last: None }
    }

    /// After one more failure; never less than what the source asks for.
    pub(crate) fn delay(&mut self, asked: Option<Duration>) -> Duration {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) >= self.policy.reset_after) {
            self.next = self.policy.initial;
        }
        self.last = Some(now);
        let delay = self.next;
        self.next = (delay * 2).min(self.policy.max);
        delay.mul_f64(1.0 + fastrand::f64() * self.policy.jitter).max(asked.unwrap_or_default())
    }
}
