package pando

// #include <pando.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"iter"
	"runtime"
	"time"
	"unsafe"
)

// OperationKind says what an operation of a commit did.
type OperationKind int

// The kinds of operations.
const (
	Put         OperationKind = C.PANDO_PUT
	Delete      OperationKind = C.PANDO_DELETE
	DeleteRange OperationKind = C.PANDO_DELETE_RANGE
	CreateTable OperationKind = C.PANDO_CREATE_TABLE
	DropTable   OperationKind = C.PANDO_DROP_TABLE
	RenameTable OperationKind = C.PANDO_RENAME_TABLE
	AlterTable  OperationKind = C.PANDO_ALTER_TABLE
)

// Operation is what a commit did to a key, a range of keys or a table.
type Operation struct {
	Kind OperationKind
	// Table is the name of the table after the commit.
	Table string
	// Former is the name that a renamed table had.
	Former string
	// Key is the key, or the first key of a range; nil for an operation on a table.
	Key []byte
	// Value is that of a Put.
	Value []byte
	// End is the first key after a range; nil if the range reaches to the end of the table.
	End []byte
}

// Change is one commit.
type Change struct {
	// CommitNumber is the number of the commit. Numbers have no gaps.
	CommitNumber uint64
	// Time is when the commit was made; zero if that is not known.
	Time time.Time
	// Operations lead to the state after the commit, in this order.
	Operations []Operation
}

// ChangesOptions choose what is read. The zero value means everything, as far back as possible.
type ChangesOptions struct {
	// After is the number of the commit after which reading begins. A consumer begins after its position.
	After uint64
	// Tables are the names of the tables whose changes are read; none means all.
	Tables []string
	// Prefix leaves out keys that do not begin with it.
	Prefix []byte
}

// toC makes the arguments of C, which live until free is called.
func (o ChangesOptions) toC(pins *pinned) (tables **C.char, count C.size_t, prefix C.pando_bytes, free func(), err error) {
	var frees []func()
	free = func() {
		for _, free := range frees {
			free()
		}
	}
	names := make([]*C.char, 0, len(o.Tables))
	for _, table := range o.Tables {
		name, freeName, err := cString("the name of a table", table)
		if err != nil {
			free()
			return nil, 0, prefix, func() {}, err
		}
		frees = append(frees, freeName)
		names = append(names, name)
	}
	if len(names) > 0 {
		pins.Pin(&names[0])
		tables = &names[0]
	}
	return tables, C.size_t(len(names)), pins.bytes(o.Prefix), free, nil
}

// Changes yields every commit in order, and waits for the next one until the context ends. It yields an error and then
// nothing more: the context's error, ErrTooOld if the changes are no longer kept, or ErrClosed.
func (db *DB) Changes(ctx context.Context, options ChangesOptions) iter.Seq2[Change, error] {
	return changes(ctx, options, func(read asked) error {
		return db.do(func(db *C.pando_db, failure **C.pando_error) C.pando_code {
			return C.pando_changes_open(db, C.uint64_t(options.After), read.tables, read.count, read.prefix, read.reader, failure)
		})
	})
}

// waitMS is how long one call of C waits, in milliseconds. The end of a context is looked at after it.
const waitMS = 50

// asked is what is read of the changes, and where C stores the reader.
type asked struct {
	tables **C.char
	count  C.size_t
	prefix C.pando_bytes
	reader **C.pando_changes
}

func changes(
	ctx context.Context,
	options ChangesOptions,
	open func(asked) error,
) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var pins pinned
		tables, count, prefix, free, err := options.toC(&pins)
		if err != nil {
			pins.Unpin()
			yield(Change{}, err)
			return
		}
		var reader *C.pando_changes
		err = open(asked{tables, count, prefix, &reader})
		pins.Unpin()
		free()
		if err != nil {
			yield(Change{}, err)
			return
		}
		defer C.pando_changes_free(reader)
		for {
			change, found, err := nextChange(ctx, reader)
			if err != nil {
				yield(Change{}, err)
				return
			}
			if found && !yield(change, nil) {
				return
			}
		}
	}
}

// nextChange copies the next change, if there is one within waitMS.
func nextChange(ctx context.Context, reader *C.pando_changes) (Change, bool, error) {
	if err := ctx.Err(); err != nil {
		return Change{}, false, err
	}
	var handle *C.pando_change
	code, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_changes_next(reader, waitMS, &handle, failure)
	})
	if err != nil || code == C.PANDO_ABSENT {
		return Change{}, false, err
	}
	defer C.pando_change_free(handle)
	change := Change{CommitNumber: uint64(C.pando_change_commit_number(handle))}
	if ms := int64(C.pando_change_time_ms(handle)); ms > 0 {
		change.Time = time.UnixMilli(ms)
	}
	var count C.size_t
	operations := C.pando_change_operations(handle, &count)
	for _, operation := range unsafe.Slice(operations, int(count)) {
		copied := Operation{
			Kind:  OperationKind(operation.kind),
			Table: C.GoString(operation.table),
			Key:   optionalBytes(&operation.key),
			Value: optionalBytes(&operation.value),
			End:   optionalBytes(&operation.end),
		}
		if operation.former != nil {
			copied.Former = C.GoString(operation.former)
		}
		change.Operations = append(change.Operations, copied)
	}
	return change, true, nil
}

// optionalBytes copies bytes of C; nil if there are none.
func optionalBytes(bytes *C.pando_bytes) []byte {
	if bytes.data == nil {
		return nil
	}
	return bytesOf(bytes)
}

// OldestChange returns the number of the oldest commit after which [DB.Changes] can begin now.
func (db *DB) OldestChange() (uint64, error) {
	var number C.uint64_t
	err := db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_changes_oldest(handle, &number, failure)
	})
	return uint64(number), err
}

// Consumer is a named consumer of changes, whose position survives restarts. Any number of goroutines can use it.
type Consumer struct {
	guarded[*C.pando_consumer]
	db *DB
}

// Consumer opens the consumer name, or creates it after the newest commit. It fails with ErrLocked if it is open, and
// with ErrTooOld if it fell behind too far: drop it, and begin again.
func (db *DB) Consumer(name string) (*Consumer, error) {
	consumer := &Consumer{guarded: guarded[*C.pando_consumer]{name: "the consumer"}, db: db}
	err := db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_consumer_open(db, name, &consumer.handle, failure)
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(consumer, (*Consumer).Close)
	return consumer, nil
}

// ConsumerInfo is what is known of a consumer.
type ConsumerInfo struct {
	Name string
	// Position is the number of the last commit that was acknowledged.
	Position uint64
	// IsLost says whether the consumer has lost its position, because more was kept for it than max_changes_bytes.
	IsLost bool
}

// Consumers returns all consumers, ordered by name.
func (db *DB) Consumers() ([]ConsumerInfo, error) {
	var list *C.pando_consumer_info
	var count C.size_t
	err := db.do(func(handle *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_consumer_list(handle, &list, &count, failure)
	})
	if err != nil {
		return nil, err
	}
	defer C.pando_free(unsafe.Pointer(list))
	consumers := make([]ConsumerInfo, 0, int(count))
	for _, info := range unsafe.Slice(list, int(count)) {
		consumers = append(consumers, ConsumerInfo{C.GoString(info.name), uint64(info.position), info.is_lost != 0})
	}
	return consumers, nil
}

// DropConsumer removes a consumer, and what is kept for it.
func (db *DB) DropConsumer(name string) error {
	return db.named(name, func(db *C.pando_db, name *C.char, failure **C.pando_error) C.pando_code {
		return C.pando_consumer_drop(db, name, failure)
	})
}

func (c *Consumer) with(do func(*C.pando_consumer, **C.pando_error) C.pando_code) error {
	handle, err := c.enterAlone()
	if err != nil {
		return err
	}
	defer c.leaveAlone()
	_, err = call(func(failure **C.pando_error) C.pando_code { return do(handle, failure) })
	return err
}

// Changes yields the changes after the last acknowledged commit, as those of [DB.Changes]. options.After has no effect.
func (c *Consumer) Changes(ctx context.Context, options ChangesOptions) iter.Seq2[Change, error] {
	return changes(ctx, options, func(read asked) error {
		return c.with(func(consumer *C.pando_consumer, failure **C.pando_error) C.pando_code {
			return C.pando_consumer_changes(consumer, read.tables, read.count, read.prefix, read.reader, failure)
		})
	})
}

// Position returns the number of the last commit that was acknowledged.
func (c *Consumer) Position() (uint64, error) {
	var position C.uint64_t
	err := c.with(func(consumer *C.pando_consumer, failure **C.pando_error) C.pando_code {
		return C.pando_consumer_position(consumer, &position, failure)
	})
	return uint64(position), err
}

// Acknowledge records durably that everything up to the commit of a number is done. It takes three flushes, so call it
// for many changes at once.
func (c *Consumer) Acknowledge(commit uint64) error {
	return c.with(func(consumer *C.pando_consumer, failure **C.pando_error) C.pando_code {
		return C.pando_consumer_acknowledge(consumer, C.uint64_t(commit), failure)
	})
}

// Close closes the consumer, so that it can be opened again. Its position is kept. A second call has no effect.
func (c *Consumer) Close() {
	c.end(func(handle *C.pando_consumer) { C.pando_consumer_free(handle) })
}
