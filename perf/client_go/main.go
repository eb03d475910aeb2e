// What the laboratory measures of client-go: its DeltaFIFO with its thread-safe store (`memory`), and that store by itself (`store`).
// The same keys, objects and workloads as the peers in Rust have (../src/workload/memory.rs and readers.rs), and the same checks.
// One run; its figures go to standard output as JSON. GOGC and GOMAXPROCS are what the environment says.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object is 80 bytes, as in Rust.
type Object struct {
	Producer, Key uint32
	Seq           uint64
	Payload       [8]uint64
}

const objectSize = float64(unsafe.Sizeof(Object{}))

var meta metav1.ObjectMeta

// GetObjectMeta is what the store asks for a resource version; without it it would have to make do with an error.
func (*Object) GetObjectMeta() metav1.Object { return &meta }

func newObject(key int, seq uint64) *Object {
	object := &Object{Key: uint32(key), Seq: seq}
	for word := range object.Payload {
		object.Payload[word] = seq
	}
	return object
}

func (object *Object) isWhole() bool {
	other := uint64(0)
	for _, word := range object.Payload {
		other |= word ^ object.Seq
	}
	return other == 0
}

// names are those of Rust's KeySet: first..first+count in a random order.
func names(first, count int, seed int64) []string {
	keys := make([]string, count)
	for place := range keys {
		number := first + place
		hash := (uint64(number) * 0x9e3779b97f4a7c15) >> 24
		keys[place] = fmt.Sprintf("team-%03d/api-server-%010x-%05d", number%200, hash, number%100_000)
	}
	rand.New(rand.NewSource(seed)).Shuffle(count, func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
	return keys
}

// violations make a run void.
var violations = []string{}

func violation(format string, arguments ...any) {
	if len(violations) < 10 {
		violations = append(violations, fmt.Sprintf(format, arguments...))
	}
}

func main() {
	keys := flag.Int("keys", 1000, "how many")
	seed := flag.Int64("seed", 1, "of their order")
	samples := flag.Int("samples", 101, "memory: numbers of keys at which bytes are read")
	snapshots := flag.Int("snapshots", 1001, "store: snapshots that are timed, at most")
	scanned := flag.Int("scanned", 2_000_000, "store: objects that are scanned, at least")
	duration := flag.Duration("time", 200*time.Millisecond, "store: of gets, and of writes, in each case")
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "memory or store?")
		os.Exit(2)
	}
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		os.Exit(2)
	}
	var result map[string]any
	switch os.Args[1] {
	case "memory":
		result = memory(names(0, *keys, *seed), *samples)
	case "store":
		result = store(names(0, *keys, *seed), names(*keys, *keys, *seed), *snapshots, *scanned, *duration)
	default:
		fmt.Fprintln(os.Stderr, "memory or store?")
		os.Exit(2)
	}
	result["violations"] = violations
	result["version"] = "client-go 0.37, " + runtime.Version()
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		os.Exit(1)
	}
}
