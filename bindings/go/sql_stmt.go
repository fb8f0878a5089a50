//go:build !pando_without_sql

package pando

// #include <pando.h>
import "C"

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"runtime"
	"unsafe"
)

// sqlStmt is a prepared statement.
type sqlStmt struct {
	handle     *C.pando_stmt
	conn       *sqlConn
	parameters int
	// The rows of the newest run. Those of an earlier run have nothing to read from any more.
	rows *sqlRows
}

func (s *sqlStmt) Close() error {
	C.pando_stmt_free(s.handle)
	s.handle = nil
	s.rows = nil
	return nil
}

// NumInput is -1, because arguments with names are not counted; a wrong number is an error of bind.
func (s *sqlStmt) NumInput() int { return -1 }

// CheckNamedValue does what that of the connection does.
func (s *sqlStmt) CheckNamedValue(value *driver.NamedValue) error {
	return s.conn.CheckNamedValue(value)
}

func (s *sqlStmt) bind(args []driver.NamedValue) error {
	if s.handle == nil {
		return closed("the statement")
	}
	s.rows = nil
	if err := s.reset(); err != nil {
		return err
	}
	places := make(map[int]driver.Value, len(args))
	for _, arg := range args {
		if arg.Name == "" {
			places[arg.Ordinal] = arg.Value
			continue
		}
		place, err := s.place(arg.Name)
		if err != nil {
			return err
		}
		places[place] = arg.Value
	}
	if len(places) != s.parameters {
		message := fmt.Sprintf("the statement has %d parameters, %d values were given", s.parameters, len(places))
		return &Error{Kind: ErrInvalid, Message: message}
	}
	for place, value := range places {
		if err := s.bindOne(C.size_t(place), value); err != nil {
			return err
		}
	}
	return nil
}

// place is that of a named parameter, whose name in the statement begins with ':', '@' or '$'.
func (s *sqlStmt) place(name string) (int, error) {
	for _, mark := range []string{":", "@", "$"} {
		cName, free, err := cString("the name of a parameter", mark+name)
		if err != nil {
			return 0, err
		}
		var place C.size_t
		code, err := call(func(failure **C.pando_error) C.pando_code {
			return C.pando_stmt_parameter(s.handle, cName, &place, failure)
		})
		free()
		if err != nil {
			return 0, err
		}
		if code == C.PANDO_OK {
			return int(place), nil
		}
	}
	return 0, &Error{Kind: ErrInvalid, Message: fmt.Sprintf("the statement has no parameter %q", name)}
}

func (s *sqlStmt) bindOne(place C.size_t, value driver.Value) error {
	_, err := call(func(failure **C.pando_error) C.pando_code {
		switch given := value.(type) {
		case int64:
			return C.pando_stmt_bind_integer(s.handle, place, C.int64_t(given), failure)
		case float64:
			return C.pando_stmt_bind_real(s.handle, place, C.double(given), failure)
		case string:
			data := unsafe.Pointer(unsafe.StringData(given))
			if len(given) == 0 {
				data = nil
			}
			return C.pando_stmt_bind_text(s.handle, place, (*C.char)(data), C.size_t(len(given)), failure)
		case []byte:
			if given == nil {
				return C.pando_stmt_bind_null(s.handle, place, failure)
			}
			return C.pando_stmt_bind_blob(s.handle, place, unsafe.Pointer(&filled(given)[0]), C.size_t(len(given)), failure)
		default:
			return C.pando_stmt_bind_null(s.handle, place, failure)
		}
	})
	runtime.KeepAlive(value)
	return err
}

func (s *sqlStmt) reset() error {
	_, err := call(func(failure **C.pando_error) C.pando_code { return C.pando_stmt_reset(s.handle, failure) })
	return err
}

// step goes to the next row, and returns its values, which C lends until the next call.
func (s *sqlStmt) step() ([]C.pando_value, bool, error) {
	var row *C.pando_value
	var count C.size_t
	code, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_stmt_step(s.handle, &row, &count, failure)
	})
	if err != nil || code == C.PANDO_ABSENT {
		return nil, false, err
	}
	return unsafe.Slice(row, int(count)), true, nil
}

// Exec runs the statement without a context.
func (s *sqlStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query runs the statement without a context.
func (s *sqlStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func named(args []driver.Value) []driver.NamedValue {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	return values
}

func (s *sqlStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.bind(args); err != nil {
		return nil, err
	}
	err := s.conn.run(ctx, func() error {
		for {
			if _, more, err := s.step(); err != nil || !more {
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var changes C.uint64_t
	var id C.int64_t
	if _, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_stmt_changes(s.handle, &changes, failure)
	}); err != nil {
		return nil, err
	}
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_sql_last_row_id(s.conn.handle, &id, failure)
	})
	return sqlResult{int64(id), int64(changes)}, err
}

type sqlResult struct{ id, changes int64 }

func (r sqlResult) LastInsertId() (int64, error) { return r.id, nil }
func (r sqlResult) RowsAffected() (int64, error) { return r.changes, nil }

// QueryContext runs the statement to its first row, so that what is wrong with it is an error of this call.
func (s *sqlStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.bind(args); err != nil {
		return nil, err
	}
	rows := &sqlRows{stmt: s, ctx: ctx}
	s.rows = rows
	if err := rows.advance(func(row []C.pando_value) {
		rows.first = make([]driver.Value, len(row))
		copyRow(rows.first, row)
	}); err != nil && err != io.EOF {
		return nil, err
	}
	if err := rows.readColumns(); err != nil {
		return nil, err
	}
	return rows, nil
}

// sqlRows are the rows of a statement.
type sqlRows struct {
	stmt  *sqlStmt
	ctx   context.Context
	names []string
	// The first row, until it is read, and the error after the last row.
	first []driver.Value
	end   error
	owned bool
}

// advance goes to the next row and copies it: what C lends lives until the next call with the statement only, which can
// be one of other rows.
func (r *sqlRows) advance(copy func(row []C.pando_value)) error {
	r.end = r.stmt.conn.run(r.ctx, func() error {
		row, more, err := r.stmt.step()
		if err == nil && !more {
			err = io.EOF
		}
		if err == nil {
			copy(row)
		}
		return err
	})
	return r.end
}

func (r *sqlRows) readColumns() error {
	var columns *C.pando_column
	var count C.size_t
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_stmt_columns(r.stmt.handle, &columns, &count, failure)
	})
	if err != nil {
		return err
	}
	r.names = make([]string, 0, int(count))
	if count == 0 {
		return nil
	}
	for _, column := range unsafe.Slice(columns, int(count)) {
		r.names = append(r.names, C.GoString(column.name))
	}
	return nil
}

func (r *sqlRows) Columns() []string { return r.names }

func (r *sqlRows) Close() error {
	if r.stmt.rows != r {
		return nil
	}
	if r.owned {
		return r.stmt.Close()
	}
	return r.stmt.reset()
}

func (r *sqlRows) Next(to []driver.Value) error {
	switch {
	case r.end != nil:
		return r.end
	case r.first != nil:
		copy(to, r.first)
		r.first = nil
		return nil
	case r.stmt.handle == nil:
		return closed("the statement of the rows")
	case r.stmt.rows != r:
		return &Error{Kind: ErrInvalid, Message: "the statement runs again, which ended these rows: prepare another one"}
	}
	return r.advance(func(row []C.pando_value) { copyRow(to, row) })
}

func copyRow(to []driver.Value, row []C.pando_value) {
	for i := range to {
		to[i] = valueOf(&row[i])
	}
}

// valueOf copies a value that C has lent.
func valueOf(value *C.pando_value) driver.Value {
	switch value.kind {
	case C.PANDO_INTEGER:
		return int64(value.integer)
	case C.PANDO_REAL:
		return float64(value.real)
	case C.PANDO_TEXT:
		if value.len == 0 {
			return ""
		}
		return string(unsafe.Slice((*byte)(value.data), int(value.len)))
	case C.PANDO_BLOB:
		if value.len == 0 {
			return []byte{}
		}
		return goBytes(value.data, value.len)
	default:
		return nil
	}
}
