package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// calls is what a producer's calls took, from the moment when each was due (../src/workload/paced.rs).
type calls struct {
	latencies []time.Duration
	elapsed   time.Duration
	owed      int
}

var quantiles = []struct {
	name string
	of   float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}}

// quantiles are exact: all latencies are there.
func (c *calls) quantiles() map[string]int64 {
	slices.Sort(c.latencies)
	found := map[string]int64{}
	for _, quantile := range quantiles {
		place := int(quantile.of*float64(len(c.latencies))+0.999999) - 1
		found[quantile.name] = c.latencies[max(place, 0)].Nanoseconds()
	}
	return found
}

// paced is W7, open loop: one producer, whose calls are due at fixed moments.
func paced(q queue, d *description) (*calls, []string) {
	ledger, counters := newLedger(d.Known), newCounters(1, d.Consumers)
	_, ledger.merges = q.(*informer)
	var isSlow atomic.Bool
	checkers, consumers := make([]*checker, d.Consumers), sync.WaitGroup{}
	for consumer := range checkers {
		c := newChecker(ledger, counters, consumer, 1)
		c.sleep = func() time.Duration {
			if isSlow.Load() {
				return d.Handler
			}
			return 0
		}
		checkers[consumer] = c
		consumers.Go(func() { q.consume(c) })
	}
	told := func(err error) {
		if err != nil {
			ledger.violation("a change: %v", err)
		}
	}
	// All keys are known when the pace begins.
	for key := range d.Known {
		told(q.add(newObject(0, key, 1)))
	}
	newest := func(made int) func(key int) uint64 {
		r := round{0, d.Known, made}
		return r.newest
	}
	ledger.waitFor(newest(0))
	isSlow.Store(true)

	start := time.Now()
	calls := produce(d, start, func(number int) {
		key, seq := round{0, d.Known, d.Calls}.timed(number)
		told(q.update(newObject(0, key, seq)))
	})
	made := d.Calls - calls.owed
	ledger.waitFor(newest(made))
	q.close()
	consumers.Wait()
	calls.elapsed = time.Since(start)

	offered, changes := uint64(d.Known+made), uint64(0)
	for _, c := range checkers {
		changes += c.changes
	}
	if offered != changes && !ledger.merges {
		ledger.violation("%d changes offered, but %d delivered", offered, changes)
	}
	ledger.known(q.known(), newest(made))
	return calls, ledger.all()
}

// waitFor waits, asleep between two looks, until the newest change of every key is completed.
func (l *ledger) waitFor(newest func(key int) uint64) {
	const patience = 20 * time.Second
	moved, last := time.Now(), uint64(0)
	for {
		missing, sum := 0, uint64(0)
		for key := range l.words {
			sum += l.words[key].Load()
			if !l.isCompleted(key, newest(key)) {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		if sum != last {
			moved, last = time.Now(), sum
		} else if time.Since(moved) > patience {
			l.stop("stuck: the last changes of %d keys are lost", missing)
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func produce(d *description, start time.Time, call func(number int)) *calls {
	calls := &calls{latencies: make([]time.Duration, 0, d.Calls)}
	// Without a rate each call is due when the one before it is over.
	due := func(number int, now time.Time) time.Time {
		if d.Rate == nil {
			return now
		}
		return start.Add(time.Duration(float64(number) / *d.Rate * 1e9))
	}
	for number := range d.Calls {
		now := time.Now()
		dueNow := due(number, now)
		for now.Before(dueNow) {
			now = time.Now()
		}
		if now.Sub(start) > d.Limit {
			calls.owed = d.Calls - number
			// What is not due yet has not waited.
			for owed := number; owed < d.Calls && !due(owed, now).After(now); owed++ {
				calls.latencies = append(calls.latencies, now.Sub(due(owed, now)))
			}
			break
		}
		call(number)
		calls.latencies = append(calls.latencies, time.Since(dueNow))
	}
	return calls
}
