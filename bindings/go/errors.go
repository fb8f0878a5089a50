package pando

// #include <pando.h>
import "C"

import "fmt"

// Kind is the kind of an error: what the caller can do about it. Each kind is an error itself, so that
// errors.Is(err, pando.ErrConflict) tells whether an error is of that kind.
type Kind string

// The kinds of errors. The library's header says what to do about each.
const (
	// ErrNotFound means that the key does not exist.
	ErrNotFound Kind = "the key does not exist"
	// ErrConflict means that another transaction changed what this one has read. A [ConflictError] says which key.
	ErrConflict Kind = "conflict"
	// ErrSnapshotTooOld means that the snapshot or transaction was open for too long. Begin a new one.
	ErrSnapshotTooOld Kind = "snapshot too old"
	// ErrTooOld means that the changes that were asked for are no longer kept. The message says where to begin again.
	ErrTooOld Kind = "too old"
	// ErrConstraint means that a row violates a constraint of its table.
	ErrConstraint Kind = "constraint"
	// ErrInterrupted means that a statement of SQL was stopped.
	ErrInterrupted Kind = "interrupted"
	// ErrFull means that the disk, a quota or the memory budget is full. Nothing was written.
	ErrFull Kind = "full"
	// ErrExists means that the key, table, database or file already exists.
	ErrExists Kind = "exists"
	// ErrMissing means that the table, database or file does not exist. A key has [ErrNotFound].
	ErrMissing Kind = "missing"
	// ErrWouldWait means that a call that must not wait would have to.
	ErrWouldWait Kind = "would wait"
	// ErrInvalid means that an argument is out of range, or a call does not fit its object.
	ErrInvalid Kind = "invalid"
	// ErrMismatch means that the options contradict the stored ones.
	ErrMismatch Kind = "mismatch"
	// ErrLocked means that another handle has the database, consumer or folder open, often in another process. Close it
	// there.
	ErrLocked Kind = "locked"
	// ErrReadOnly means that the database is read-only, and the call would write.
	ErrReadOnly Kind = "read-only"
	// ErrForeign means that the files are no Pando database, or have a version that is not known.
	ErrForeign Kind = "foreign"
	// ErrCorrupt means that bytes differ from what was written.
	ErrCorrupt Kind = "corrupt"
	// ErrIO means that a call of the operating system failed.
	ErrIO Kind = "io"
	// ErrLatched means that an earlier failure stopped all writing; reads go on.
	ErrLatched Kind = "latched"
	// ErrIndeterminate means that a commit may or may not survive: its flush failed.
	ErrIndeterminate Kind = "indeterminate"
	// ErrClosed means that the database, snapshot or transaction has ended. Open the database again, or begin a new one.
	ErrClosed Kind = "closed"
	// ErrForked means that the object was inherited through a fork.
	ErrForked Kind = "forked"
	// ErrFenced means that another writer has taken over the lineage of shipped commits. Stop writing here.
	ErrFenced Kind = "fenced"
	// ErrInUse means that another goroutine uses the snapshot or transaction at this moment.
	ErrInUse Kind = "in use"
	// ErrInternal means that a defect in Pando was caught.
	ErrInternal Kind = "internal"
	// ErrFailed is any other failure.
	ErrFailed Kind = "failed"
)

// Error returns the name of the kind.
func (k Kind) Error() string { return string(k) }

// kinds has the kind of each code of C.
var kinds = map[C.pando_code]Kind{
	C.PANDO_ABSENT:           ErrNotFound,
	C.PANDO_CONFLICT:         ErrConflict,
	C.PANDO_SNAPSHOT_TOO_OLD: ErrSnapshotTooOld,
	C.PANDO_TOO_OLD:          ErrTooOld,
	C.PANDO_CONSTRAINT:       ErrConstraint,
	C.PANDO_INTERRUPTED:      ErrInterrupted,
	C.PANDO_FULL:             ErrFull,
	C.PANDO_EXISTS:           ErrExists,
	C.PANDO_MISSING:          ErrMissing,
	C.PANDO_WOULD_WAIT:       ErrWouldWait,
	C.PANDO_INVALID:          ErrInvalid,
	C.PANDO_MISUSE:           ErrInvalid,
	C.PANDO_TOO_SMALL:        ErrInvalid,
	C.PANDO_MISMATCH:         ErrMismatch,
	C.PANDO_LOCKED:           ErrLocked,
	C.PANDO_READ_ONLY:        ErrReadOnly,
	C.PANDO_FOREIGN:          ErrForeign,
	C.PANDO_CORRUPT:          ErrCorrupt,
	C.PANDO_IO:               ErrIO,
	C.PANDO_LATCHED:          ErrLatched,
	C.PANDO_INDETERMINATE:    ErrIndeterminate,
	C.PANDO_CLOSED:           ErrClosed,
	C.PANDO_FORKED:           ErrForked,
	C.PANDO_FENCED:           ErrFenced,
	C.PANDO_IN_USE:           ErrInUse,
	C.PANDO_INTERNAL:         ErrInternal,
	C.PANDO_FAILED:           ErrFailed,
}

// Error is an error of the library.
type Error struct {
	// Kind says what the caller can do.
	Kind Kind
	// Message says what happened, where, and what to do.
	Message string
	// SQLiteCode is SQLite's extended result code, if a statement of SQL has failed; otherwise 0.
	SQLiteCode int
}

// Error returns the message.
func (e *Error) Error() string { return "pando: " + e.Message }

// Is returns whether the error is of the kind target.
func (e *Error) Is(target error) bool { return target == e.Kind }

// ConflictError is an error of kind [ErrConflict], with the place that another transaction changed.
type ConflictError struct {
	// Table is the name of the table; empty if it is not known.
	Table string
	// Key is the key that was changed; nil if the table itself was created or dropped.
	Key []byte
	// Err is the error of the library.
	Err *Error
}

// Error returns the message.
func (e *ConflictError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the library, so that errors.Is finds its kind.
func (e *ConflictError) Unwrap() error { return e.Err }

func closed(what string) error {
	return &Error{Kind: ErrClosed, Message: fmt.Sprintf("%s is closed", what)}
}
