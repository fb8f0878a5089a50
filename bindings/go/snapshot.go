package pando

// #include <pando.h>
import "C"

import (
	"iter"
	"runtime"
	"unsafe"
)

// Snapshot is a read-only view of one moment. One goroutine at a time can use it.
type Snapshot struct{ handle *C.pando_snapshot }

// Snapshot takes a snapshot of everything that was acknowledged so far. Close it, so that what it sees can be freed.
func (db *DB) Snapshot() (*Snapshot, error) {
	var handle *C.pando_snapshot
	err := db.do(func(db *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_take(db, &handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return &Snapshot{handle}, nil
}

// Close ends the snapshot. Later calls fail. A second call has no effect.
func (s *Snapshot) Close() {
	C.pando_snapshot_free(s.handle)
	s.handle = nil
}

// CommitNumber returns the number of the last commit that the snapshot sees.
func (s *Snapshot) CommitNumber() (uint64, error) {
	if s.handle == nil {
		return 0, closed("the snapshot")
	}
	var number C.uint64_t
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_commit_number(s.handle, &number, failure)
	})
	return uint64(number), err
}

// Get returns the value of key in the snapshot, or ErrNotFound.
func (s *Snapshot) Get(table *Table, key []byte) ([]byte, error) {
	if s.handle == nil {
		return nil, closed("the snapshot")
	}
	defer runtime.KeepAlive(table)
	return getWith(func(value *unsafe.Pointer, length *C.size_t, failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_get(s.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), value, length, failure)
	})
}

// Has returns whether key exists in the snapshot.
func (s *Snapshot) Has(table *Table, key []byte) (bool, error) {
	if s.handle == nil {
		return false, closed("the snapshot")
	}
	defer runtime.KeepAlive(table)
	return has(func(failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_exists(s.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), failure)
	})
}

// MultiGet returns the values of keys in the snapshot in their order; nil for those that do not exist.
func (s *Snapshot) MultiGet(table *Table, keys ...[]byte) ([][]byte, error) {
	if s.handle == nil {
		return nil, closed("the snapshot")
	}
	defer runtime.KeepAlive(table)
	return multiGet(keys, func(keys *C.pando_bytes, count C.size_t, values *C.pando_bytes, block *unsafe.Pointer,
		failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_multi_get(s.handle, table.ptr(), keys, count, values, block, failure)
	})
}

// Scan yields the records of a range in the snapshot in the order of their keys. After an error it yields nothing more.
func (s *Snapshot) Scan(table *Table, keys Range) iter.Seq2[Record, error] {
	if s.handle == nil {
		return func(yield func(Record, error) bool) { yield(Record{}, closed("the snapshot")) }
	}
	return scan(keys, func(keys *C.pando_range, cursor **C.pando_cursor, failure **C.pando_error) C.pando_code {
		defer runtime.KeepAlive(table)
		return C.pando_snapshot_cursor(s.handle, table.ptr(), keys, cursor, failure)
	})
}
