package main

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

// seen is what a scan has seen.
type seen struct {
	objects       int
	keys, changes uint64
	torn          int
}

func (s *seen) add(object *Object) {
	s.objects++
	s.keys += mixed(object.Key)
	s.changes += object.Seq
	if !object.isWhole() {
		s.torn++
	}
}

func mixed(number uint32) uint64 { return splitMix(uint64(number) + 0x9e3779b97f4a7c15) }

func scan(list []any) (s seen) {
	for _, object := range list {
		s.add(object.(*Object))
	}
	return s
}

// check scans a snapshot twice, as readers in Rust do, and says whether all is well.
func check(count int, first func() seen, again func(func(*Object)) seen) bool {
	s, all := first(), uint64(0)
	for number := range count {
		all += mixed(uint32(number))
	}
	laps, place := s.changes/uint64(count), s.changes%uint64(count)
	strange := 0
	second := again(func(object *Object) {
		expected := laps
		if uint64(object.Key) < place {
			expected++
		}
		if object.Seq != expected {
			strange++
		}
	})
	return s == second && s.objects == count && s.keys == all && s.torn+strange == 0
}

func checkList(list []any, count int) bool {
	return check(count, func() seen { return scan(list) }, func(see func(*Object)) (s seen) {
		for _, object := range list {
			s.add(object.(*Object))
			see(object.(*Object))
		}
		return s
	})
}

func checkMap(objects map[string]*Object, count int) bool {
	each := func(see func(*Object)) (s seen) {
		for _, object := range objects {
			s.add(object)
			see(object)
		}
		return s
	}
	return check(count, func() seen { return each(func(*Object) {}) }, each)
}

func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds())
}

// repeat is Rust's: at least once, and the clock is looked at so rarely that it does not count.
func repeat(duration time.Duration, what func()) (ns float64) {
	start, calls, chunk := time.Now(), 0, 1
	for {
		for range chunk {
			what()
		}
		calls += chunk
		elapsed := time.Since(start)
		if elapsed >= duration {
			return float64(elapsed.Nanoseconds()) / float64(calls)
		}
		if elapsed < duration/8 {
			chunk = min(2*chunk, 64)
		}
	}
}

// store is Rust's (../src/workload/readers.rs), of the thread-safe store by itself.
func store(absent []string, d *description) map[string]any {
	snapshots, duration := d.Snapshots, d.Time
	known, elsewhere := cache.NewThreadSafeStore(nil, nil), map[string]*Object{}
	for number, key := range keys {
		known.Add(key, newObject(0, number, 1))
		elsewhere[key] = newObject(0, number, 1)
	}
	writes := 0
	write := func() {
		number, seq := writes%len(keys), 2+uint64(writes/len(keys))
		known.Update(keys[number], newObject(0, number, seq))
		writes++
	}

	clock, taken := []time.Duration{}, []time.Duration{}
	for range snapshots {
		begin := time.Now()
		clock = append(clock, time.Since(begin))
	}
	for start := time.Now(); len(taken) < snapshots && (len(taken) < 3 || time.Since(start) < duration); {
		write()
		begin := time.Now()
		list := known.List()
		taken = append(taken, time.Since(begin))
		runtime.KeepAlive(list)
	}
	list := known.List()
	if !checkList(list, len(keys)) {
		violation("a snapshot is not what it should be")
	}
	start, objects := time.Now(), 0
	for objects < d.Scanned {
		objects += scan(list).objects
	}
	scanNs := float64(time.Since(start).Nanoseconds()) / float64(objects)

	// A second thread writes meanwhile.
	gets := func(asked []string, areThere bool) float64 {
		var end atomic.Bool
		var begun, gone sync.WaitGroup
		begun.Add(1)
		gone.Go(func() {
			begun.Done()
			for !end.Load() {
				write()
			}
		})
		begun.Wait()
		number, wrong := 0, 0
		ns := repeat(duration, func() {
			object, found := known.Get(asked[number])
			if found != areThere || (found && object.(*Object).Key != uint32(number)) || (found && !object.(*Object).isWhole()) {
				wrong++
			}
			number = (number + 1) % len(asked)
		})
		end.Store(true)
		gone.Wait()
		if wrong > 0 {
			violation("%d gets wrong", wrong)
		}
		return ns
	}

	written := func(readers int, read func() bool) float64 {
		var end, bad atomic.Bool
		var begun, gone sync.WaitGroup
		begun.Add(readers)
		for range readers {
			gone.Go(func() {
				begun.Done()
				for !end.Load() && !bad.Load() {
					if !read() {
						bad.Store(true)
					}
				}
			})
		}
		begun.Wait()
		ns := repeat(duration, write)
		end.Store(true)
		gone.Wait()
		if bad.Load() {
			violation("a reader's snapshot is not what it should be")
		}
		if now := scan(known.List()).changes; now != uint64(len(keys)+writes) {
			violation("%d changes of %d are known", now, len(keys)+writes)
		}
		return ns
	}
	own := func() bool { return checkList(known.List(), len(keys)) }
	other := func() bool { return checkMap(elsewhere, len(keys)) }
	snapshot := max(median(taken)-median(clock), 0)
	hit, miss := gets(keys, true), gets(absent, false)
	return map[string]any{
		"snapshot": snapshot, "scan": scanNs, "hit": hit, "miss": miss,
		"written": []float64{written(0, own), written(1, own), written(8, own), written(1, other)},
	}
}
