package pando

// #include <pando.h>
import "C"

import (
	"runtime"
	"time"
)

// RenameTable renames a table. Handles on it fail with ErrMissing from then on: open it by its new name. It fails with
// ErrMissing if there is no table name, and with ErrExists if there is a table newName.
func (db *DB) RenameTable(name, newName string) error {
	cName, free, err := cString("the new name", newName)
	if err != nil {
		return err
	}
	defer free()
	return db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_table_rename(db, name, cName, failure)
	})
}

// SetLayout changes the layout of a table while it is in use: new entries are written in the new layout, and a thread
// rewrites the existing ones. Handles remain valid.
func (db *DB) SetLayout(name string, layout Layout) error {
	return db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_table_set_layout(db, name, C.int(layout), failure)
	})
}

// SetLZ4 changes whether the pages of an LSM table that are written from now on are compressed. Handles remain valid. It
// fails with ErrInvalid if the table is a B+tree.
func (db *DB) SetLZ4(name string, lz4 bool) error {
	compression := C.int(C.PANDO_UNCOMPRESSED)
	if lz4 {
		compression = C.PANDO_LZ4
	}
	return db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_table_set_compression(db, name, compression, failure)
	})
}

// SetTTL changes how long entries of a table live after their put, also of entries that exist; 0 and Never mean forever.
// Handles remain valid. It fails with ErrInvalid if the table has TTLByKey, or was created without a TTL and has been
// written to.
func (db *DB) SetTTL(name string, ttl time.Duration) error {
	_, _, ms, err := TableOptions{TTL: ttl}.toC()
	if err != nil {
		return err
	}
	return db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_table_set_ttl(db, name, ms, failure)
	})
}

// CreateTable creates a table together with the transaction's other changes. It fails with ErrExists if there is one of
// this name.
func (tx *Tx) CreateTable(name string, options TableOptions) (*Table, error) {
	layout, compression, ttl, err := options.toC()
	if err != nil {
		return nil, err
	}
	cName, free, err := cString("the name", name)
	if err != nil {
		return nil, err
	}
	defer free()
	handle, err := tx.enter()
	if err != nil {
		return nil, err
	}
	defer tx.leave()
	var table *C.pando_table
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_table_create(handle, cName, layout, compression, ttl, &table, failure)
	})
	if err != nil {
		return nil, err
	}
	return newTable(table), nil
}

// DropTable drops a table, and everything in it, together with the transaction's other changes.
func (tx *Tx) DropTable(table *Table) error {
	handle, err := tx.enter()
	if err != nil {
		return err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_table_drop(handle, table.ptr(), failure)
	})
	return err
}
