package main

import (
	"runtime"

	"k8s.io/client-go/tools/cache"
)

// live is read after a collection. It counts what the allocator handed out, rounded up to its size classes.
func live() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func mallocs() float64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.Mallocs)
}

func memory(keys []string, samples int) map[string]any {
	keyOf := func(object any) (string, error) { return keys[object.(*Object).Key], nil }
	empty := live()
	known := cache.NewStore(keyOf)
	fifo := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: keyOf, KnownObjects: known})
	seq := uint64(1)
	handle := func(object any, _ bool) error {
		deltas := object.(cache.Deltas)
		newest := deltas.Newest().Object.(*Object)
		if len(deltas) != 1 || newest.Seq != seq {
			violation("a lease with another object")
		}
		return known.Update(newest)
	}
	pop := func(count int) {
		for range count {
			if _, err := fifo.Pop(handle); err != nil {
				violation("pop: %v", err)
			}
		}
	}
	change := func(from, to int, change func(any) error) {
		for number := from; number < to; number++ {
			if err := change(newObject(number, seq)); err != nil {
				violation("change: %v", err)
			}
		}
	}

	sizes := make([]int, samples)
	for step := range sizes {
		sizes[step] = len(keys)/2 + (len(keys)-len(keys)/2)*step/max(samples-1, 1)
	}
	perKey := func(before float64, size int) [2]float64 {
		return [2]float64{float64(size), (live()-before)/float64(size) - objectSize}
	}
	knownBytes, pendingBytes := [][2]float64{}, [][2]float64{}
	done := 0
	for _, size := range sizes {
		for ; done < size; done++ {
			change(done, done+1, fifo.Add)
			pop(1)
		}
		knownBytes = append(knownBytes, perKey(empty, size))
	}
	nonePending := live()
	seq++
	done = 0
	for _, size := range sizes {
		change(done, size, fifo.Update)
		done = size
		pendingBytes = append(pendingBytes, perKey(nonePending, size))
	}
	pop(done)

	burst := max(len(keys)/10, 1)
	counted, ofChanges, ofPops := 0, 0.0, 0.0
	for round := range 8 {
		seq++
		start := mallocs()
		change(0, burst, fifo.Update)
		changed := mallocs()
		pop(burst)
		if round >= 3 {
			counted += burst
			ofChanges += changed - start
			ofPops += mallocs() - changed
		}
	}
	if length := len(known.ListKeys()); length != len(keys) {
		violation("%d known objects for %d keys", length, len(keys))
	}
	runtime.KeepAlive(keys)
	return map[string]any{
		"known": knownBytes, "pending": pendingBytes,
		"calls_of_changes": ofChanges, "calls_of_pops": ofPops, "counted": counted,
	}
}
