package pando

// #include <pando.h>
import "C"

import (
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// Tx is a read-write transaction. It lives as long as the function that [DB.Update] runs, and only one goroutine at a
// time can use it.
type Tx struct {
	guarded[*C.pando_tx]
	// The values that are being written, and what guards the list.
	list    sync.Mutex
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
	return &Tx{guarded: guarded[*C.pando_tx]{handle: handle, name: "the transaction"}}, nil
}

// commit waits for the calls of goroutines that still use the transaction.
func (tx *Tx) commit(turn *turn) (uint64, error) {
	handle, err := tx.enterAlone()
	if err != nil {
		return 0, err
	}
	defer tx.leaveAlone()
	var number C.uint64_t
	_, err = call(func(failure **C.pando_error) C.pando_code { return turn.commit(handle, &number, failure) })
	return uint64(number), err
}

// finish rolls back what was not committed. Later calls fail.
func (tx *Tx) finish() {
	tx.end(func(handle *C.pando_tx) { C.pando_tx_free(handle) })
	tx.list.Lock()
	writers := tx.writers
	tx.writers = nil
	tx.list.Unlock()
	for _, writer := range writers {
		writer.Abandon()
	}
}

// forget removes a writer that has ended.
func (tx *Tx) forget(writer *ValueWriter) {
	tx.list.Lock()
	defer tx.list.Unlock()
	tx.writers = slices.DeleteFunc(tx.writers, func(known *ValueWriter) bool { return known == writer })
}

// Get returns the value of key in the transaction, its own writes included, or ErrNotFound.
func (tx *Tx) Get(table *Table, key []byte) ([]byte, error) {
	handle, err := tx.enter()
	if err != nil {
		return nil, err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	return getWith(func(value *unsafe.Pointer, length *C.size_t, failure **C.pando_error) C.pando_code {
		return C.pando_tx_get(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), value, length, failure)
	})
}

// Has returns whether key exists in the transaction, its own writes included.
func (tx *Tx) Has(table *Table, key []byte) (bool, error) {
	handle, err := tx.enter()
	if err != nil {
		return false, err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	return has(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_exists(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), failure)
	})
}

// MultiGet returns the values of keys in the transaction, its own writes included, in their order; nil for those that do not exist.
func (tx *Tx) MultiGet(table *Table, keys ...[]byte) ([][]byte, error) {
	handle, err := tx.enter()
	if err != nil {
		return nil, err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	return multiGet(keys, func(keys *C.pando_bytes, count C.size_t, values *C.pando_bytes, block *unsafe.Pointer,
		failure **C.pando_error) C.pando_code {
		return C.pando_tx_multi_get(handle, table.ptr(), keys, count, values, block, failure)
	})
}

// Scan yields the records of a range in the transaction, its own writes included, in the order of their keys. After an error it yields nothing more.
func (tx *Tx) Scan(table *Table, keys Range) iter.Seq2[Record, error] {
	return scan(&tx.guarded, keys, func(tx *C.pando_tx, keys *C.pando_range, cursor **C.pando_cursor,
		failure **C.pando_error) C.pando_code {
		defer runtime.KeepAlive(table)
		return C.pando_tx_cursor(tx, table.ptr(), keys, cursor, failure)
	})
}

// Put sets key to value.
func (tx *Tx) Put(table *Table, key, value []byte) error {
	handle, err := tx.enter()
	if err != nil {
		return err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_put(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)),
			unsafe.Pointer(&filled(value)[0]), C.size_t(len(value)), failure)
	})
	return err
}

// Insert sets key to value if the key does not exist. It fails with ErrExists if it does; the transaction goes on.
func (tx *Tx) Insert(table *Table, key, value []byte) error {
	handle, err := tx.enter()
	if err != nil {
		return err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_insert(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)),
			unsafe.Pointer(&filled(value)[0]), C.size_t(len(value)), failure)
	})
	return err
}

// Delete deletes key, whether or not it exists.
func (tx *Tx) Delete(table *Table, key []byte) error {
	handle, err := tx.enter()
	if err != nil {
		return err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_delete(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), failure)
	})
	return err
}

// DeleteRange deletes every key of a range without reading it.
func (tx *Tx) DeleteRange(table *Table, keys Range) error {
	handle, err := tx.enter()
	if err != nil {
		return err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	var pins pinned
	defer pins.Unpin()
	bounds := pins.bounds(keys)
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_delete_range(handle, table.ptr(), bounds, failure)
	})
	return err
}

// Savepoint runs work, and undoes only its writes if it returns an error or panics. It returns the error of work.
func (tx *Tx) Savepoint(work func() error) (err error) {
	number, err := tx.savepoint()
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if failed := tx.endSavepoint(number, done); failed != nil && !errors.Is(failed, ErrClosed) {
			err = errors.Join(err, failed)
		}
	}()
	err = work()
	done = err == nil
	return err
}

func (tx *Tx) savepoint() (number C.uint64_t, err error) {
	handle, err := tx.enter()
	if err != nil {
		return 0, err
	}
	defer tx.leave()
	_, err = call(func(failure **C.pando_error) C.pando_code { return C.pando_tx_savepoint(handle, &number, failure) })
	return number, err
}

// endSavepoint keeps the writes since a savepoint, or undoes them. It waits for other calls: a refusal because of one
// would keep what was to be undone.
func (tx *Tx) endSavepoint(number C.uint64_t, keep bool) error {
	handle, err := tx.enterAlone()
	if err != nil {
		return err
	}
	defer tx.leaveAlone()
	if !keep {
		_, err = call(func(failure **C.pando_error) C.pando_code {
			return C.pando_tx_rollback_to(handle, number, failure)
		})
		if err != nil {
			return err
		}
	}
	_, err = call(func(failure **C.pando_error) C.pando_code { return C.pando_tx_release(handle, number, failure) })
	return err
}
