//! Tasks, and what becomes of panics.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use tokio::task::JoinSet;

/// Waits for all of them. It panics if one of them has.
pub(crate) async fn end_of(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        // The other error is that of a runtime that shuts down.
        if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            resume_unwind(panic);
        }
    }
}

/// What the user's code comes to; none if it panics.
pub(crate) async fn contained<T>(code: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(code).catch_unwind().await.ok()
}
