package pando

// #include <pando.h>
import "C"

import (
	"iter"
	"runtime"
	"unsafe"
)

// Snapshot is a read-only view of one moment. One goroutine at a time can use it.
type Snapshot struct{ guarded[*C.pando_snapshot] }

// Snapshot takes a snapshot of everything that was acknowledged so far. Close it, so that what it sees can be freed; a
// snapshot that is forgotten is closed by the garbage collector, which may be late.
func (db *DB) Snapshot() (*Snapshot, error) {
	var handle *C.pando_snapshot
	err := db.do(func(db *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_take(db, &handle, failure)
	})
	if err != nil {
		return nil, err
	}
	snapshot := &Snapshot{guarded[*C.pando_snapshot]{handle: handle, name: "the snapshot"}}
	runtime.SetFinalizer(snapshot, (*Snapshot).Close)
	return snapshot, nil
}

// Close ends the snapshot, after the calls that use it. Later calls fail. A second call has no effect.
func (s *Snapshot) Close() {
	s.end(func(handle *C.pando_snapshot) { C.pando_snapshot_free(handle) })
}

// CommitNumber returns the number of the last commit that the snapshot sees.
func (s *Snapshot) CommitNumber() (uint64, error) {
	handle, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer s.leave()
	var number C.uint64_t
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_commit_number(handle, &number, failure)
	})
	return uint64(number), err
}

// Get returns the value of key in the snapshot, or ErrNotFound.
func (s *Snapshot) Get(table *Table, key []byte) ([]byte, error) {
	handle, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer s.leave()
	defer runtime.KeepAlive(table)
	return getWith(func(value *unsafe.Pointer, length *C.size_t, failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_get(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), value, length, failure)
	})
}

// Has returns whether key exists in the snapshot.
func (s *Snapshot) Has(table *Table, key []byte) (bool, error) {
	handle, err := s.enter()
	if err != nil {
		return false, err
	}
	defer s.leave()
	defer runtime.KeepAlive(table)
	return has(func(failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_exists(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), failure)
	})
}

// MultiGet returns the values of keys in the snapshot in their order; nil for those that do not exist.
func (s *Snapshot) MultiGet(table *Table, keys ...[]byte) ([][]byte, error) {
	handle, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer s.leave()
	defer runtime.KeepAlive(table)
	return multiGet(keys, func(keys *C.pando_bytes, count C.size_t, values *C.pando_bytes, block *unsafe.Pointer,
		failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_multi_get(handle, table.ptr(), keys, count, values, block, failure)
	})
}

// Scan yields the records of a range in the snapshot in the order of their keys. After an error it yields nothing more.
func (s *Snapshot) Scan(table *Table, keys Range) iter.Seq2[Record, error] {
	return scan(&s.guarded, keys, func(s *C.pando_snapshot, keys *C.pando_range, cursor **C.pando_cursor,
		failure **C.pando_error) C.pando_code {
		defer runtime.KeepAlive(table)
		return C.pando_snapshot_cursor(s, table.ptr(), keys, cursor, failure)
	})
}
