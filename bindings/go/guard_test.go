package pando_test

import (
	"errors"
	"io"
	"iter"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pando-db/pando/bindings/go"
)

// beside runs each function again and again, while ending runs and until the function has failed with ErrClosed. Until
// then it may also fail with what is in allowed.
func beside(t *testing.T, ending func(), work map[string]func() error) {
	t.Helper()
	var running, finished sync.WaitGroup
	for name, call := range work {
		running.Add(1)
		finished.Add(1)
		go func() {
			defer finished.Done()
			running.Done()
			for late := time.Now().Add(20 * time.Second); ; {
				err := call()
				if errors.Is(err, pando.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, pando.ErrInUse) && !errors.Is(err, pando.ErrNotFound) && err != io.EOF {
					t.Errorf("%s: %v", name, err)
					return
				}
				if time.Now().After(late) {
					t.Errorf("%s: %v long after the end", name, err)
					return
				}
			}
		}()
	}
	running.Wait()
	ending()
	finished.Wait()
}

func first(records iter.Seq2[pando.Record, error]) error {
	for _, err := range records {
		return err
	}
	return nil
}

func through(records iter.Seq2[pando.Record, error]) error {
	for _, err := range records {
		if err != nil {
			return err
		}
	}
	return nil
}

// reads has what snapshots and transactions have in common.
func reads(reader pando.Reader, table *pando.Table) map[string]func() error {
	key := []byte("k")
	return map[string]func() error{
		"get": func() error { _, err := reader.Get(table, key); return err },
		"has": func() error { _, err := reader.Has(table, key); return err },
		"multi get": func() error {
			_, err := reader.MultiGet(table, key, []byte("l"))
			return err
		},
		"first":   func() error { return first(reader.Scan(table, pando.Range{})) },
		"through": func() error { return through(reader.Scan(table, pando.Range{Reverse: true})) },
	}
}

func filledTable(t *testing.T) (*pando.DB, *pando.Table) {
	t.Helper()
	db, table := inMemory(t)
	err := db.Update(func(tx *pando.Tx) error {
		for i := range 100 {
			if err := tx.Put(table, []byte{'k', byte(i)}, make([]byte, 100)); err != nil {
				return err
			}
		}
		return tx.Put(table, []byte("k"), make([]byte, 1000))
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, table
}

func TestATransactionEndsBesideItsCalls(t *testing.T) {
	db, table := filledTable(t)
	for round := range 30 {
		var tx *pando.Tx
		begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			ended <- db.Update(func(given *pando.Tx) error {
				tx = given
				close(begun)
				<-end
				if round%2 == 0 {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
		}()
		<-begun
		work := reads(tx, table)
		work["put"] = func() error { return tx.Put(table, []byte("p"), nil) }
		work["delete"] = func() error { return tx.Delete(table, []byte("d")) }
		work["delete range"] = func() error { return tx.DeleteRange(table, pando.Range{Prefix: []byte("x")}) }
		work["savepoint"] = func() error {
			return tx.Savepoint(func() error { return tx.Put(table, []byte("s"), nil) })
		}
		work["value"] = func() error {
			writer, err := tx.ValueWriter(table, []byte("v"))
			if err != nil {
				return err
			}
			defer writer.Abandon()
			if _, err := writer.Write(make([]byte, 100)); err != nil {
				return err
			}
			_, err = writer.Finish()
			return err
		}
		beside(t, func() {
			time.Sleep(time.Millisecond)
			close(end)
			if err := <-ended; (err == nil) != (round%2 == 1) {
				t.Errorf("round %d ended with %v", round, err)
			}
		}, work)
	}
}

func TestASnapshotEndsBesideItsCalls(t *testing.T) {
	db, table := filledTable(t)
	for range 30 {
		snapshot, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		reader, err := snapshot.ValueReader(table, []byte("k"))
		if err != nil {
			t.Fatal(err)
		}
		work := reads(snapshot, table)
		work["commit number"] = func() error { _, err := snapshot.CommitNumber(); return err }
		beside(t, func() { time.Sleep(time.Millisecond); snapshot.Close() }, work)
		beside(t, func() { time.Sleep(time.Millisecond); reader.Close() }, map[string]func() error{
			"read": func() error { _, err := reader.Read(make([]byte, 10)); return err },
			"seek": func() error { _, err := reader.Seek(0, io.SeekStart); return err },
		})
	}
}

func TestAConsumerEndsBesideItsCalls(t *testing.T) {
	db, _ := filledTable(t)
	consumer, err := db.Consumer("c")
	if err != nil {
		t.Fatal(err)
	}
	beside(t, func() { time.Sleep(time.Millisecond); consumer.Close() }, map[string]func() error{
		"position": func() error { _, err := consumer.Position(); return err },
		"changes": func() error {
			ended := make(chan struct{})
			for _, err := range consumer.Changes(endedContext{ended}, pando.ChangesOptions{}) {
				if err != errEnded {
					return err
				}
			}
			return nil
		},
	})
}

// endedContext is a context that has ended with an error of its own.
type endedContext struct{ done chan struct{} }

var errEnded = errors.New("the context has ended")

func (c endedContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c endedContext) Done() <-chan struct{}       { return c.done }
func (c endedContext) Err() error                  { return errEnded }
func (c endedContext) Value(any) any               { return nil }

func TestAScanThatWasMadeBeforeTheEnd(t *testing.T) {
	db, table := filledTable(t)
	var late iter.Seq2[pando.Record, error]
	db.Update(func(tx *pando.Tx) error {
		late = tx.Scan(table, pando.Range{})
		return nil
	})
	expect(t, first(late), pando.ErrClosed)
	snapshot, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	late = snapshot.Scan(table, pando.Range{})
	next, stop := iter.Pull2(late)
	defer stop()
	if _, err, ok := next(); err != nil || !ok {
		t.Fatal(err)
	}
	snapshot.Close()
	expect(t, first(late), pando.ErrClosed)
	_, err, _ = next()
	expect(t, err, pando.ErrClosed)
}

func TestForgottenHandlesAreFreed(t *testing.T) {
	db, table := filledTable(t)
	readers := func() uint64 {
		stats, err := db.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return stats["readers"]
	}
	for range 1000 {
		snapshot, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := snapshot.ValueReader(table, []byte("k")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Consumer("forgotten"); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(20 * time.Second); readers() > 10; {
		if time.Now().After(late) {
			t.Fatalf("%d readers remain", readers())
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	consumer, err := db.Consumer("forgotten")
	if err != nil {
		t.Fatal(err)
	}
	consumer.Close()
}
