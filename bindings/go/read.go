package pando

// #include <pando.h>
import "C"

import (
	"iter"
	"unsafe"
)

// Range says which keys: those that begin with Prefix, from Start on and before End. nil sets no limit, and the zero
// value means every key.
type Range struct {
	Prefix, Start, End []byte
	// Reverse yields the largest key first.
	Reverse bool
	// KeysOnly yields keys without values, which are not read: it is quicker where values are long.
	KeysOnly bool
}

// Record is a key and its value. They belong to the caller. The value is nil if only keys were asked for.
type Record struct{ Key, Value []byte }

// Reader is what snapshots and transactions have in common.
type Reader interface {
	// Get returns the value of key, or ErrNotFound.
	Get(table *Table, key []byte) ([]byte, error)
	// Has returns whether key exists.
	Has(table *Table, key []byte) (bool, error)
	// MultiGet returns the values of keys in their order; nil for those that do not exist.
	MultiGet(table *Table, keys ...[]byte) ([][]byte, error)
	// Scan yields the records of a range in the order of their keys. After an error it yields nothing more.
	Scan(table *Table, keys Range) iter.Seq2[Record, error]
}

var (
	_ Reader = (*Snapshot)(nil)
	_ Reader = (*Tx)(nil)
)

// getWith copies a value, which C has copied to a block of its own.
func getWith(do func(*unsafe.Pointer, *C.size_t, **C.pando_error) C.pando_code) ([]byte, error) {
	var value unsafe.Pointer
	var length C.size_t
	code, err := call(func(failure **C.pando_error) C.pando_code { return do(&value, &length, failure) })
	switch {
	case err != nil:
		return nil, err
	case code == C.PANDO_ABSENT:
		return nil, ErrNotFound
	}
	defer C.pando_free(value)
	return goBytes(value, length), nil
}

// has makes a truth of a code.
func has(do func(**C.pando_error) C.pando_code) (bool, error) {
	code, err := call(do)
	return err == nil && code == C.PANDO_OK, err
}

// multiGet lends the keys to C, and copies the values.
func multiGet(
	keys [][]byte,
	do func(*C.pando_bytes, C.size_t, *C.pando_bytes, *unsafe.Pointer, **C.pando_error) C.pando_code,
) ([][]byte, error) {
	values := make([][]byte, len(keys))
	if len(keys) == 0 {
		return values, nil
	}
	var pins pinned
	defer pins.Unpin()
	asked := make([]C.pando_bytes, len(keys))
	for i, key := range keys {
		asked[i] = pins.bytes(key)
	}
	found := make([]C.pando_bytes, len(keys))
	var block unsafe.Pointer
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return do(&asked[0], C.size_t(len(asked)), &found[0], &block, failure)
	})
	if err != nil {
		return nil, err
	}
	defer C.pando_free(block)
	for i := range found {
		if found[i].data != nil {
			values[i] = bytesOf(&found[i])
		}
	}
	return values, nil
}

// scan yields what a cursor shows, which open makes when the loop begins and the loop's end frees. It ends with an error
// when owner does.
func scan[P comparable](
	owner *guarded[P],
	keys Range,
	open func(P, *C.pando_range, **C.pando_cursor, **C.pando_error) C.pando_code,
) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		cursor, err := openCursor(owner, keys, open)
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer C.pando_cursor_free(cursor)
		for {
			record, more, err := step(owner, cursor, keys)
			if err != nil {
				yield(Record{}, err)
				return
			}
			if !more || !yield(record, nil) {
				return
			}
		}
	}
}

func openCursor[P comparable](
	owner *guarded[P],
	keys Range,
	open func(P, *C.pando_range, **C.pando_cursor, **C.pando_error) C.pando_code,
) (*C.pando_cursor, error) {
	handle, err := owner.enter()
	if err != nil {
		return nil, err
	}
	defer owner.leave()
	var pins pinned
	defer pins.Unpin()
	bounds := pins.bounds(keys)
	var cursor *C.pando_cursor
	_, err = call(func(failure **C.pando_error) C.pando_code { return open(handle, bounds, &cursor, failure) })
	return cursor, err
}

// step copies the record that a cursor comes to.
func step[P comparable](owner *guarded[P], cursor *C.pando_cursor, keys Range) (Record, bool, error) {
	if _, err := owner.enter(); err != nil {
		return Record{}, false, err
	}
	defer owner.leave()
	var key, value C.pando_bytes
	code, err := call(func(failure **C.pando_error) C.pando_code {
		if keys.Reverse {
			return C.pando_cursor_prev(cursor, &key, &value, failure)
		}
		return C.pando_cursor_next(cursor, &key, &value, failure)
	})
	if err != nil || code == C.PANDO_ABSENT {
		return Record{}, false, err
	}
	record := Record{Key: bytesOf(&key)}
	if !keys.KeysOnly {
		record.Value = bytesOf(&value)
	}
	return record, true, nil
}
