package pando_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pando-db/pando/bindings/go"
)

func TestChanges(t *testing.T) {
	db, table := inMemory(t)
	err := db.Update(func(tx *pando.Tx) error {
		return errors.Join(tx.Put(table, []byte("a"), nil), tx.Delete(table, []byte("b")),
			tx.DeleteRange(table, pando.Range{Start: []byte("x"), End: []byte("y")}))
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var found []pando.Change
	for change, err := range db.Changes(ctx, pando.ChangesOptions{Tables: []string{"t"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if found = append(found, change); len(found) == 1 {
			// The iterator waits for a commit of another goroutine.
			go func() {
				time.Sleep(20 * time.Millisecond)
				db.Put(table, []byte("c"), []byte("late"))
			}()
		}
		if len(found) == 3 {
			break
		}
	}
	operations := found[1].Operations
	if found[0].Operations[0].Kind != pando.CreateTable || found[0].Operations[0].Key != nil || len(operations) != 3 {
		t.Fatalf("%+v", found)
	}
	deleted, put, gone := operations[0], operations[1], operations[2]
	if deleted.Kind != pando.DeleteRange || string(deleted.Key) != "x" || string(deleted.End) != "y" {
		t.Errorf("%+v", deleted)
	}
	if put.Kind != pando.Put || string(put.Key) != "a" || put.Value == nil || put.Table != "t" {
		t.Errorf("%+v", put)
	}
	if gone.Kind != pando.Delete || gone.Value != nil {
		t.Errorf("%+v", gone)
	}
	last := found[2]
	if string(last.Operations[0].Value) != "late" || last.CommitNumber != found[1].CommitNumber+1 || last.Time.IsZero() {
		t.Errorf("%+v", last)
	}
}

func TestChangesEnd(t *testing.T) {
	db, _ := inMemory(t)
	ctx, cancel := context.WithCancel(context.Background())
	ends := 0
	for change, err := range db.Changes(ctx, pando.ChangesOptions{}) {
		if err == nil {
			if change.CommitNumber != 1 {
				t.Errorf("commit %d", change.CommitNumber)
			}
			time.AfterFunc(20*time.Millisecond, cancel)
			continue
		}
		ends++
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for _, err := range db.Changes(context.Background(), pando.ChangesOptions{After: 1 << 40}) {
		ends++
		expect(t, err, pando.ErrInvalid)
	}
	for _, err := range db.Changes(context.Background(), pando.ChangesOptions{Tables: []string{"a\x00b"}}) {
		ends++
		expect(t, err, pando.ErrInvalid)
	}
	time.AfterFunc(20*time.Millisecond, func() { db.Close() })
	for _, err := range db.Changes(context.Background(), pando.ChangesOptions{After: 1}) {
		ends++
		expect(t, err, pando.ErrClosed)
	}
	if ends != 4 {
		t.Errorf("%d of 4 iterators ended with an error", ends)
	}
	cancel()
}

func TestConsumer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	var first uint64
	for round := range 2 {
		db, err := pando.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		table, err := db.Table("t")
		if err != nil {
			t.Fatal(err)
		}
		consumer, err := db.Consumer("mails")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Consumer("mails")
		expect(t, err, pando.ErrLocked)
		if round == 0 {
			for _, value := range []string{"one", "two"} {
				if err := db.Put(table, []byte("k"), []byte(value)); err != nil {
					t.Fatal(err)
				}
			}
		} else if position, err := consumer.Position(); err != nil || position != first {
			t.Errorf("position %d instead of %d: %v", position, first, err)
		}
		for change, err := range consumer.Changes(context.Background(), pando.ChangesOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(change.Operations[0].Value), []string{"one", "two"}[round]; got != want {
				t.Errorf("%q instead of %q", got, want)
			}
			first = change.CommitNumber
			break
		}
		if err := consumer.Acknowledge(first); err != nil {
			t.Error(err)
		}
		expect(t, consumer.Acknowledge(first+1000), pando.ErrInvalid)
		consumer.Close()
		consumer.Close()
		expect(t, consumer.Acknowledge(first), pando.ErrClosed)
		known, err := db.Consumers()
		if wanted := (pando.ConsumerInfo{Name: "mails", Position: first}); err != nil || !slices.Equal(known, []pando.ConsumerInfo{wanted}) {
			t.Errorf("consumers %+v: %v", known, err)
		}
		if round == 1 {
			if err := db.DropConsumer("mails"); err != nil {
				t.Error(err)
			}
			expect(t, db.DropConsumer("mails"), pando.ErrMissing)
		}
		db.Close()
	}
}
