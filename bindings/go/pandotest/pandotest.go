// Package pandotest tests databases that behave as those of package pando do, as testing/fstest does for file systems.
// [Model] is such a database, too: a small one in memory, to test programs with.
package pandotest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sort"

	"github.com/pando-db/pando/bindings/go"
)

// Reader reads tables by their names.
type Reader interface {
	// Get returns the value of key, or an error that is pando.ErrNotFound.
	Get(table string, key []byte) ([]byte, error)
	// Scan yields the records of a range in the order of their keys.
	Scan(table string, keys pando.Range) iter.Seq2[pando.Record, error]
}

// Writer reads and writes tables by their names.
type Writer interface {
	Reader
	Put(table string, key, value []byte) error
	// Insert fails with pando.ErrExists if key exists, and changes nothing then.
	Insert(table string, key, value []byte) error
	Delete(table string, key []byte) error
	DeleteRange(table string, keys pando.Range) error
	// Savepoint runs work, and undoes only its writes if it returns an error.
	Savepoint(work func() error) error
}

// Database is what is tested. Its tables "a" and "b" exist and are empty.
type Database interface {
	// Update runs work in a transaction, again after each conflict, and commits it unless work returns an error.
	Update(work func(Writer) error) error
	// View runs work with one moment.
	View(work func(Reader) error) error
}

// errPlanned is what the work of a test returns to be rolled back.
var errPlanned = errors.New("planned")

// TestDatabase tests db, which it fills. It returns nil, or what is wrong. seed chooses what the random part does.
func TestDatabase(db Database, seed uint64) error {
	tests := []struct {
		name string
		test func(Database) error
	}{
		{"absent keys", testAbsent},
		{"bytes of the caller", testOwnership},
		{"rollback", testRollback},
		{"savepoints", testSavepoints},
		{"ranges", testRanges},
		{"snapshots", testSnapshots},
		{"random work", func(db Database) error { return testRandom(db, seed) }},
	}
	for _, one := range tests {
		if err := one.test(db); err != nil {
			return fmt.Errorf("%s (seed %d): %w", one.name, seed, err)
		}
		if err := db.Update(clear); err != nil {
			return err
		}
	}
	return nil
}

func clear(w Writer) error {
	return errors.Join(w.DeleteRange("a", pando.Range{}), w.DeleteRange("b", pando.Range{}))
}

// keysOf lists the keys of a range, with a comma between them.
func keysOf(r Reader, table string, keys pando.Range) (string, error) {
	var found [][]byte
	for record, err := range r.Scan(table, keys) {
		if err != nil {
			return "", err
		}
		found = append(found, record.Key)
	}
	return string(bytes.Join(found, []byte(","))), nil
}

func expectKeys(r Reader, keys pando.Range, wanted string) error {
	found, err := keysOf(r, "a", keys)
	if err == nil && found != wanted {
		err = fmt.Errorf("keys %q of %+v, instead of %q", found, keys, wanted)
	}
	return err
}

func expectValue(r Reader, key, wanted string) error {
	value, err := r.Get("a", []byte(key))
	if err == nil && string(value) != wanted {
		err = fmt.Errorf("key %q has value %q instead of %q", key, value, wanted)
	}
	return err
}

func testAbsent(db Database) error {
	return db.Update(func(w Writer) error {
		if value, err := w.Get("a", []byte("none")); !errors.Is(err, pando.ErrNotFound) || value != nil {
			return fmt.Errorf("an absent key has value %q, error %v", value, err)
		}
		if err := w.Delete("a", []byte("none")); err != nil {
			return fmt.Errorf("deleting an absent key: %w", err)
		}
		if err := errors.Join(w.Put("a", nil, nil), expectValue(w, "", "")); err != nil {
			return fmt.Errorf("the empty key with the empty value: %w", err)
		}
		if err := w.Insert("a", nil, []byte("x")); !errors.Is(err, pando.ErrExists) {
			return fmt.Errorf("inserting a key that exists: %v", err)
		}
		return expectValue(w, "", "")
	})
}

// What is passed in and what is returned belong to the caller.
func testOwnership(db Database) error {
	return db.Update(func(w Writer) error {
		key, value := []byte("key"), []byte("value")
		if err := w.Put("a", key, value); err != nil {
			return err
		}
		key[0], value[0] = 'X', 'X'
		found, err := w.Get("a", []byte("key"))
		if err != nil {
			return err
		}
		found[0] = 'Y'
		for record, err := range w.Scan("a", pando.Range{}) {
			if err != nil {
				return err
			}
			record.Key[0], record.Value[0] = 'Z', 'Z'
		}
		return errors.Join(expectValue(w, "key", "value"), expectKeys(w, pando.Range{}, "key"))
	})
}

func testRollback(db Database) error {
	err := db.Update(func(w Writer) error {
		return errors.Join(w.Put("a", []byte("k"), nil), w.Put("b", []byte("k"), nil), errPlanned)
	})
	if !errors.Is(err, errPlanned) {
		return fmt.Errorf("Update returned %v instead of the error of its function", err)
	}
	return db.View(func(r Reader) error {
		if _, err := r.Get("b", []byte("k")); !errors.Is(err, pando.ErrNotFound) {
			return fmt.Errorf("what was rolled back is there: %v", err)
		}
		return expectKeys(r, pando.Range{}, "")
	})
}

func testSavepoints(db Database) error {
	return db.Update(func(w Writer) error {
		err := errors.Join(w.Put("a", []byte("a"), []byte("1")), w.Savepoint(func() error {
			inner := w.Savepoint(func() error {
				return errors.Join(w.Put("a", []byte("b"), nil), w.DeleteRange("a", pando.Range{}), errPlanned)
			})
			if !errors.Is(inner, errPlanned) {
				return fmt.Errorf("Savepoint returned %v instead of the error of its function", inner)
			}
			return w.Put("a", []byte("c"), nil)
		}))
		return errors.Join(err, expectKeys(w, pando.Range{}, "a,c"), expectValue(w, "a", "1"))
	})
}

func testRanges(db Database) error {
	b := func(text string) []byte { return []byte(text) }
	return db.Update(func(w Writer) error {
		for _, key := range []string{"b", "a", "ba", "ab", "c", "\xff", "\xff\xff", "b\x00"} {
			if err := w.Put("a", b(key), nil); err != nil {
				return err
			}
		}
		for _, one := range []struct {
			keys   pando.Range
			wanted string
		}{
			{pando.Range{}, "a,ab,b,b\x00,ba,c,\xff,\xff\xff"},
			{pando.Range{Reverse: true}, "\xff\xff,\xff,c,ba,b\x00,b,ab,a"},
			{pando.Range{Start: b("ab"), End: b("c")}, "ab,b,b\x00,ba"},
			{pando.Range{Start: b("ab"), End: b("c"), Reverse: true}, "ba,b\x00,b,ab"},
			{pando.Range{Prefix: b("b")}, "b,b\x00,ba"},
			{pando.Range{Prefix: b("b"), Start: b("b\x00")}, "b\x00,ba"},
			{pando.Range{Prefix: b("\xff")}, "\xff,\xff\xff"},
			{pando.Range{Start: b("d"), End: b("b")}, ""},
			{pando.Range{End: b("")}, ""},
			{pando.Range{Start: b("")}, "a,ab,b,b\x00,ba,c,\xff,\xff\xff"},
		} {
			if err := expectKeys(w, one.keys, one.wanted); err != nil {
				return err
			}
		}
		err := w.DeleteRange("a", pando.Range{Prefix: b("b"), Start: b("b\x00")})
		return errors.Join(err, expectKeys(w, pando.Range{}, "a,ab,b,c,\xff,\xff\xff"))
	})
}

func testSnapshots(db Database) error {
	put := func(value string) error {
		return db.Update(func(w Writer) error { return w.Put("a", []byte("k"), []byte(value)) })
	}
	return errors.Join(put("1"), db.View(func(r Reader) error {
		return errors.Join(put("2"), expectValue(r, "k", "1"), db.View(func(r Reader) error {
			return expectValue(r, "k", "2")
		}))
	}))
}

// testRandom does random work, beside maps that say what must be there.
func testRandom(db Database, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	oracle := map[string]string{}
	for range 60 {
		next := map[string]string{}
		keep := random.IntN(3) > 0
		err := db.Update(func(w Writer) error {
			next = copied(oracle)
			for range random.IntN(40) {
				if err := randomStep(random, w, next); err != nil {
					return err
				}
			}
			if err := same(random, w, next); err != nil || keep {
				return err
			}
			return errPlanned
		})
		if keep {
			oracle = next
		} else if errors.Is(err, errPlanned) {
			err = nil
		}
		if err != nil {
			return err
		}
		if err := db.View(func(r Reader) error { return same(random, r, oracle) }); err != nil {
			return fmt.Errorf("after the transaction: %w", err)
		}
	}
	return nil
}

func copied(oracle map[string]string) map[string]string {
	copied := make(map[string]string, len(oracle))
	for key, value := range oracle {
		copied[key] = value
	}
	return copied
}

func randomKey(random *rand.Rand) string {
	key := make([]byte, random.IntN(4))
	for i := range key {
		key[i] = "\x00az\xff"[random.IntN(4)]
	}
	return string(key)
}

func randomStep(random *rand.Rand, w Writer, oracle map[string]string) error {
	key, value := randomKey(random), fmt.Sprint(random.Uint32())
	switch random.IntN(10) {
	case 0, 1, 2, 3, 4:
		oracle[key] = value
		return w.Put("a", []byte(key), []byte(value))
	case 5, 6:
		_, exists := oracle[key]
		err := w.Insert("a", []byte(key), []byte(value))
		if exists != errors.Is(err, pando.ErrExists) {
			return fmt.Errorf("inserting %q, which exists: %v; error %v", key, exists, err)
		}
		if !exists {
			oracle[key] = value
			return err
		}
		return nil
	case 7, 8:
		delete(oracle, key)
		return w.Delete("a", []byte(key))
	default:
		keys := randomRange(random)
		for _, key := range expected(oracle, keys) {
			delete(oracle, key)
		}
		return w.DeleteRange("a", keys)
	}
}

func randomRange(random *rand.Rand) pando.Range {
	var keys pando.Range
	for _, part := range []*[]byte{&keys.Prefix, &keys.Start, &keys.End} {
		if random.IntN(3) == 0 {
			*part = []byte(randomKey(random))
		}
	}
	keys.Reverse = random.IntN(2) == 0
	return keys
}

// expected lists the keys of a range, in its order.
func expected(oracle map[string]string, keys pando.Range) []string {
	var found []string
	for key := range oracle {
		if bytes.HasPrefix([]byte(key), keys.Prefix) && key >= string(keys.Start) &&
			(keys.End == nil || key < string(keys.End)) {
			found = append(found, key)
		}
	}
	sort.Slice(found, func(i, j int) bool { return (found[i] < found[j]) != keys.Reverse })
	return found
}

// same compares everything, one range, and a few keys with the oracle.
func same(random *rand.Rand, r Reader, oracle map[string]string) error {
	for _, keys := range []pando.Range{{}, randomRange(random)} {
		wanted := expected(oracle, keys)
		at := 0
		for record, err := range r.Scan("a", keys) {
			if err != nil {
				return err
			}
			if at >= len(wanted) || string(record.Key) != wanted[at] || string(record.Value) != oracle[wanted[at]] {
				return fmt.Errorf("range %+v has %q: %q at place %d of %q", keys, record.Key, record.Value, at, wanted)
			}
			at++
		}
		if at != len(wanted) {
			return fmt.Errorf("range %+v ended after %d of %d records", keys, at, len(wanted))
		}
	}
	for range 4 {
		key := randomKey(random)
		value, err := r.Get("a", []byte(key))
		wanted, exists := oracle[key]
		if exists && (err != nil || string(value) != wanted) || !exists && !errors.Is(err, pando.ErrNotFound) {
			return fmt.Errorf("key %q: value %q, error %v; %q was put: %v", key, value, err, wanted, exists)
		}
	}
	return nil
}
