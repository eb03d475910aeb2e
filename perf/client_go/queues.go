package main

import (
	"fmt"

	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
)

// queue is what the workloads ask of one, with its known objects.
type queue interface {
	add(*Object) error
	update(*Object) error
	// consume hands out leases until the queue is closed and empty.
	consume(*checker)
	close()
	known() cache.Store
}

// queues by the names that the rows have. With batches the deltas of G2 are popped as its informer pops them.
func newQueue(row string, d *description) (queue, error) {
	switch store := cache.NewStore(keyOf); row {
	case "G1":
		options := cache.DeltaFIFOOptions{KeyFunction: keyOf, KnownObjects: store, EmitDeltaTypeReplaced: true}
		return &deltas{cache.NewDeltaFIFOWithOptions(options), store}, nil
	case "G2":
		if d.Consumers != 1 && isUnlocked() {
			return nil, fmt.Errorf("a RealFIFO that is unlocked while it processes has one consumer")
		}
		fifo := cache.NewRealFIFOWithOptions(realOptions(store))
		if d.Batch > 1 {
			return &batches{deltas: deltas{fifo, store}, fifo: fifo}, nil
		}
		return &deltas{fifo, store}, nil
	case "G3":
		return newInformer(d), nil
	}
	return nil, fmt.Errorf("there is no queue %q", row)
}

func enabled(feature features.Feature) bool { return features.FeatureGates().Enabled(feature) }

func isUnlocked() bool {
	return enabled(features.AtomicFIFO) && enabled(features.UnlockWhileProcessingFIFO)
}

// realOptions are those that the informer gives its RealFIFO, which the feature gates decide.
func realOptions(store cache.Store) cache.RealFIFOOptions {
	options := cache.RealFIFOOptions{KeyFunction: keyOf}
	if enabled(features.AtomicFIFO) {
		options.AtomicEvents, options.EmitDeltaTypeBookmark = true, true
		options.UnlockWhileProcessing = isUnlocked()
	} else {
		options.KnownObjects = store
	}
	return options
}

// deltas is a queue with its store, popped one by one.
type deltas struct {
	cache.Queue
	store cache.Store
}

func (q *deltas) add(object *Object) error    { return q.Add(object) }
func (q *deltas) update(object *Object) error { return q.Update(object) }
func (q *deltas) close()                      { q.Close() }
func (q *deltas) known() cache.Store          { return q.store }

func (q *deltas) consume(c *checker) {
	process := func(object any, _ bool) error {
		err := q.process(c, object.(cache.Deltas))
		// Still under the queue's lock: after it the key may be with another consumer already.
		c.complete()
		return err
	}
	for {
		if _, err := q.Pop(process); err == cache.ErrFIFOClosed {
			return
		} else if err != nil {
			c.ledger.stop("pop: %v", err)
		}
	}
}

// process is the way of an informer: the old object is looked up, the new one becomes known, then whoever listens is told.
func (q *deltas) process(c *checker, deltas cache.Deltas) error {
	for _, delta := range deltas {
		var err error
		if _, exists, failed := q.store.Get(delta.Object); failed == nil && exists {
			err = q.store.Update(delta.Object)
		} else {
			err = q.store.Add(delta.Object)
		}
		if err != nil {
			return err
		}
	}
	c.lease(deltas)
	return nil
}

// batches is the same by PopBatch and a transaction of the store.
type batches struct {
	deltas
	fifo *cache.RealFIFO
}

func (q *batches) consume(c *checker) {
	store := q.store.(cache.TransactionStore)
	one := func(object any, _ bool) error { return q.process(c, object.(cache.Deltas)) }
	// The informer makes room anew for each batch, and a function for each delta: this is quicker.
	var transactions []cache.Transaction
	all := func(deltas []cache.Delta, _ bool) error {
		transactions = transactions[:0]
		for _, delta := range deltas {
			kind := cache.TransactionTypeAdd
			if _, exists, err := q.store.Get(delta.Object); err == nil && exists {
				kind = cache.TransactionTypeUpdate
			}
			transactions = append(transactions, cache.Transaction{Type: kind, Object: delta.Object})
		}
		if err := store.Transaction(transactions...); err != nil {
			return err
		}
		for place := range deltas {
			c.lease(deltas[place : place+1])
		}
		return nil
	}
	for {
		if err := q.fifo.PopBatch(all, one); err == cache.ErrFIFOClosed {
			return
		} else if err != nil {
			c.ledger.stop("pop: %v", err)
		}
		c.complete()
	}
}
