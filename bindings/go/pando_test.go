package pando_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pando-db/pando/bindings/go"
)

func inMemory(t *testing.T) (*pando.DB, *pando.Table) {
	t.Helper()
	db, err := pando.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	table, err := db.Table("t")
	if err != nil {
		t.Fatal(err)
	}
	return db, table
}

func expect(t *testing.T, err error, kind pando.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v instead of kind %q", err, string(kind))
	}
}

func Example() {
	folder, _ := os.MkdirTemp("", "pando")
	defer os.RemoveAll(folder)
	db, err := pando.Open(filepath.Join(folder, "fruit.pando"), &pando.Options{Durability: pando.Buffered})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	fruit, err := db.Table("fruit")
	if err != nil {
		panic(err)
	}
	err = db.Update(func(tx *pando.Tx) error {
		return errors.Join(
			tx.Put(fruit, []byte("apple"), []byte("red")),
			tx.Put(fruit, []byte("apricot"), []byte("orange")),
			tx.Put(fruit, []byte("lemon"), []byte("yellow")))
	})
	if err != nil {
		panic(err)
	}
	err = db.View(func(s *pando.Snapshot) error {
		for record, err := range s.Scan(fruit, pando.Range{Prefix: []byte("a")}) {
			if err != nil {
				return err
			}
			fmt.Printf("%s is %s\n", record.Key, record.Value)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// apple is red
	// apricot is orange
}

func TestReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	_, err := pando.Open(path, &pando.Options{MustExist: true})
	expect(t, err, pando.ErrMissing)
	db, err := pando.Open(path, &pando.Options{MemoryBytes: 32 << 20, More: map[string]string{"page_bytes": "8192"}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := db.TableWith("t", pando.TableOptions{Layout: pando.LSM, LZ4: true, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if table.Name() != "t" || table.Layout() != pando.LSM {
		t.Errorf("table %q has layout %d", table.Name(), table.Layout())
	}
	if err := db.Put(table, []byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	_, err = pando.Open(path, nil)
	expect(t, err, pando.ErrLocked)

	beside, err := pando.Open(path, &pando.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := beside.CatchUp(); err != nil {
		t.Error(err)
	}
	same, err := beside.OpenTable("t")
	if err != nil {
		t.Fatal(err)
	}
	if value, err := beside.Get(same, []byte("k")); err != nil || string(value) != "v" {
		t.Errorf("beside the writer: %q, %v", value, err)
	}
	if !beside.IsReadOnly() {
		t.Error("the database is not read-only")
	}
	expect(t, beside.Put(same, []byte("k"), nil), pando.ErrReadOnly)

	backups, restored := filepath.Join(filepath.Dir(path), "backups"), filepath.Join(filepath.Dir(path), "restored")
	for _, incremental := range []bool{false, true} {
		if name, err := db.Backup(backups, incremental); err != nil || name == "" {
			t.Errorf("backup %q: %v", name, err)
		}
	}
	if err := errors.Join(db.Checkpoint(), db.Sync(), db.Check(), beside.Close(), db.Close(), db.Close()); err != nil {
		t.Error(err)
	}
	expect(t, db.Put(table, []byte("k"), nil), pando.ErrClosed)
	if err := pando.Restore(backups, restored); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, restored} {
		db, err := pando.Open(path, &pando.Options{MustExist: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.TableWith("t", pando.TableOptions{Layout: pando.BTree})
		expect(t, err, pando.ErrMismatch)
		table, err := db.Table("t")
		if err != nil {
			t.Fatal(err)
		}
		if value, err := db.Get(table, []byte("k")); err != nil || string(value) != "v" {
			t.Errorf("after reopening: %q, %v", value, err)
		}
		db.Close()
	}
}

func TestConflictNamesTableAndKey(t *testing.T) {
	db, table := inMemory(t)
	attempts := 0
	var first *pando.ConflictError
	err := db.Update(func(tx *pando.Tx) error {
		if _, err := tx.Get(table, []byte("k")); err != nil && err != pando.ErrNotFound {
			return err
		}
		attempts++
		if attempts == 1 {
			if err := db.Put(table, []byte("k"), []byte("other")); err != nil {
				return err
			}
		}
		return tx.Put(table, []byte("l"), []byte("mine"))
	})
	if err != nil || attempts != 2 {
		t.Errorf("%d attempts, error %v", attempts, err)
	}
	// One that never succeeds ends with the conflict.
	attempts = 0
	err = db.Update(func(tx *pando.Tx) error {
		if _, err := tx.Get(table, []byte("k")); err != nil {
			return err
		}
		attempts++
		return errors.Join(db.Put(table, []byte("k"), []byte(strconv.Itoa(attempts))), tx.Put(table, []byte("l"), nil))
	})
	expect(t, err, pando.ErrConflict)
	if !errors.As(err, &first) || first.Table != "t" || string(first.Key) != "k" || attempts < 10 {
		t.Errorf("%d attempts, error %+v", attempts, err)
	}
}

func TestGoroutinesCountTogether(t *testing.T) {
	db, table := inMemory(t)
	const goroutines, rounds = 4, 100
	var group sync.WaitGroup
	for range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for range rounds {
				for {
					err := db.UpdateWith(pando.TxOptions{Durability: pando.Buffered}, func(tx *pando.Tx) error {
						text, err := tx.Get(table, []byte("n"))
						if err != nil && err != pando.ErrNotFound {
							return err
						}
						number, _ := strconv.Atoi(string(text))
						return tx.Put(table, []byte("n"), []byte(strconv.Itoa(number+1)))
					})
					if err == nil {
						break
					}
					if !errors.Is(err, pando.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		}()
	}
	group.Wait()
	if text, err := db.Get(table, []byte("n")); err != nil || string(text) != strconv.Itoa(goroutines*rounds) {
		t.Errorf("counted to %s: %v", text, err)
	}
}

func TestMisuse(t *testing.T) {
	db, table := inMemory(t)
	other, foreign := inMemory(t)
	var kept *pando.Tx
	var late *pando.Snapshot
	err := db.Update(func(tx *pando.Tx) error { kept = tx; return tx.Put(table, []byte("k"), []byte("v")) })
	if err != nil {
		t.Fatal(err)
	}
	expect(t, kept.Put(table, []byte("k"), nil), pando.ErrClosed)
	expect(t, kept.Savepoint(func() error { return nil }), pando.ErrClosed)
	if err := db.View(func(s *pando.Snapshot) error { late = s; return nil }); err != nil {
		t.Fatal(err)
	}
	_, err = late.Get(table, []byte("k"))
	expect(t, err, pando.ErrClosed)
	for _, err := range late.Scan(table, pando.Range{}) {
		expect(t, err, pando.ErrClosed)
	}
	_, err = db.Get(nil, []byte("k"))
	expect(t, err, pando.ErrInvalid)
	expect(t, db.Put(foreign, []byte("k"), nil), pando.ErrInvalid)
	expect(t, other.Put(foreign, make([]byte, 1<<20), nil), pando.ErrInvalid)
	_, err = db.Table("zero\x00byte")
	expect(t, err, pando.ErrInvalid)
	_, err = db.Get(table, []byte("none"))
	expect(t, err, pando.ErrNotFound)
	_, err = pando.OpenMemory(&pando.Options{More: map[string]string{"no_such": "1"}})
	expect(t, err, pando.ErrInvalid)
	// A panic rolls back, and passes on.
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		db.Update(func(tx *pando.Tx) error {
			if err := tx.Delete(table, []byte("k")); err != nil {
				return err
			}
			panic("planned")
		})
	}()
	if value, err := db.Get(table, []byte("k")); err != nil || string(value) != "v" {
		t.Errorf("after a panic: %q, %v", value, err)
	}
}

func TestReads(t *testing.T) {
	db, table := inMemory(t)
	const records = 3000
	err := db.Update(func(tx *pando.Tx) error {
		for i := range records {
			if err := tx.Put(table, fmt.Appendf(nil, "%06d", i), fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(s *pando.Snapshot) error {
		count := 0
		for record, err := range s.Scan(table, pando.Range{Reverse: true}) {
			if err != nil {
				return err
			}
			count++
			if want := fmt.Sprint(records - count); string(record.Value) != want {
				t.Fatalf("%s instead of %s", record.Value, want)
			}
		}
		if count != records {
			t.Errorf("%d records", count)
		}
		for range s.Scan(table, pando.Range{}) {
			break // The cursor is freed.
		}
		values, err := s.MultiGet(table, []byte("000007"), []byte("none"), nil)
		if err != nil || len(values) != 3 || string(values[0]) != "7" || values[1] != nil || values[2] != nil {
			t.Errorf("values %q, error %v", values, err)
		}
		has, err := s.Has(table, []byte("000007"))
		if err != nil || !has {
			t.Errorf("has %v, %v", has, err)
		}
		if number, err := s.CommitNumber(); err != nil || number == 0 {
			t.Errorf("commit %d, %v", number, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	stats, err := db.Stats()
	if err != nil || stats["last_commit"] == 0 {
		t.Errorf("stats %v, %v", stats, err)
	}
	if err := db.DropTable("t"); err != nil {
		t.Error(err)
	}
	if names, err := db.Tables(); err != nil || strings.Join(names, ",") != "" {
		t.Errorf("tables %v, %v", names, err)
	}
	expect(t, db.DropTable("t"), pando.ErrMissing)
}

func TestEntriesExpireAtTimesOfTheirOwn(t *testing.T) {
	db, plain := inMemory(t)
	cache, err := db.TableWith("cache", pando.TableOptions{TTLByKey: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.TableWith("cache", pando.TableOptions{TTL: time.Minute})
	expect(t, err, pando.ErrMismatch)
	k, short, absent := []byte("k"), []byte("short"), []byte("absent")
	within := func(what string, ttl time.Duration, err error, low, high time.Duration) {
		t.Helper()
		if err != nil || ttl < low || ttl > high {
			t.Errorf("%s lives for %v (%v), not %v to %v", what, ttl, err, low, high)
		}
	}
	if err := db.PutWithTTL(cache, k, []byte("v"), time.Hour); err != nil {
		t.Fatal(err)
	}
	ttl, err := db.Expiry(cache, k)
	within("k", ttl, err, time.Minute, time.Hour)
	_, err = db.Expiry(cache, absent)
	expect(t, err, pando.ErrNotFound)
	_, err = db.Expiry(plain, k)
	expect(t, err, pando.ErrInvalid)
	err = db.View(func(s *pando.Snapshot) error {
		err := db.Update(func(tx *pando.Tx) error {
			expect(t, tx.SetExpiry(cache, absent, time.Second), pando.ErrNotFound)
			expect(t, tx.PutWithTTL(plain, k, k, time.Second), pando.ErrInvalid)
			expect(t, tx.PutWithTTL(plain, k, k, pando.Never), pando.ErrInvalid)
			expect(t, tx.PutWithTTL(cache, k, k, 0), pando.ErrInvalid)
			err := errors.Join(
				tx.PutWithTTL(cache, short, k, time.Millisecond),
				tx.SetExpiry(cache, k, pando.Never))
			ttl, expiryErr := tx.Expiry(cache, k)
			within("k in the transaction", ttl, expiryErr, pando.Never, pando.Never)
			return err
		})
		ttl, expiryErr := s.Expiry(cache, k)
		within("k in the snapshot", ttl, expiryErr, time.Minute, time.Hour)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if _, err := db.Get(cache, short); !errors.Is(err, pando.ErrNotFound) {
		t.Errorf("an entry that has expired gives %v", err)
	}
	ttl, err = db.Expiry(cache, k)
	within("k in the end", ttl, err, pando.Never, pando.Never)
}

// A transaction that takes longer than another goroutine's puts gets its turn.
func TestUpdateBesideAWriter(t *testing.T) {
	db, table := inMemory(t)
	ended := make(chan struct{})
	var writer sync.WaitGroup
	writer.Add(1)
	go func() {
		defer writer.Done()
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			default:
			}
			if err := db.Put(table, []byte("n"), []byte(strconv.Itoa(i))); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	runs := 0
	err := db.Update(func(tx *pando.Tx) error {
		runs++
		if _, err := tx.Get(table, []byte("n")); err != nil && !errors.Is(err, pando.ErrNotFound) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
		return tx.Put(table, []byte("n"), []byte("read and written"))
	})
	close(ended)
	writer.Wait()
	if err != nil {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

// The work of the last attempts can wait for a commit of another goroutine: it is not held back for long.
func TestUpdateThatWaitsForAnotherCommit(t *testing.T) {
	db, table := inMemory(t)
	runs := 0
	err := db.Update(func(tx *pando.Tx) error {
		runs++
		if _, err := tx.Get(table, []byte("n")); err != nil && !errors.Is(err, pando.ErrNotFound) {
			return err
		}
		done := make(chan error)
		go func() { done <- db.Put(table, []byte("n"), []byte(strconv.Itoa(runs))) }()
		if err := <-done; err != nil {
			return err
		}
		return tx.Put(table, []byte("n"), nil)
	})
	if !errors.Is(err, pando.ErrConflict) || runs != 24 {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	for range 3 {
		path := filepath.Join(t.TempDir(), "db")
		db, err := pando.Open(path, &pando.Options{Durability: pando.Lazy})
		if err != nil {
			t.Fatal(err)
		}
		table, err := db.Table("t")
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *pando.Tx) error {
			for i := range 20_000 {
				if err := tx.Put(table, []byte(strconv.Itoa(i)), make([]byte, 200)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		first := make(chan error)
		go func() { first <- db.Close() }()
		for err == nil {
			_, err = db.Get(table, []byte("0"))
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		again, err := pando.Open(path, &pando.Options{MustExist: true})
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
		if err := <-first; err != nil {
			t.Error(err)
		}
	}
}

func TestKeysOnly(t *testing.T) {
	db, table := inMemory(t)
	err := db.Update(func(tx *pando.Tx) error {
		for _, key := range []string{"a", "b", "c"} {
			if err := tx.Put(table, []byte(key), []byte("value")); err != nil {
				return err
			}
		}
		keys := ""
		for record, err := range tx.Scan(table, pando.Range{Start: []byte("b"), Reverse: true, KeysOnly: true}) {
			if err != nil || record.Value != nil {
				t.Errorf("%q: %v", record, err)
			}
			keys += string(record.Key)
		}
		if keys != "cb" {
			t.Error(keys)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
