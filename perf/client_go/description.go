package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// description is a workload in words, as ../src/workload/description.rs writes it; each workload looks at its own part.
type description struct {
	Workload string `json:"workload"`
	Known    int    `json:"known"`
	// Of the order of the keys.
	Seed uint64 `json:"seed"`

	// Windowed.
	Producers int `json:"producers"`
	// Of windowed and paced.
	Consumers int           `json:"consumers"`
	Batch     int           `json:"batch"`
	Changes   int           `json:"changes"`
	Window    int           `json:"window"`
	Patience  time.Duration `json:"patience"`
	// What every handler does: it sleeps for so long. Of windowed and paced.
	Handler time.Duration `json:"handler"`

	// Paced. Calls in a second; none: one after the other.
	Rate  *float64      `json:"rate"`
	Calls int           `json:"calls"`
	Limit time.Duration `json:"limit"`

	// Memory.
	Samples int `json:"samples"`
	Burst   int `json:"burst"`
	Warm    int `json:"warm"`
	Bursts  int `json:"bursts"`

	// Store.
	Snapshots int           `json:"snapshots"`
	Scanned   int           `json:"scanned"`
	Time      time.Duration `json:"time"`
}

// read takes nothing that it does not know: it would do something else than the others.
func read(from io.Reader) (d description, err error) {
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&d); err == nil && d.Known < 1 {
		err = fmt.Errorf("no keys")
	}
	return d, err
}

// names are those of Rust's KeySet, first..first+count, in its order.
func names(first, count int, seed uint64) []string {
	keys := make([]string, count)
	for place := range keys {
		number := first + place
		hash := (uint64(number) * 0x9e3779b97f4a7c15) >> 24
		keys[place] = fmt.Sprintf("team-%03d/api-server-%010x-%05d", number%200, hash, number%100_000)
	}
	for last := count - 1; last > 0; last-- {
		seed += 0x9e3779b97f4a7c15
		other := splitMix(seed) % uint64(last+1)
		keys[last], keys[other] = keys[other], keys[last]
	}
	return keys
}

func splitMix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
