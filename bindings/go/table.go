package pando

// #include <pando.h>
import "C"

import (
	"runtime"
	"time"
	"unsafe"
)

// Layout says how a table is stored.
type Layout int

// The layouts.
const (
	// DefaultLayout is BTree for a new table, and any for one that exists.
	DefaultLayout Layout = C.PANDO_DEFAULT
	// BTree is one B+tree, for fast reads and scans.
	BTree Layout = C.PANDO_BTREE
	// LSM is a log-structured merge tree, for writes far larger than memory.
	LSM Layout = C.PANDO_LSM
)

// TableOptions are those of a new table. The zero value means a B+tree whose entries do not expire.
type TableOptions struct {
	Layout Layout
	// LZ4 compresses the pages of an LSM table.
	LZ4 bool
	// TTL is how long entries live, in whole milliseconds from 1 on; 0 and Never mean forever.
	TTL time.Duration
	// TTLByKey lets each entry expire at a time of its own, which PutWithTTL sets. TTL is then without effect.
	TTLByKey bool
}

func (o TableOptions) toC() (layout, compression C.int, ttl C.uint64_t, err error) {
	if o.LZ4 {
		compression = C.PANDO_LZ4
	}
	if o.TTLByKey {
		return C.int(o.Layout), compression, C.PANDO_TTL_BY_KEY, nil
	}
	if o.TTL != 0 && o.TTL != Never {
		ttl, err = ttlMs("TTL", o.TTL)
	}
	return C.int(o.Layout), compression, ttl, err
}

// Table is a handle on a table. Any number of goroutines can use it. It is valid until the table is dropped.
type Table struct{ handle *C.pando_table }

func newTable(handle *C.pando_table) *Table {
	table := &Table{handle}
	runtime.SetFinalizer(table, func(table *Table) { C.pando_table_free(table.handle) })
	return table
}

// ptr is the handle of C; of no table it is NULL, which C refuses.
func (t *Table) ptr() *C.pando_table {
	if t == nil {
		return nil
	}
	return t.handle
}

// Name returns the name of the table.
func (t *Table) Name() string {
	defer runtime.KeepAlive(t)
	return C.GoString(C.pando_table_name(t.ptr()))
}

// Layout returns the layout that the table had when the handle was made.
func (t *Table) Layout() Layout {
	defer runtime.KeepAlive(t)
	return Layout(C.pando_table_layout(t.ptr()))
}

// Table opens the table name, or creates it with default options.
func (db *DB) Table(name string) (*Table, error) { return db.TableWith(name, TableOptions{}) }

// TableWith opens the table name, or creates it with options. It fails with ErrMismatch if the table has other ones.
func (db *DB) TableWith(name string, options TableOptions) (*Table, error) {
	layout, compression, ttl, err := options.toC()
	if err != nil {
		return nil, err
	}
	var handle *C.pando_table
	err = db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_table_ensure(db, name, layout, compression, ttl, &handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return newTable(handle), nil
}

// OpenTable opens the table name. It fails with ErrMissing if there is none.
func (db *DB) OpenTable(name string) (*Table, error) {
	var handle *C.pando_table
	err := db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_table_open(db, name, &handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return newTable(handle), nil
}

// DropTable drops the table name and everything in it. It fails with ErrMissing if there is none.
func (db *DB) DropTable(name string) error {
	return db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_table_drop(db, name, failure)
	})
}

// Tables returns the names of all tables, in order.
func (db *DB) Tables() ([]string, error) {
	var list **C.char
	var count C.size_t
	err := db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_table_list(handle, &list, &count, failure)
	})
	if err != nil {
		return nil, err
	}
	defer C.pando_free(unsafe.Pointer(list))
	names := make([]string, 0, int(count))
	for _, name := range unsafe.Slice(list, int(count)) {
		names = append(names, C.GoString(name))
	}
	return names, nil
}
