//! Panics of user code in the middle of something that has to be brought to its end first.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The first panic, which goes on when all is done.
#[derive(Default)]
pub(super) struct Panics(Option<Box<dyn Any + Send>>);

impl Panics {
    /// Runs user code once. Whether it did not panic.
    pub(super) fn contain(&mut self, step: impl FnOnce()) -> bool {
        match catch_unwind(AssertUnwindSafe(step)) {
            Ok(()) => true,
            Err(panic) => {
                self.0.get_or_insert(panic);
                false
            }
        }
    }

    /// Drops values of the user's, each by itself.
    pub(super) fn drop_each<T>(&mut self, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| _ = self.contain(|| drop(value)));
    }

    /// A key's `Eq` in the middle of a list gets a second chance, so that a panic does not leave half of the list.
    pub(super) fn outlast(&mut self, mut step: impl FnMut()) {
        let _ = self.contain(&mut step) || self.contain(step);
    }

    /// The end of it. During a panic there is no second one, which would abort.
    pub(super) fn go_on(self) {
        if let Some(panic) = self.0.filter(|_| !std::thread::panicking()) {
            resume_unwind(panic);
        }
    }
}
