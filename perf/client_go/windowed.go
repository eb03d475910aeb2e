package main

import (
	"sync"
	"time"
)

// round is the way of one producer: its keys, over and over (../src/workload/windowed.rs).
type round struct{ first, len, changes int }

func roundOf(d *description, producer int) round {
	bound := func(i int) int { return i * d.Known / d.Producers }
	first := bound(producer)
	return round{first, bound(producer+1) - first, d.Changes / d.Producers}
}

// timed is the number of a timed change: lap 0 made the first change of every key.
func (r round) timed(change int) (key int, seq uint64) {
	return r.first + change%r.len, uint64(2 + change/r.len)
}

// newest is the last sequence number of a key of this producer.
func (r round) newest(key int) uint64 {
	place, laps := key-r.first, r.changes/r.len
	if place < r.changes%r.len {
		laps++
	}
	return uint64(1 + laps)
}

// window is how far one producer may run ahead.
type window struct {
	*ledger
	counters        *counters
	producer        int
	width           uint64
	patience        time.Duration
	issued, allowed uint64
}

// reserve waits until so many more changes fit in.
func (w *window) reserve(count uint64) bool {
	w.issued += count
	if w.issued <= w.allowed {
		return true
	}
	// Goes on when half of it is free, as in Rust.
	ahead := max(w.width/2, count)
	return w.waitForDone(w.issued - min(ahead, w.issued))
}

func (w *window) drain() bool { return w.waitForDone(w.issued) }

func (w *window) waitForDone(needed uint64) bool {
	done := uint64(0)
	came := w.until(func() bool {
		done = w.counters.of(w.producer)
		return done >= needed
	})
	w.allowed = done + w.width
	return came
}

// waitForKey waits until the change of this key before seq is completed.
func (w *window) waitForKey(key int, seq uint64) bool {
	return w.isCompleted(key, seq-1) || w.until(func() bool { return w.isCompleted(key, seq-1) })
}

func (w *window) until(condition func() bool) bool {
	if w.wait(w.patience, condition) {
		return true
	}
	w.stop("stuck: producer %d waits in vain, changes are lost", w.producer)
	return false
}

// windowed is W1; with handlers that sleep W7.
func windowed(q queue, d *description) (elapsed time.Duration, violations []string) {
	ledger, counters := newLedger(d.Known), newCounters(d.Producers, d.Consumers)
	checkers, consumers := make([]*checker, d.Consumers), sync.WaitGroup{}
	for consumer := range checkers {
		c := newChecker(ledger, counters, consumer, d.Producers)
		c.sleep = func() time.Duration { return d.Handler }
		checkers[consumer] = c
		consumers.Go(func() { q.consume(c) })
	}

	var filled, producers sync.WaitGroup
	began, ended := make([]time.Time, d.Producers), make([]time.Time, d.Producers)
	filled.Add(d.Producers)
	for producer := range d.Producers {
		producers.Go(func() {
			w := &window{ledger, counters, producer, uint64(d.Window), d.Patience, 0, uint64(d.Window)}
			r := roundOf(d, producer)
			goesOn := fill(q, r, w)
			filled.Done()
			filled.Wait()
			began[producer] = time.Now()
			// Who is stuck has stopped the run and said why.
			_ = goesOn && change(q, r, w, d.Batch)
			ended[producer] = time.Now()
		})
	}
	producers.Wait()
	q.close()
	consumers.Wait()

	offered, leases, changes := uint64(0), uint64(0), uint64(0)
	first, last := began[0], ended[0]
	for producer := range d.Producers {
		r := roundOf(d, producer)
		offered += uint64(r.len + r.changes)
		if began[producer].Before(first) {
			first = began[producer]
		}
		if ended[producer].After(last) {
			last = ended[producer]
		}
	}
	for _, c := range checkers {
		leases += c.leases
		changes += c.changes
	}
	if !ledger.stopped.Load() {
		if offered != leases {
			ledger.violation("%d pops for %d changes: in the window every change is one pop", leases, offered)
		}
		if offered != changes {
			ledger.violation("%d changes offered, but %d delivered", offered, changes)
		}
		ledger.known(q.known(), func(key int) uint64 {
			producer := 0
			for r := roundOf(d, 0); key >= r.first+r.len; r = roundOf(d, producer) {
				producer++
			}
			return roundOf(d, producer).newest(key)
		})
	}
	return last.Sub(first), ledger.all()
}

func fill(q queue, r round, w *window) bool {
	for key := r.first; key < r.first+r.len; key++ {
		if !w.reserve(1) {
			return false
		}
		w.told(q.add(newObject(w.producer, key, 1)))
	}
	return w.drain()
}

// change makes the timed changes. No queue of client-go's takes several at once: in batches they come one after the other.
func change(q queue, r round, w *window, batch int) bool {
	for change := 0; change < r.changes; {
		count := min(batch, r.changes-change)
		if !w.reserve(uint64(count)) {
			return false
		}
		for range count {
			key, seq := r.timed(change)
			if !w.waitForKey(key, seq) {
				return false
			}
			w.told(q.update(newObject(w.producer, key, seq)))
			change++
		}
	}
	return w.drain()
}

func (w *window) told(err error) {
	if err != nil {
		w.violation("a change: %v", err)
	}
}
