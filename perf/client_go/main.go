// What the laboratory measures of client-go. The workload is read from standard input, as one JSON object (description.go); the argument
// says of what:
//
//	G1  its DeltaFIFO, popped one by one, with its store
//	G2  its RealFIFO with its store: Pop, and with batches PopBatch and a transaction of the store
//	G3  its shared informer, whose handler feeds a work queue with several workers
//
// The same keys, objects, workloads and checks as the peers in Rust have (../src/workload). One run; its figures go to standard
// output as JSON. GOGC, GOMAXPROCS and feature gates are what the environment says.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"k8s.io/client-go/features"
)

func main() {
	if len(os.Args) != 2 {
		refuse(fmt.Errorf("G1, G2 or G3?"))
	}
	d, err := read(os.Stdin)
	if err != nil {
		refuse(err)
	}
	result, err := run(os.Args[1], &d)
	if err != nil {
		refuse(err)
	}
	result["version"] = version()
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		os.Exit(1)
	}
}

func refuse(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

func run(row string, d *description) (map[string]any, error) {
	prepare(names(0, d.Known, d.Seed), 0)
	switch d.Workload {
	case "windowed":
		prepare(keys, d.Changes/d.Known+3)
		// Once to get warm: a process that has just begun has a small heap.
		for isWarm := false; ; isWarm = true {
			queue, err := newQueue(row, d)
			if err != nil {
				return nil, err
			}
			runtime.GC()
			elapsed, violations := windowed(queue, d)
			if isWarm || len(violations) > 0 {
				changes := d.Changes / d.Producers * d.Producers
				return map[string]any{"elapsed": elapsed, "changes": changes, "violations": violations}, nil
			}
		}
	case "paced":
		// To get warm call after call, with handlers that take no time.
		warm := *d
		warm.Rate, warm.Handler, warm.Calls = nil, 0, 5_000
		prepare(keys, max(d.Calls, warm.Calls)/d.Known+3)
		for _, it := range []*description{&warm, d} {
			queue, err := newQueue(row, it)
			if err != nil {
				return nil, err
			}
			runtime.GC()
			calls, violations := paced(queue, it)
			if it == d || len(violations) > 0 {
				return map[string]any{"quantiles": calls.quantiles(), "owed": calls.owed, "violations": violations}, nil
			}
		}
	case "memory":
		result := memory(d)
		result["violations"] = violations
		return result, nil
	case "store":
		result := store(names(d.Known, d.Known, d.Seed), d)
		result["violations"] = violations
		return result, nil
	}
	return nil, fmt.Errorf("there is no workload %q", d.Workload)
}

// version says of what, and with which settings: client-go's own and those of the runtime.
func version() string {
	module := "client-go"
	if info, isThere := debug.ReadBuildInfo(); isThere {
		for _, dependency := range info.Deps {
			if dependency.Path == "k8s.io/client-go" {
				module += " " + dependency.Version
			}
		}
	}
	gogc := debug.SetGCPercent(-1)
	debug.SetGCPercent(gogc)
	said := fmt.Sprintf("%s, %s, GOGC=%d, GOMAXPROCS=%d", module, runtime.Version(), gogc, runtime.GOMAXPROCS(0))
	for _, feature := range []features.Feature{
		features.InOrderInformers, features.InOrderInformersBatchProcess, features.AtomicFIFO, features.UnlockWhileProcessingFIFO,
	} {
		said += fmt.Sprintf(", %s=%t", feature, enabled(feature))
	}
	return said
}
