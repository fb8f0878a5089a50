package pando

// #include <pando.h>
// #include <stdlib.h>
import "C"

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"
	"unsafe"
)

// Durability says what a commit survives.
type Durability int

// The durabilities.
const (
	// DefaultDurability is that of the database: Sync, unless it was opened with another one.
	DefaultDurability Durability = C.PANDO_DEFAULT
	// Sync commits survive a loss of power.
	Sync Durability = C.PANDO_SYNC
	// Buffered commits survive a killed process, but not a loss of power.
	Buffered Durability = C.PANDO_BUFFERED
	// Lazy commits are synced within an interval, and can be lost until then.
	Lazy Durability = C.PANDO_LAZY
)

// Isolation says what a transaction is protected from.
type Isolation int

// The isolations.
const (
	// DefaultIsolation is that of the database: Serializable, unless it was opened with another one.
	DefaultIsolation Isolation = C.PANDO_DEFAULT
	// Serializable transactions have the result of some order, one after another.
	Serializable Isolation = C.PANDO_SERIALIZABLE
	// SnapshotIsolation transactions conflict over what they write, and not over what they read.
	SnapshotIsolation Isolation = C.PANDO_SNAPSHOT_ISOLATION
)

// Options are those of a database. The zero value means the defaults.
type Options struct {
	// MustExist fails with ErrMissing instead of creating a database.
	MustExist bool
	// ReadOnly opens an existing database for reading, beside the process that writes to it.
	ReadOnly bool
	// MemoryBytes is the most memory that the database uses; 0 means a quarter of the machine's.
	MemoryBytes uint64
	// Durability is that of transactions that do not name one.
	Durability Durability
	// Isolation is that of transactions that do not name one.
	Isolation Isolation
	// More options by name, as docs/options.md of Pando lists them.
	More map[string]string
}

// DB is an open database. Any number of goroutines can use it.
type DB struct{ handle *C.pando_db }

// Open opens the database in the directory path. It creates the database if there is none, unless the options say
// otherwise. options may be nil.
func Open(path string, options *Options) (*DB, error) {
	name, free, err := cString("the path", path)
	if err != nil {
		return nil, err
	}
	defer free()
	exists := options != nil && (options.MustExist || options.ReadOnly)
	return open(options, func(given *C.pando_options, db **C.pando_db, failure **C.pando_error) C.pando_code {
		if exists {
			return C.pando_open(name, given, db, failure)
		}
		return C.pando_create(name, given, db, failure)
	})
}

// OpenMemory creates a database in memory, which is gone when it is closed. options may be nil.
func OpenMemory(options *Options) (*DB, error) {
	return open(options, func(given *C.pando_options, db **C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_in_memory(given, db, failure)
	})
}

func open(options *Options, do func(*C.pando_options, **C.pando_db, **C.pando_error) C.pando_code) (*DB, error) {
	given := C.pando_options_new()
	defer C.pando_options_free(given)
	for name, value := range options.byName() {
		if err := setOption(given, name, value); err != nil {
			return nil, err
		}
	}
	var handle *C.pando_db
	if _, err := call(func(failure **C.pando_error) C.pando_code { return do(given, &handle, failure) }); err != nil {
		return nil, err
	}
	db := &DB{handle}
	// Close ends the database; the handle remains until nothing refers to it, so that late calls return ErrClosed.
	runtime.SetFinalizer(db, func(db *DB) { C.pando_db_free(db.handle) })
	return db, nil
}

func (o *Options) byName() map[string]string {
	if o == nil {
		return nil
	}
	named := map[string]string{}
	for name, value := range o.More {
		named[name] = value
	}
	if o.ReadOnly {
		named["read_only"] = "yes"
	}
	if o.MemoryBytes > 0 {
		named["memory_bytes"] = strconv.FormatUint(o.MemoryBytes, 10)
	}
	if o.Durability != DefaultDurability {
		named["durability"] = map[Durability]string{Sync: "sync", Buffered: "buffered", Lazy: "lazy"}[o.Durability]
	}
	if o.Isolation != DefaultIsolation {
		named["isolation"] = map[Isolation]string{Serializable: "serializable", SnapshotIsolation: "snapshot"}[o.Isolation]
	}
	return named
}

func setOption(options *C.pando_options, name, value string) error {
	cName, free, err := cString("the name of an option", name)
	if err != nil {
		return err
	}
	defer free()
	cValue, freeValue, err := cString("the value of an option", value)
	if err != nil {
		return err
	}
	defer freeValue()
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_options_set(options, cName, cValue, failure)
	})
	return err
}

// do runs a function of C with the database.
func (db *DB) do(what func(*C.pando_db, **C.pando_error) C.pando_code) error {
	_, err := call(func(failure **C.pando_error) C.pando_code { return what(db.handle, failure) })
	runtime.KeepAlive(db)
	return err
}

// named runs a function of C with the database and a string.
func (db *DB) named(name string, what func(*C.pando_db, *C.char, **C.pando_error) C.pando_code) error {
	cName, free, err := cString("the name or path", name)
	if err != nil {
		return err
	}
	defer free()
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code { return what(handle, cName, failure) })
}

// Close closes the database: it waits for the disk and unlocks the directory. Later calls return ErrClosed. A second
// call waits for the first, and has the same result.
func (db *DB) Close() error {
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_db_close(handle, failure)
	})
}

// Checkpoint writes what is in memory to the data file now, so that the next opening has little to replay.
func (db *DB) Checkpoint() error {
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_db_checkpoint(handle, failure)
	})
}

// Sync makes everything committed so far durable.
func (db *DB) Sync() error {
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_db_sync(handle, failure)
	})
}

// CatchUp waits until a database that is read beside its writer shows what the writer has acknowledged.
func (db *DB) CatchUp() error {
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_db_catch_up(handle, failure)
	})
}

// Check reads everything and verifies it. It fails with the first problem, an ErrCorrupt. It does not report its progress
// yet, and cannot be ended; nor do Compact, Backup and Restore.
func (db *DB) Check() error {
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_db_check(handle, nil, nil, failure)
	})
}

// Compact makes the files as small as possible, while the database is in use. Every page is read.
func (db *DB) Compact() error {
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_db_compact(handle, nil, nil, failure)
	})
}

// IsReadOnly returns whether the database is read-only; false also if it is closed.
func (db *DB) IsReadOnly() bool {
	defer runtime.KeepAlive(db)
	return C.pando_db_is_read_only(db.handle) != 0
}

// Stats returns counters and sizes by name.
func (db *DB) Stats() (map[string]uint64, error) {
	var text *C.char
	err := db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_db_stats(handle, &text, failure)
	})
	if err != nil {
		return nil, err
	}
	defer C.pando_free(unsafe.Pointer(text))
	stats := map[string]uint64{}
	return stats, json.Unmarshal([]byte(C.GoString(text)), &stats)
}

// Backup adds a backup to the directory folder while the database is in use, and returns its name. An incremental one
// stores only what changed since the newest backup there.
func (db *DB) Backup(folder string, incremental bool) (string, error) {
	var name *C.char
	since := C.int(0)
	if incremental {
		since = 1
	}
	err := db.named(folder, func(handle *C.pando_db, folder *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_db_backup(handle, folder, since, nil, nil, &name, failure)
	})
	if err != nil {
		return "", err
	}
	defer C.pando_free(unsafe.Pointer(name))
	return C.GoString(name), nil
}

// Restore restores the newest backup from the directory folder into the directory target, which must be empty or not
// exist.
func Restore(folder, target string) error {
	from, free, err := cString("the path", folder)
	if err != nil {
		return err
	}
	defer free()
	to, freeTo, err := cString("the path", target)
	if err != nil {
		return err
	}
	defer freeTo()
	_, err = call(func(failure **C.pando_error) C.pando_code { return C.pando_restore(from, nil, to, nil, nil, failure) })
	return err
}

// TxOptions are those of a transaction. The zero value means those of the database.
type TxOptions struct {
	Durability Durability
	Isolation  Isolation
	// CommitNumber, if it is not nil, receives the number of the commit. A failure leaves it as it is.
	CommitNumber *uint64
}

// maxAttempts bounds how often Update runs its function.
const maxAttempts = 24

// Update runs work in a transaction and commits it. After a conflict it runs work again, in a new transaction, up to
// 24 times in all. The last four times hold back the commits of all others, for half a second at most, so that the
// transaction gets its turn. If work returns an error or panics, the transaction is rolled back.
func (db *DB) Update(work func(tx *Tx) error) error { return db.UpdateWith(TxOptions{}, work) }

// UpdateWith is Update with options.
func (db *DB) UpdateWith(options TxOptions, work func(tx *Tx) error) error {
	var turn turn
	defer turn.end()
	for attempt := 1; ; attempt++ {
		if attempt == maxAttempts-heldAttempts+1 {
			if err := turn.take(db); err != nil {
				return err
			}
		}
		err := db.attempt(options, work, &turn)
		retryable := errors.Is(err, ErrConflict) || errors.Is(err, ErrSnapshotTooOld)
		if !retryable || attempt == maxAttempts {
			return err
		}
		if turn.hold == nil {
			most := 20 * time.Microsecond << min(attempt, 10)
			time.Sleep(rand.N(most))
		}
	}
}

func (db *DB) attempt(options TxOptions, work func(tx *Tx) error, turn *turn) error {
	tx, err := db.begin(options)
	if err != nil {
		return err
	}
	defer tx.finish()
	if err := work(tx); err != nil {
		return err
	}
	number, err := tx.commit(turn)
	if err == nil && options.CommitNumber != nil {
		*options.CommitNumber = number
	}
	return err
}

// View runs work with a snapshot of one moment.
func (db *DB) View(work func(s *Snapshot) error) error {
	snapshot, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	return work(snapshot)
}

// Get returns the newest value of key, or ErrNotFound.
func (db *DB) Get(table *Table, key []byte) ([]byte, error) {
	return getWith(func(value *unsafe.Pointer, length *C.size_t, failure **C.pando_error) C.pando_code {
		defer runtime.KeepAlive(db)
		defer runtime.KeepAlive(table)
		return C.pando_db_get(db.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), value, length, failure)
	})
}

// Put sets key to value in a transaction of its own.
func (db *DB) Put(table *Table, key, value []byte) error {
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		defer runtime.KeepAlive(table)
		return C.pando_db_put(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)),
			unsafe.Pointer(&filled(value)[0]), C.size_t(len(value)), failure)
	})
}

// Delete deletes key, whether or not it exists, in a transaction of its own.
func (db *DB) Delete(table *Table, key []byte) error {
	return db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		defer runtime.KeepAlive(table)
		return C.pando_db_delete(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), failure)
	})
}
