use std::collections::HashSet;
use std::sync::Mutex;

use super::*;

fn handle(bits: u64) -> Handle {
    Handle::new(bits).expect("a handle")
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn they_come_in_the_order_of_time() {
    let delays = Delays::new(Instant::now());
    let start = Instant::now();
    assert_eq!((delays.earliest(), delays.pop_any(), delays.pop_due(start + SECOND)), (None, None, None));
    assert!(delays.add(start + 5 * SECOND, handle(5)));
    assert!(!delays.add(start + 9 * SECOND, handle(1)));
    assert!(delays.add(start + 2 * SECOND, handle(7)));
    assert!(delays.add(start + 2 * SECOND, handle(8)), "nothing is due earlier");
    assert_eq!(delays.earliest(), Some(start + 2 * SECOND));
    assert_eq!(delays.pop_due(start + SECOND), None);
    assert_eq!(delays.pop_due(start + 2 * SECOND), Some(handle(7)));
    assert!(
        delays.remove(delays.stamp(start + 2 * SECOND), handle(8))
            && !delays.remove(delays.stamp(start + 2 * SECOND), handle(8))
    );
    assert_eq!(delays.earliest(), Some(start + 5 * SECOND));
    assert_eq!(delays.pop_due(start + 60 * SECOND), Some(handle(5)));
    assert_eq!((delays.pop_any(), delays.pop_any(), delays.earliest()), (Some(handle(1)), None, None));
    assert_eq!(delays.len.load(Relaxed), 0);
}

#[test]
fn what_was_due_before_the_queue_is_due_now() {
    let past = Instant::now();
    let delays = Delays::new(Instant::now());
    assert!(delays.add(past, handle(1)));
    assert_eq!(delays.pop_due(Instant::now()), Some(handle(1)));
    delays.add(past, handle(1));
    assert!(delays.remove(delays.stamp(past), handle(1)));
}

#[test]
fn threads_take_each_once() {
    const EACH: u64 = 2_000;
    let (delays, taken) = (Delays::new(Instant::now()), Mutex::new(HashSet::new()));
    let start = Instant::now();
    let until = |bits: u64| start + Duration::from_nanos(bits * 7 % 1_000);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (delays, taken) = (&delays, &taken);
            scope.spawn(move || {
                for bits in thread * EACH + 1..=(thread + 1) * EACH {
                    delays.add(until(bits), handle(bits));
                    let got = match bits % 3 {
                        0 => delays.pop_due(start + SECOND),
                        1 => delays.remove(delays.stamp(until(bits)), handle(bits)).then(|| handle(bits)),
                        _ => None,
                    };
                    if let Some(got) = got {
                        assert!(taken.lock().unwrap().insert(got), "taken twice");
                    }
                }
            });
        }
    });
    while let Some(got) = delays.pop_any() {
        assert!(taken.lock().unwrap().insert(got), "taken twice");
    }
    assert_eq!(taken.lock().unwrap().len() as u64, 2 * EACH);
    assert_eq!((delays.len.load(Relaxed), delays.earliest()), (0, None));
}
