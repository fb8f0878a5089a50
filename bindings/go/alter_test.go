package pando_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pando-db/pando/bindings/go"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTablesChangeTheirNamesAndOptions(t *testing.T) {
	db, _ := inMemory(t)
	table, err := db.TableWith("old", pando.TableOptions{TTL: time.Minute})
	ok(t, err)
	ok(t, db.Put(table, []byte("k"), []byte("v")))
	wanted := pando.TableOptions{Layout: pando.LSM, LZ4: true, TTL: time.Hour}
	_, err = db.TableWith("old", wanted)
	expect(t, err, pando.ErrMismatch)
	if !strings.Contains(err.Error(), "change the layout of the table") || strings.Contains(err.Error(), "set_") {
		t.Errorf("the error names no operation, or one that Go lacks: %v", err)
	}
	ok(t, db.SetLayout("old", pando.LSM))
	ok(t, db.SetLZ4("old", true))
	ok(t, db.SetTTL("old", time.Hour))
	again, err := db.TableWith("old", wanted)
	ok(t, err)
	if again.Layout() != pando.LSM {
		t.Error("the table is a B+tree")
	}
	ok(t, db.SetLZ4("old", false))
	_, err = db.TableWith("old", wanted)
	expect(t, err, pando.ErrMismatch)
	ok(t, db.SetTTL("old", pando.Never))
	_, err = db.TableWith("old", pando.TableOptions{Layout: pando.LSM})
	ok(t, err)
	expect(t, db.SetLayout("old", pando.DefaultLayout), pando.ErrInvalid)
	expect(t, db.SetTTL("old", time.Nanosecond), pando.ErrInvalid)
	expect(t, db.SetTTL("none", time.Hour), pando.ErrMissing)
	ok(t, db.RenameTable("old", "new"))
	expect(t, db.Put(table, []byte("k"), []byte("v")), pando.ErrMissing)
	renamed, err := db.OpenTable("new")
	ok(t, err)
	value, err := db.Get(renamed, []byte("k"))
	if err != nil || string(value) != "v" {
		t.Errorf("%q, %v", value, err)
	}
	expect(t, db.RenameTable("none", "x"), pando.ErrMissing)
	expect(t, db.RenameTable("new", "t"), pando.ErrExists)
	expect(t, db.RenameTable("new", "a\x00b"), pando.ErrInvalid)
}

func TestATransactionCreatesAndDropsTables(t *testing.T) {
	db, table := inMemory(t)
	var number uint64
	ok(t, db.UpdateWith(pando.TxOptions{CommitNumber: &number}, func(tx *pando.Tx) error {
		made, err := tx.CreateTable("made", pando.TableOptions{Layout: pando.LSM})
		ok(t, err)
		ok(t, tx.Put(made, []byte("k"), []byte("v")))
		_, err = tx.CreateTable("made", pando.TableOptions{})
		expect(t, err, pando.ErrExists)
		return tx.DropTable(table)
	}))
	snapshot, err := db.Snapshot()
	ok(t, err)
	defer snapshot.Close()
	if seen, err := snapshot.CommitNumber(); err != nil || seen != number || number == 0 {
		t.Errorf("commit %d, and the snapshot sees %d: %v", number, seen, err)
	}
	names, err := db.Tables()
	if err != nil || len(names) != 1 || names[0] != "made" {
		t.Errorf("%v, %v", names, err)
	}
}

func TestADatabaseIsCompactedAndKnowsItsOldestChange(t *testing.T) {
	db, _ := inMemory(t)
	if oldest, err := db.OldestChange(); err != nil || oldest != 0 {
		t.Errorf("%d, %v", oldest, err)
	}
	ok(t, db.Checkpoint())
	if oldest, err := db.OldestChange(); err != nil || oldest != 1 {
		t.Errorf("%d, %v", oldest, err)
	}
	ok(t, db.Compact())
	if db.IsReadOnly() {
		t.Error("the database is read-only")
	}
	ok(t, db.Close())
	expect(t, db.Compact(), pando.ErrClosed)
}
