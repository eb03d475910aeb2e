package main

import (
	"fmt"
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

// violations make a run of memory or store void.
var violations = []string{}

func violation(format string, arguments ...any) {
	if len(violations) < 10 {
		violations = append(violations, fmt.Sprintf(format, arguments...))
	}
}

// memory is Rust's (../src/workload/memory.rs), of G1.
func memory(d *description) map[string]any {
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
			if err := change(newObject(0, number, seq)); err != nil {
				violation("change: %v", err)
			}
		}
	}

	sizes := make([]int, d.Samples)
	for step := range sizes {
		sizes[step] = len(keys)/2 + (len(keys)-len(keys)/2)*step/max(d.Samples-1, 1)
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

	burst := min(max(d.Burst, 1), len(keys))
	counted, ofChanges, ofPops := 0, 0.0, 0.0
	for round := range d.Warm + d.Bursts {
		seq++
		start := mallocs()
		change(0, burst, fifo.Update)
		changed := mallocs()
		pop(burst)
		if round >= d.Warm {
			counted += burst
			ofChanges += changed - start
			ofPops += mallocs() - changed
		}
	}
	if length := len(known.ListKeys()); length != len(keys) {
		violation("%d known objects for %d keys", length, len(keys))
	}
	return map[string]any{
		"known": knownBytes, "pending": pendingBytes,
		"calls_of_changes": ofChanges, "calls_of_pops": ofPops, "counted": counted,
	}
}
