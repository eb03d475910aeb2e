//! How models are written: the model as it is, then with each bug planted, which must fail.

macro_rules! model {
    ($name:ident, preemptions: $bound:expr, $(fails: $twin:ident $bug:literal $says:literal,)*) => {
        mod $name {
            use super::bodies;
            use crate::sync::explore;

            #[test]
            fn holds() {
                let start = std::time::Instant::now();
                let executions = explore("", $bound, bodies::$name);
                println!("{}: {executions} executions, {:.2?}", stringify!($name), start.elapsed());
            }

            $(
                #[test]
                #[should_panic(expected = $says)]
                fn $twin() {
                    explore($bug, $bound, bodies::$name);
                }
            )*
        }
    };
}
pub(crate) use model;
