package pando

// #include <pando.h>
import "C"

import (
	"iter"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// Tx is a read-write transaction. It lives as long as the function that [DB.Update] runs, and only one goroutine at a
// time can use it.
type Tx struct {
	handle *C.pando_tx
	// The values that are being written, which other goroutines can end.
	mutex   sync.Mutex
	writers []*ValueWriter
}

func (db *DB) begin(options TxOptions) (*Tx, error) {
	var handle *C.pando_tx
	err := db.do(func(db *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_tx_begin(db, C.int(options.Durability), C.int(options.Isolation), &handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return &Tx{handle: handle}, nil
}

func (tx *Tx) commit() error {
	_, err := call(func(failure **C.pando_error) C.pando_code { return C.pando_tx_commit(tx.handle, nil, failure) })
	return err
}

// end rolls back what was not committed. Later calls fail.
func (tx *Tx) end() {
	tx.mutex.Lock()
	writers := tx.writers
	tx.writers = nil
	C.pando_tx_free(tx.handle)
	tx.handle = nil
	tx.mutex.Unlock()
	for _, writer := range writers {
		writer.Abandon()
	}
}

// forget removes a writer that has ended.
func (tx *Tx) forget(writer *ValueWriter) {
	tx.mutex.Lock()
	defer tx.mutex.Unlock()
	tx.writers = slices.DeleteFunc(tx.writers, func(known *ValueWriter) bool { return known == writer })
}

// Get returns the value of key in the transaction, its own writes included, or ErrNotFound.
func (tx *Tx) Get(table *Table, key []byte) ([]byte, error) {
	if tx.handle == nil {
		return nil, closed("the transaction")
	}
	defer runtime.KeepAlive(table)
	return getWith(func(value *unsafe.Pointer, length *C.size_t, failure **C.pando_error) C.pando_code {
		return C.pando_tx_get(tx.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), value, length, failure)
	})
}

// Has returns whether key exists in the transaction, its own writes included.
func (tx *Tx) Has(table *Table, key []byte) (bool, error) {
	if tx.handle == nil {
		return false, closed("the transaction")
	}
	defer runtime.KeepAlive(table)
	return has(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_exists(tx.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), failure)
	})
}

// MultiGet returns the values of keys in the transaction, its own writes included, in their order; nil for those that do not exist.
func (tx *Tx) MultiGet(table *Table, keys ...[]byte) ([][]byte, error) {
	if tx.handle == nil {
		return nil, closed("the transaction")
	}
	defer runtime.KeepAlive(table)
	return multiGet(keys, func(keys *C.pando_bytes, count C.size_t, values *C.pando_bytes, block *unsafe.Pointer,
		failure **C.pando_error) C.pando_code {
		return C.pando_tx_multi_get(tx.handle, table.ptr(), keys, count, values, block, failure)
	})
}

// Scan yields the records of a range in the transaction, its own writes included, in the order of their keys. After an error it yields nothing more.
func (tx *Tx) Scan(table *Table, keys Range) iter.Seq2[Record, error] {
	if tx.handle == nil {
		return func(yield func(Record, error) bool) { yield(Record{}, closed("the transaction")) }
	}
	return scan(keys, func(keys *C.pando_range, cursor **C.pando_cursor, failure **C.pando_error) C.pando_code {
		defer runtime.KeepAlive(table)
		return C.pando_tx_cursor(tx.handle, table.ptr(), keys, cursor, failure)
	})
}

// Put sets key to value.
func (tx *Tx) Put(table *Table, key, value []byte) error {
	if tx.handle == nil {
		return closed("the transaction")
	}
	defer runtime.KeepAlive(table)
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_put(tx.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)),
			unsafe.Pointer(&filled(value)[0]), C.size_t(len(value)), failure)
	})
	return err
}

// Insert sets key to value if the key does not exist. It fails with ErrExists if it does; the transaction goes on.
func (tx *Tx) Insert(table *Table, key, value []byte) error {
	if tx.handle == nil {
		return closed("the transaction")
	}
	defer runtime.KeepAlive(table)
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_insert(tx.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)),
			unsafe.Pointer(&filled(value)[0]), C.size_t(len(value)), failure)
	})
	return err
}

// Delete deletes key, whether or not it exists.
func (tx *Tx) Delete(table *Table, key []byte) error {
	if tx.handle == nil {
		return closed("the transaction")
	}
	defer runtime.KeepAlive(table)
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_delete(tx.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), failure)
	})
	return err
}

// DeleteRange deletes every key of a range without reading it.
func (tx *Tx) DeleteRange(table *Table, keys Range) error {
	if tx.handle == nil {
		return closed("the transaction")
	}
	defer runtime.KeepAlive(table)
	var pins pinned
	defer pins.Unpin()
	bounds := pins.bounds(keys)
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_delete_range(tx.handle, table.ptr(), bounds, failure)
	})
	return err
}

// Savepoint runs work, and undoes only its writes if it returns an error or panics. It returns the error of work.
func (tx *Tx) Savepoint(work func() error) (err error) {
	if tx.handle == nil {
		return closed("the transaction")
	}
	var number C.uint64_t
	_, err = call(func(failure **C.pando_error) C.pando_code { return C.pando_tx_savepoint(tx.handle, &number, failure) })
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			C.pando_tx_rollback_to(tx.handle, number, nil)
		}
		C.pando_tx_release(tx.handle, number, nil)
	}()
	err = work()
	done = err == nil
	return err
}
