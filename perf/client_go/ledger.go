package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

// ledger has a word for each key, as in Rust (../src/workload/checks.rs): the sequence number of its newest delivered change, and
// whether a consumer has the key.
type ledger struct {
	words   []atomic.Uint64
	stopped atomic.Bool
	// Changes may be merged away: sequence numbers need only grow.
	merges bool

	mutex      sync.Mutex
	violations []string
	more       int
}

const (
	leased   = uint64(1)
	reported = 10
)

func newLedger(keys int) *ledger {
	return &ledger{words: make([]atomic.Uint64, keys)}
}

func (l *ledger) violation(format string, arguments ...any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.violations) < reported {
		l.violations = append(l.violations, fmt.Sprintf(format, arguments...))
	} else {
		l.more++
	}
}

// stop ends the run: it can only be void.
func (l *ledger) stop(format string, arguments ...any) {
	if !l.stopped.Swap(true) {
		l.violation(format, arguments...)
	}
}

func (l *ledger) all() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	all := append([]string{}, l.violations...)
	if l.more > 0 {
		all = append(all, fmt.Sprintf("and %d more", l.more))
	}
	return all
}

func (l *ledger) isCompleted(key int, seq uint64) bool { return l.words[key].Load() == seq<<1 }

// begin: a consumer begins to process changes first to last of a key.
func (l *ledger) begin(key uint32, first, last uint64) {
	before := l.words[key].Swap(last<<1 | leased)
	if before == (first-1)<<1 {
		return
	}
	name, seq := keys[key], before>>1
	switch {
	case before&leased != 0:
		l.violation("%s: change %d in a second consumer during the lease of change %d", name, first, seq)
	case !l.merges || seq > last:
		l.violation("%s: change %d delivered after change %d", name, first, seq)
	}
}

func (l *ledger) complete(key uint32, seq uint64) { l.words[key].Store(seq << 1) }

// wait yields, then sleeps for a moment at a time, whether it came true before the patience was at its end. In Rust a producer never
// sleeps. Here it leaves its processor to the collector and the other goroutines, which is quicker, and nobody need wake it.
func (l *ledger) wait(patience time.Duration, condition func() bool) bool {
	var began time.Time
	for turn := 0; !condition(); turn++ {
		switch {
		case l.stopped.Load():
			return false
		case turn < 16:
			runtime.Gosched()
		case began.IsZero():
			began = time.Now()
		case time.Since(began) > patience:
			return false
		default:
			time.Sleep(20 * time.Microsecond)
		}
	}
	return true
}

// counters say how many changes of each producer each consumer has completed. Each has one writer and a line of its own.
type counters struct {
	counters  []padded
	consumers int
}

type padded struct {
	atomic.Uint64
	_ [56]byte
}

func newCounters(producers, consumers int) *counters {
	return &counters{make([]padded, producers*consumers), consumers}
}

func (c *counters) of(producer int) (sum uint64) {
	for consumer := range c.consumers {
		sum += c.counters[producer*c.consumers+consumer].Load()
	}
	return sum
}

// checker is the handler of one consumer: it processes a lease by checking it.
type checker struct {
	ledger   *ledger
	counters *counters
	consumer int
	// How long every lease takes besides; nil: it takes no time.
	sleep func() time.Duration
	open  []opened
	done  []uint64
	// What it has been handed.
	leases, changes uint64
}

type opened struct {
	producer, key uint32
	seq, changes  uint64
}

func newChecker(ledger *ledger, counters *counters, consumer, producers int) *checker {
	return &checker{ledger: ledger, counters: counters, consumer: consumer, done: make([]uint64, producers)}
}

// lease takes what a queue of deltas hands out for one key.
func (c *checker) lease(deltas cache.Deltas) {
	if len(deltas) == 0 {
		c.ledger.violation("a lease without deltas")
		return
	}
	first := deltas[0].Object.(*Object)
	if deltas[0].Type != kind(first) {
		c.ledger.violation("%s: change %d handed out as %s", keys[first.Key], first.Seq, deltas[0].Type)
	}
	last := first.Seq
	for _, delta := range deltas[1:] {
		object := delta.Object.(*Object)
		if object.Key != first.Key || object.Seq != last+1 {
			c.ledger.violation("%s: change %d follows change %d in a lease", keys[first.Key], object.Seq, last)
		}
		last = object.Seq
	}
	c.take(first, last)
}

func kind(object *Object) cache.DeltaType {
	if object.Seq == 1 {
		return cache.Added
	}
	return cache.Updated
}

// read takes what a worker finds under a key.
func (c *checker) read(key string, found any) {
	object, isThere := found.(*Object)
	if !isThere {
		c.ledger.violation("%s: not known", key)
		return
	}
	if keys[object.Key] != key {
		c.ledger.violation("%s: handed out with an object of %s", key, keys[object.Key])
	}
	c.take(object, object.Seq)
}

func (c *checker) take(first *Object, last uint64) {
	changes := last + 1 - first.Seq
	c.ledger.begin(first.Key, first.Seq, last)
	c.open = append(c.open, opened{first.Producer, first.Key, last, changes})
	c.leases++
	c.changes += changes
	if c.sleep != nil {
		if pause := c.sleep(); pause > 0 {
			time.Sleep(pause)
		}
	}
}

// complete is to be called when the leases have ended.
func (c *checker) complete() {
	for _, open := range c.open {
		c.ledger.complete(open.key, open.seq)
		c.done[open.producer] += open.changes
		c.counters.counters[int(open.producer)*c.counters.consumers+c.consumer].Store(c.done[open.producer])
	}
	c.open = c.open[:0]
}

// known says what is wrong with the known objects at the end; newest is the model.
func (l *ledger) known(store cache.Store, newest func(key int) uint64) {
	if length := len(store.ListKeys()); length != len(keys) {
		l.violation("%d known objects for %d keys", length, len(keys))
	}
	for number, key := range keys {
		expected := newest(number)
		if !l.isCompleted(number, expected) {
			l.violation("%s: change %d was not delivered last", key, expected)
		}
		found, _, _ := store.GetByKey(key)
		object, isThere := found.(*Object)
		switch {
		case !isThere:
			l.violation("%s: not known", key)
		case object.Key != uint32(number) || object.Seq != expected || !object.isWhole():
			l.violation("%s: change %d is known instead of %d", key, object.Seq, expected)
		}
	}
}
