package pandotest_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/pando-db/pando/bindings/go"
	"github.com/pando-db/pando/bindings/go/pandotest"
)

const seeds = 8

func TestModel(t *testing.T) {
	for seed := range uint64(seeds) {
		if err := pandotest.TestDatabase(&pandotest.Model{}, seed); err != nil {
			t.Error(err)
		}
	}
}

// database is a pando.DB with tables by name.
type database struct {
	db     *pando.DB
	tables map[string]*pando.Table
}

type reader struct {
	pando.Reader
	of *database
}

type writer struct {
	reader
	tx *pando.Tx
}

func (d *database) Update(work func(pandotest.Writer) error) error {
	return d.db.Update(func(tx *pando.Tx) error { return work(writer{reader{tx, d}, tx}) })
}

func (d *database) View(work func(pandotest.Reader) error) error {
	return d.db.View(func(s *pando.Snapshot) error { return work(reader{s, d}) })
}

func (r reader) Get(table string, key []byte) ([]byte, error) {
	return r.Reader.Get(r.of.tables[table], key)
}

func (r reader) Scan(table string, keys pando.Range) iter.Seq2[pando.Record, error] {
	return r.Reader.Scan(r.of.tables[table], keys)
}

func (w writer) Put(table string, key, value []byte) error {
	return w.tx.Put(w.of.tables[table], key, value)
}

func (w writer) Insert(table string, key, value []byte) error {
	return w.tx.Insert(w.of.tables[table], key, value)
}

func (w writer) Delete(table string, key []byte) error { return w.tx.Delete(w.of.tables[table], key) }

func (w writer) DeleteRange(table string, keys pando.Range) error {
	return w.tx.DeleteRange(w.of.tables[table], keys)
}

func (w writer) Savepoint(work func() error) error { return w.tx.Savepoint(work) }

func TestPando(t *testing.T) {
	for _, layout := range []pando.Layout{pando.BTree, pando.LSM} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("layout %d, seed %d", layout, seed), func(t *testing.T) {
				db, err := pando.OpenMemory(nil)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				tables := map[string]*pando.Table{}
				for _, name := range []string{"a", "b"} {
					if tables[name], err = db.TableWith(name, pando.TableOptions{Layout: layout}); err != nil {
						t.Fatal(err)
					}
				}
				if err := pandotest.TestDatabase(&database{db, tables}, seed); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// broken is a model with a fault, which the suite must find.
type broken struct {
	pandotest.Model
	fault string
}

type brokenWriter struct {
	pandotest.Writer
	fault string
}

func (b *broken) Update(work func(pandotest.Writer) error) error {
	var hidden error
	err := b.Model.Update(func(w pandotest.Writer) error {
		err := work(brokenWriter{w, b.fault})
		if b.fault == "keeps what is rolled back" {
			hidden = err
			return nil
		}
		return err
	})
	return errors.Join(err, hidden)
}

func (b brokenWriter) Scan(table string, keys pando.Range) iter.Seq2[pando.Record, error] {
	switch b.fault {
	case "takes the end in":
		if len(keys.End) > 0 {
			keys.End = append(append([]byte(nil), keys.End...), 0)
		}
	case "ignores the direction":
		keys.Reverse = false
	}
	return b.Writer.Scan(table, keys)
}

func (b brokenWriter) Insert(table string, key, value []byte) error {
	if b.fault == "overwrites" {
		return b.Writer.Put(table, key, value)
	}
	return b.Writer.Insert(table, key, value)
}

func (b brokenWriter) Savepoint(work func() error) error {
	if b.fault == "has no savepoints" {
		return work()
	}
	return b.Writer.Savepoint(work)
}

func (b brokenWriter) DeleteRange(table string, keys pando.Range) error {
	if b.fault == "deletes too much" {
		keys.Start = nil
	}
	return b.Writer.DeleteRange(table, keys)
}

func TestFaultsAreFound(t *testing.T) {
	for _, fault := range []string{"keeps what is rolled back", "takes the end in", "ignores the direction", "overwrites",
		"has no savepoints", "deletes too much"} {
		if err := pandotest.TestDatabase(&broken{fault: fault}, 1); err == nil {
			t.Errorf("a database that %s passes", fault)
		}
	}
}
