package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
)

func small(producers, consumers, batch int) *description {
	d := &description{
		Workload: "windowed", Known: 200, Seed: 1, Producers: producers, Consumers: consumers, Batch: batch,
		Changes: 4_000, Window: max(100/producers, batch), Patience: time.Second,
	}
	prepare(names(0, d.Known, d.Seed), d.Changes/d.Known+3)
	return d
}

func create(t *testing.T, row string, d *description) queue {
	t.Helper()
	queue, err := newQueue(row, d)
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

func TestEveryQueuePasses(t *testing.T) {
	for _, shape := range []struct {
		row                         string
		producers, consumers, batch int
	}{
		{"G1", 1, 1, 1}, {"G1", 2, 3, 1}, {"G1", 1, 1, 8},
		{"G2", 1, 1, 1}, {"G2", 3, 1, 1}, {"G2", 1, 1, 8}, {"G2", 2, 1, 8},
		{"G3", 1, 1, 1}, {"G3", 2, 8, 1}, {"G3", 1, 8, 8},
	} {
		d := small(shape.producers, shape.consumers, shape.batch)
		elapsed, violations := windowed(create(t, shape.row, d), d)
		if elapsed <= 0 || len(violations) > 0 {
			t.Errorf("%v: %v, %v", shape, elapsed, violations)
		}
	}
}

func TestHandlersTakeTheirTime(t *testing.T) {
	d := small(1, 8, 1)
	d.Changes, d.Handler = 400, time.Millisecond
	elapsed, violations := windowed(create(t, "G3", d), d)
	if least := 50 * time.Millisecond; elapsed < least || len(violations) > 0 {
		t.Errorf("%v instead of at least %v, %v", elapsed, least, violations)
	}
}

func TestAUnlockedRealFIFOHasOneConsumer(t *testing.T) {
	if _, err := newQueue("G2", small(1, 2, 1)); err == nil {
		t.Error("its consumers would run side by side")
	}
}

// broken is a DeltaFIFO that does something wrong, once.
type broken struct {
	deltas
	fault   string
	updates int
	first   *Object
}

const at = 1_500

func (q *broken) update(object *Object) error {
	q.updates++
	if q.updates == 1 {
		q.first = object
	}
	if q.updates == at {
		switch q.fault {
		case "loses a change":
			return nil
		case "delivers a change twice":
			_ = q.Update(object)
		case "delivers an old change again":
			object = q.first
		case "says Added for Updated":
			return q.Add(object)
		}
	}
	return q.Update(object)
}

func (q *broken) consume(c *checker) {
	pops := 0
	process := func(object any, _ bool) error {
		pops++
		deltas := object.(cache.Deltas)
		if pops == at && q.fault == "leases a key twice" {
			c.lease(deltas)
		}
		if pops == at && q.fault == "hands out nothing" {
			c.lease(nil)
		}
		if q.fault == "keeps an old object" && pops > q.updatesOf() {
			c.lease(deltas)
			return nil
		}
		return q.process(c, deltas)
	}
	for {
		if _, err := q.Pop(process); err != nil {
			return
		}
		c.complete()
	}
}

// The last object of the last key is never put into the store.
func (q *broken) updatesOf() int { return 200 + 4_000 - 1 }

func TestABrokenQueueIsFoundOut(t *testing.T) {
	for fault, by := range map[string]string{
		"":                             "",
		"loses a change":               "stuck",
		"delivers a change twice":      "follows change|delivered after",
		"delivers an old change again": "delivered after|follows change",
		"says Added for Updated":       "handed out as Added",
		"leases a key twice":           "in a second consumer",
		"hands out nothing":            "without deltas",
		"keeps an old object":          "is known instead of",
	} {
		d := small(1, 1, 1)
		sound := create(t, "G1", d).(*deltas)
		_, violations := windowed(&broken{deltas: *sound, fault: fault}, d)
		isFound := false
		for _, text := range violations {
			for _, part := range strings.Split(by, "|") {
				isFound = isFound || strings.Contains(text, part)
			}
		}
		if isFound != (fault != "") {
			t.Errorf("%q: no %q in %q", fault, by, violations)
		}
	}
}

func TestAWorkerThatFindsSomethingElseIsFoundOut(t *testing.T) {
	small(1, 1, 1)
	for by, read := range map[string]func(*checker){
		"handed out with an object of": func(c *checker) { c.read(keys[1], newObject(0, 2, 1)) },
		"not known":                    func(c *checker) { c.read(keys[1], nil) },
		"delivered after":              func(c *checker) { c.read(keys[1], newObject(0, 1, 2)) },
	} {
		ledger := newLedger(len(keys))
		read(newChecker(ledger, newCounters(1, 1), 0, 1))
		if all := ledger.all(); len(all) != 1 || !strings.Contains(all[0], by) {
			t.Errorf("no %q in %q", by, all)
		}
	}
}

func TestEveryCallIsRecorded(t *testing.T) {
	for _, row := range []string{"G1", "G2", "G3"} {
		for _, handler := range []time.Duration{0, 100 * time.Microsecond} {
			rate := 20_000.0
			d := &description{Known: 20, Seed: 1, Consumers: 1, Handler: handler, Rate: &rate, Calls: 1_000, Limit: 20 * time.Second}
			prepare(names(0, d.Known, d.Seed), d.Calls/d.Known+3)
			calls, violations := paced(create(t, row, d), d)
			if len(violations) > 0 || len(calls.latencies) != d.Calls || calls.owed != 0 {
				t.Errorf("%s: %d of %d calls, %v", row, len(calls.latencies), d.Calls, violations)
			}
		}
	}
}

func TestACallThatIsHeldUpDelaysThoseAfterIt(t *testing.T) {
	rate := 1_000.0
	d := &description{Rate: &rate, Calls: 50, Limit: 20 * time.Second}
	calls := produce(d, time.Now(), func(number int) {
		if number == 10 {
			time.Sleep(5 * time.Millisecond)
		}
	})
	waited := 0
	for _, latency := range calls.latencies {
		if latency > 500*time.Microsecond {
			waited++
		}
	}
	if waited < 4 {
		t.Errorf("%d calls waited", waited)
	}
	d.Limit = 20 * time.Millisecond
	calls = produce(d, time.Now(), func(int) { time.Sleep(10 * time.Millisecond) })
	if calls.owed == 0 || len(calls.latencies)+calls.owed < d.Calls {
		t.Errorf("%d owed, %d recorded", calls.owed, len(calls.latencies))
	}
}

func TestQuantilesAreExact(t *testing.T) {
	calls := calls{}
	for latency := range 1_000 {
		calls.latencies = append(calls.latencies, time.Duration(1_000-latency))
	}
	for name, expected := range map[string]int64{"p50": 500, "p99": 990, "p99.9": 999, "p99.99": 1_000, "max": 1_000} {
		if found := calls.quantiles()[name]; found != expected {
			t.Errorf("%s is %d", name, found)
		}
	}
}

// What Rust writes, it too against this file.
func TestDescriptionsAreRead(t *testing.T) {
	text, err := os.ReadFile("testdata/descriptions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var workloads []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		d, err := read(strings.NewReader(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		workloads = append(workloads, d.Workload)
		if d.Known != 1_000 || d.Seed != 7 {
			t.Errorf("%s", line)
		}
		switch d.Workload {
		case "windowed":
			if d.Window != 250 || d.Batch != 32 || d.Handler != time.Millisecond || d.Changes != 5_000 || d.Producers != 2 {
				t.Errorf("%+v", d)
			}
		case "paced":
			if d.Rate == nil || *d.Rate != 500 || d.Limit != 3*time.Second || d.Calls != 100 {
				t.Errorf("%+v", d)
			}
		}
	}
	if said := strings.Join(workloads, " "); said != "windowed paced memory store" {
		t.Error(said)
	}
	for _, nonsense := range []string{"", `{"known": 5, "speed": 1}`, `{"workload": "windowed"}`} {
		if _, err := read(strings.NewReader(nonsense)); err == nil {
			t.Errorf("%s is read", nonsense)
		}
	}
}

// The same.
func TestKeysAreThoseOfRust(t *testing.T) {
	text, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var expected []string
	if err := json.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	if found := names(0, len(expected), 7); strings.Join(found, " ") != strings.Join(expected, " ") {
		t.Errorf("%q", found)
	}
}

func TestEveryWorkloadRuns(t *testing.T) {
	for row, d := range map[string]description{
		"G1": {Workload: "memory", Known: 100, Seed: 1, Samples: 3, Burst: 10, Warm: 1, Bursts: 1},
		"G3": {Workload: "windowed", Known: 100, Seed: 1, Producers: 1, Consumers: 8, Batch: 1, Changes: 500, Window: 50, Patience: time.Second},
		"G2": {Workload: "paced", Known: 50, Seed: 1, Consumers: 1, Calls: 100, Limit: time.Second},
		"":   {Workload: "store", Known: 100, Seed: 1, Snapshots: 3, Scanned: 100, Time: time.Millisecond},
	} {
		result, err := run(row, &d)
		if err != nil || len(result["violations"].([]string)) > 0 {
			t.Errorf("%s: %v, %v", d.Workload, result, err)
		}
	}
	if _, err := run("G4", &description{Workload: "windowed", Known: 1}); err == nil {
		t.Error("there is no G4")
	}
	if said := version(); !strings.Contains(said, "GOGC=") || !strings.Contains(said, "AtomicFIFO=") {
		t.Error(said)
	}
}
