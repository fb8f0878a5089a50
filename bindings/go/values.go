package pando

// #include <pando.h>
import "C"

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// pieceBytes is how much ReadFrom reads at a time: a piece of a long value.
const pieceBytes = 256 << 10

// ValueReader reads a value of any length, from any place: an [io.Reader] and an [io.Seeker]. The value stays as it was
// when the reader was opened, whatever is committed meanwhile, and the reader can outlive its snapshot or transaction.
// Memory holds a piece of 256 KiB of a value of more than 1 MiB. One goroutine at a time can use it.
type ValueReader struct {
	// One call at a time reads, because each depends on the place.
	guarded[*C.pando_value_reader]
	size     int64
	position int64
}

var _ io.ReadSeekCloser = (*ValueReader)(nil)

func openValue(
	table *Table,
	do func(reader **C.pando_value_reader, failure **C.pando_error) C.pando_code,
) (*ValueReader, error) {
	defer runtime.KeepAlive(table)
	var handle *C.pando_value_reader
	err := found(func(failure **C.pando_error) C.pando_code { return do(&handle, failure) })
	if err != nil {
		return nil, err
	}
	reader := &ValueReader{
		guarded: guarded[*C.pando_value_reader]{handle: handle, name: "the reader of a value"},
		size:    int64(C.pando_value_reader_len(handle)),
	}
	runtime.SetFinalizer(reader, (*ValueReader).Close)
	return reader, nil
}

// ValueReader opens the newest value of key for reading in parts, or fails with ErrNotFound. Close the reader, so that
// the value can be freed.
func (db *DB) ValueReader(table *Table, key []byte) (*ValueReader, error) {
	defer runtime.KeepAlive(db)
	return openValue(table, func(reader **C.pando_value_reader, failure **C.pando_error) C.pando_code {
		return C.pando_db_value_reader(db.handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), reader, failure)
	})
}

// ValueReader opens the value of key in the snapshot for reading in parts, or fails with ErrNotFound. Close the reader.
func (s *Snapshot) ValueReader(table *Table, key []byte) (*ValueReader, error) {
	handle, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer s.leave()
	return openValue(table, func(reader **C.pando_value_reader, failure **C.pando_error) C.pando_code {
		return C.pando_snapshot_value_reader(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), reader, failure)
	})
}

// ValueReader opens the value of key in the transaction, its own writes included, for reading in parts, or fails with
// ErrNotFound. Close the reader.
func (tx *Tx) ValueReader(table *Table, key []byte) (*ValueReader, error) {
	handle, err := tx.enter()
	if err != nil {
		return nil, err
	}
	defer tx.leave()
	return openValue(table, func(reader **C.pando_value_reader, failure **C.pando_error) C.pando_code {
		return C.pando_tx_value_reader(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), reader, failure)
	})
}

// Size returns the length of the value in bytes.
func (r *ValueReader) Size() int64 { return r.size }

// Read reads the next bytes of the value. It returns io.EOF at the end, and fewer bytes than asked for only before it.
// After an error the next Read begins where this one began.
func (r *ValueReader) Read(to []byte) (int, error) {
	handle, err := r.enterAlone()
	if err != nil {
		return 0, err
	}
	defer r.leaveAlone()
	if len(to) == 0 {
		return 0, nil
	}
	var count C.size_t
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_value_reader_read(handle, unsafe.Pointer(&to[0]), C.size_t(len(to)), &count, failure)
	})
	if err == nil && count == 0 {
		err = io.EOF
	}
	r.position += int64(count)
	return int(count), err
}

// Seek sets the place of the next Read, which may be after the end.
func (r *ValueReader) Seek(offset int64, whence int) (int64, error) {
	handle, err := r.enterAlone()
	if err != nil {
		return 0, err
	}
	defer r.leaveAlone()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.position
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, &Error{Kind: ErrInvalid, Message: "whence is none of io's three"}
	}
	if offset < 0 {
		return 0, &Error{Kind: ErrInvalid, Message: "the place is before the first byte of the value"}
	}
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_value_reader_seek(handle, C.uint64_t(offset), failure)
	})
	if err != nil {
		return 0, err
	}
	r.position = offset
	return offset, nil
}

// Close ends the reader. Later calls fail. A second call has no effect.
func (r *ValueReader) Close() error {
	r.end(func(handle *C.pando_value_reader) { C.pando_value_reader_free(handle) })
	return nil
}

// ValueWriter writes a value of any length, a piece at a time: an [io.Writer] and an [io.ReaderFrom]. The transaction
// can be used meanwhile, and does not see the value before Finish. Beyond 1 MiB the value is written to the data file as
// it arrives, and memory holds a piece of 256 KiB. One goroutine at a time can use it.
//
// Its transaction can end meanwhile: the value is given up, and later calls fail with ErrClosed.
type ValueWriter struct {
	// Guards handle. It is taken before the transaction is entered.
	mutex  sync.Mutex
	handle *C.pando_value_writer
	tx     *Tx
}

var (
	_ io.Writer     = (*ValueWriter)(nil)
	_ io.ReaderFrom = (*ValueWriter)(nil)
)

// ValueWriter begins a value for key. Call Finish to set the key, or Abandon to give the value up.
func (tx *Tx) ValueWriter(table *Table, key []byte) (*ValueWriter, error) {
	return tx.valueWriter(table, key, C.PANDO_NEVER)
}

// ValueWriterWithTTL begins a value for key in a table with TTLByKey. The entry expires after ttl, in whole
// milliseconds from 1 on, counted from this call and not from Finish. It fails with ErrInvalid in a table of another kind.
func (tx *Tx) ValueWriterWithTTL(table *Table, key []byte, ttl time.Duration) (*ValueWriter, error) {
	ms, err := ttlMs("the TTL", ttl)
	if err != nil {
		return nil, err
	}
	return tx.valueWriter(table, key, ms)
}

func (tx *Tx) valueWriter(table *Table, key []byte, ttl C.uint64_t) (*ValueWriter, error) {
	handle, err := tx.enter()
	if err != nil {
		return nil, err
	}
	defer tx.leave()
	defer runtime.KeepAlive(table)
	writer := &ValueWriter{tx: tx}
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_tx_value_writer(handle, table.ptr(),
			unsafe.Pointer(&filled(key)[0]), C.size_t(len(key)), ttl, &writer.handle, failure)
	})
	if err != nil {
		return nil, err
	}
	// A transaction that ends gives up what was not finished.
	tx.list.Lock()
	defer tx.list.Unlock()
	tx.writers = append(tx.writers, writer)
	return writer, nil
}

// PutFrom sets key to everything that from yields, and returns how many bytes these are. Memory holds a piece of it. If
// from fails, nothing is put, the error is that of from, and the transaction can go on. [DB.Update] can run its function
// again: open from within the function, because a reader that was read already has nothing left.
func (tx *Tx) PutFrom(table *Table, key []byte, from io.Reader) (int64, error) {
	writer, err := tx.ValueWriter(table, key)
	if err != nil {
		return 0, err
	}
	defer writer.Abandon()
	if _, err := writer.ReadFrom(from); err != nil {
		return 0, err
	}
	return writer.Finish()
}

// Write appends bytes to the value. An error gives the value up: it cannot be finished.
func (w *ValueWriter) Write(data []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err := w.enter(); err != nil {
		return 0, err
	}
	defer w.tx.leave()
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_value_writer_append(w.handle, unsafe.Pointer(&filled(data)[0]), C.size_t(len(data)), failure)
	})
	if err != nil {
		return 0, err
	}
	return len(data), nil
}

// ReadFrom appends everything that from yields. It returns how many bytes were appended.
func (w *ValueWriter) ReadFrom(from io.Reader) (int64, error) {
	var total int64
	piece := make([]byte, pieceBytes)
	for {
		count, err := from.Read(piece)
		if count > 0 {
			written, failed := w.Write(piece[:count])
			total += int64(written)
			if failed != nil {
				return total, failed
			}
		}
		// An error that wraps io.EOF is not the end.
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Finish sets the key to the value, and ends the writer whatever the result is, except ErrInUse: the value can be
// finished after the other call. It returns the value's length. The value is durable when the transaction is.
func (w *ValueWriter) Finish() (int64, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err := w.enter(); err != nil {
		return 0, err
	}
	defer w.tx.leave()
	var length C.uint64_t
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_value_writer_finish(w.handle, &length, failure)
	})
	if !errors.Is(err, ErrInUse) {
		w.end()
	}
	return int64(length), err
}

// enter enters the transaction, so that its end waits for the call. The caller has the mutex of the writer.
func (w *ValueWriter) enter() error {
	if w.handle == nil {
		return closed("the writer of a value")
	}
	_, err := w.tx.enter()
	return err
}

// Abandon gives up a value that is not finished. It has no effect after Finish, and a second time.
func (w *ValueWriter) Abandon() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.end()
}

// end frees the writer. The caller has its mutex.
func (w *ValueWriter) end() {
	C.pando_value_writer_free(w.handle)
	w.handle = nil
	w.tx.forget(w)
}
