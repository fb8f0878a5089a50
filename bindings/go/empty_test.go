package pando_test

import (
	"runtime"
	"testing"

	"github.com/pando-db/pando/bindings/go"
)

// atDepth runs a function at a depth of the stack.
//
//go:noinline
func atDepth(depth int, run func()) byte {
	var frame [48]byte
	frame[depth%48] = byte(depth)
	if depth > 0 {
		return atDepth(depth-1, run) + frame[depth%48]
	}
	run()
	return frame[0]
}

// atManyDepths runs a function in goroutines whose stacks grow at different places of it, while garbage is collected. Go
// then looks at each pointer on a stack, and ends the program if it finds one below 4096.
func atManyDepths(run func()) {
	ended := make(chan struct{})
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-ended:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for depth := range 2100 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			atDepth(depth%700, run)
		}()
		<-done
	}
	close(ended)
	<-collected
}

func TestEmptyRecords(t *testing.T) {
	db, table := inMemory(t)
	if err := db.Put(table, []byte{}, []byte{}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	atManyDepths(func() {
		for record, err := range snapshot.Scan(table, pando.Range{}) {
			if err != nil || record.Key == nil || len(record.Key) != 0 || record.Value == nil || len(record.Value) != 0 {
				t.Errorf("%q: %v", record, err)
			}
		}
	})
}
