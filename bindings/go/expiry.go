package pando

// #include <pando.h>
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"time"
	"unsafe"
)

// Never is the time to live of an entry that does not expire.
const Never time.Duration = math.MaxInt64

// ttlMs is a time to live in whole milliseconds. For C, 0 can mean that entries do not expire, so shorter ones are refused.
func ttlMs(what string, ttl time.Duration) (C.uint64_t, error) {
	if ttl == Never {
		return C.PANDO_NEVER, nil
	}
	if ttl < time.Millisecond {
		message := fmt.Sprintf("%s is %v: it must be at least 1ms", what, ttl)
		return 0, &Error{Kind: ErrInvalid, Message: message}
	}
	return C.uint64_t(ttl.Milliseconds()), nil
}

// PutWithTTL sets key to value in a table with TTLByKey, in a transaction of its own. The entry expires after ttl, in
// whole milliseconds from 1 on. It fails with ErrInvalid in a table of another kind.
func (db *DB) PutWithTTL(table *Table, key, value []byte, ttl time.Duration) error {
	ms, err := ttlMs("the TTL", ttl)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(table)
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_db_put_with_ttl(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)),
			unsafe.Pointer(&filled(value)[0]), C.size_t(len(value)), ms, failure)
	})
}

// PutWithTTL sets key to value in a table with TTLByKey. The entry expires after ttl, in whole milliseconds from 1 on.
// It fails with ErrInvalid in a table of another kind.
func (tx *Tx) PutWithTTL(table *Table, key, value []byte, ttl time.Duration) error {
	handle, err := tx.enter()
	if err != nil {
		return err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	ms, err := ttlMs("the TTL", ttl)
	if err != nil {
		return err
	}
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_put_with_ttl(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)),
			unsafe.Pointer(&filled(value)[0]), C.size_t(len(value)), ms, failure)
	})
	return err
}

// SetExpiry lets the entry of key in a table with TTLByKey expire after ttl from now, or Never. It fails with
// ErrNotFound if the key does not exist.
func (tx *Tx) SetExpiry(table *Table, key []byte, ttl time.Duration) error {
	handle, err := tx.enter()
	if err != nil {
		return err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	ms, err := ttlMs("the TTL", ttl)
	if err != nil {
		return err
	}
	return found(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_set_expiry(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), ms, failure)
	})
}

// Expiry returns how long the newest entry of key still lives, or Never. It fails with ErrNotFound if the key does not
// exist.
func (db *DB) Expiry(table *Table, key []byte) (time.Duration, error) {
	defer runtime.KeepAlive(db)
	defer runtime.KeepAlive(table)
	return expiry(func(ttl *C.uint64_t, failure **C.pando_error) C.pando_code {
		return C.pando_db_expiry(db.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), ttl, failure)
	})
}

// Expiry returns how long the entry of key still lived at the moment of the snapshot, or Never. It fails with
// ErrNotFound if the key does not exist.
func (s *Snapshot) Expiry(table *Table, key []byte) (time.Duration, error) {
	handle, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer s.leave()
	defer runtime.KeepAlive(table)
	return expiry(func(ttl *C.uint64_t, failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_expiry(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), ttl, failure)
	})
}

// Expiry returns how long the entry of key in the transaction still lived when the transaction began, or Never. It
// fails with ErrNotFound if the key does not exist.
func (tx *Tx) Expiry(table *Table, key []byte) (time.Duration, error) {
	handle, err := tx.enter()
	if err != nil {
		return 0, err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	return expiry(func(ttl *C.uint64_t, failure **C.pando_error) C.pando_code {
		return C.pando_tx_expiry(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), ttl, failure)
	})
}

// found makes an error of the code that says that a key does not exist.
func found(do func(**C.pando_error) C.pando_code) error {
	code, err := call(do)
	if err == nil && code == C.PANDO_ABSENT {
		return ErrNotFound
	}
	return err
}

func expiry(do func(*C.uint64_t, **C.pando_error) C.pando_code) (time.Duration, error) {
	var ms C.uint64_t
	if err := found(func(failure **C.pando_error) C.pando_code { return do(&ms, failure) }); err != nil {
		return 0, err
	}
	// Longer than a Duration can be is as good as never.
	if uint64(ms) >= uint64(Never)/uint64(time.Millisecond) {
		return Never, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}
