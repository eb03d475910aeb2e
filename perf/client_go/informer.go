package main

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// informer is what people run: a shared informer whose handler puts keys into a work queue, and workers that look up what they get
// from there. What the producer sends is what arrives in a watch, decoded.
type informer struct {
	source source
	shared cache.SharedIndexInformer
	work   workqueue.TypedInterface[string]
	stop   context.CancelFunc
	gone   sync.WaitGroup
}

// source is an API server's: an empty list, and a watch.
type source chan watch.Event

func (source) List(metav1.ListOptions) (runtime.Object, error) {
	return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (s source) Watch(metav1.ListOptions) (watch.Interface, error) { return s, nil }
func (s source) ResultChan() <-chan watch.Event                    { return s }
func (source) Stop()                                               {}

// IsWatchListSemanticsUnSupported: the list comes as a list.
func (source) IsWatchListSemanticsUnSupported() bool { return true }

func newInformer(d *description) *informer {
	// A watch of client-go's has no buffer: with one that holds a window goroutines change less often.
	events := make(source, max(d.Window, 1))
	q := &informer{source: events, work: workqueue.NewTyped[string]()}
	q.shared = cache.NewSharedIndexInformer(events, &Object{}, 0, cache.Indexers{})
	enqueue := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			q.work.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }}
	if _, err := q.shared.AddEventHandler(handler); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	q.stop = stop
	q.gone.Go(func() { q.shared.RunWithContext(ctx) })
	<-q.shared.HasSyncedChecker().Done()
	return q
}

func (q *informer) send(kind watch.EventType, object *Object) error {
	q.source <- watch.Event{Type: kind, Object: object}
	return nil
}

func (q *informer) add(object *Object) error    { return q.send(watch.Added, object) }
func (q *informer) update(object *Object) error { return q.send(watch.Modified, object) }
func (q *informer) known() cache.Store          { return q.shared.GetStore() }

// close may be called when everything has been handed out: nobody knows here what is under way.
func (q *informer) close() {
	q.stop()
	q.gone.Wait()
	q.work.ShutDown()
}

func (q *informer) consume(c *checker) {
	store := q.shared.GetIndexer()
	for {
		key, isOver := q.work.Get()
		if isOver {
			return
		}
		object, _, _ := store.GetByKey(key)
		c.read(key, object)
		q.work.Done(key)
		c.complete()
	}
}
