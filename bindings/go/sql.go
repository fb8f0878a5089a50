//go:build !pando_without_sql

package pando

// #include <pando.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// Threads. A call of cgo keeps its goroutine on one thread until it returns, and the next call may come from another
// one. The library allows that: a connection and its statements can be used by any thread, by one call at a time.
// database/sql uses a driver.Conn from one goroutine at a time. Only interrupt is called from others meanwhile, which
// the library allows as well. So no goroutine is locked to a thread.

func init() { sql.Register("pando", sqlDriver{}) }

// sqlDriver is the driver "pando" of database/sql.
type sqlDriver struct{}

// Open is not used: database/sql calls OpenConnector.
func (d sqlDriver) Open(name string) (driver.Conn, error) {
	connector, err := d.OpenConnector(name)
	if err != nil {
		return nil, err
	}
	return connector.Connect(context.Background())
}

// OpenConnector opens the database in a directory. The name is its path, and can end with options of docs/options.md as
// a query: "fruit.pando?memory_bytes=67108864&read_only=yes". The name ":memory:" is a new database in memory.
func (sqlDriver) OpenConnector(name string) (driver.Connector, error) {
	path, query, _ := strings.Cut(name, "?")
	given, err := url.ParseQuery(query)
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, Message: fmt.Sprintf("the options of %q are not a query: %v", name, err)}
	}
	options := &Options{More: map[string]string{}}
	for name := range given {
		options.More[name] = given.Get(name)
	}
	options.MustExist = options.More["read_only"] == "yes"
	var db *DB
	if path == ":memory:" {
		db, err = OpenMemory(options)
	} else {
		db, err = Open(path, options)
	}
	if err != nil {
		return nil, err
	}
	return &connector{db, true}, nil
}

type connector struct {
	db   *DB
	owns bool
}

// Connector returns what [sql.OpenDB] needs to run SQL in the database. The database remains open when the [sql.DB] is
// closed.
func (db *DB) Connector() driver.Connector { return &connector{db, false} }

func (c *connector) Driver() driver.Driver { return sqlDriver{} }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var handle *C.pando_sql
	err := c.db.do(func(db *C.pando_db, failure **C.pando_error) C.pando_code {
		return C.pando_sql_open(db, &handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return &sqlConn{handle: handle, db: c.db}, nil
}

// Close closes the database that the driver has opened. [sql.DB.Close] calls it.
func (c *connector) Close() error {
	if !c.owns {
		return nil
	}
	return c.db.Close()
}

// sqlConn is a connection.
type sqlConn struct {
	handle *C.pando_sql
	db     *DB
	// The transaction of BeginTx, until it is committed or rolled back.
	tx *sqlTx
}

var (
	_ driver.QueryerContext     = (*sqlConn)(nil)
	_ driver.ExecerContext      = (*sqlConn)(nil)
	_ driver.ConnBeginTx        = (*sqlConn)(nil)
	_ driver.ConnPrepareContext = (*sqlConn)(nil)
	_ driver.SessionResetter    = (*sqlConn)(nil)
	_ driver.Validator          = (*sqlConn)(nil)
	_ driver.StmtExecContext    = (*sqlStmt)(nil)
	_ driver.StmtQueryContext   = (*sqlStmt)(nil)
	_ driver.NamedValueChecker  = (*sqlConn)(nil)
)

// interruptEvery is how often a statement is stopped again whose context has ended: an interrupt before the statement
// has begun has no effect.
const interruptEvery = 2 * time.Millisecond

// run calls do, and stops its statement when the context ends. The error is then that of the context.
func (c *sqlConn) run(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.tx != nil && c.tx.lost != nil {
		return c.tx.lost
	}
	err := c.runUnlessStopped(ctx, do)
	if err != nil && err != io.EOF {
		c.lookForTx(err)
	}
	if errors.Is(err, ErrInterrupted) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// lookForTx notices that the transaction has ended with a statement that failed. SQLite rolls back a transaction whose
// statement is stopped while it writes, for example. Without that, later statements would be transactions of their own.
func (c *sqlConn) lookForTx(cause error) {
	if c.tx == nil {
		return
	}
	if open, err := c.inTransaction(); err != nil || open {
		return
	}
	lost := &Error{Kind: ErrFailed}
	if known := (*Error)(nil); errors.As(cause, &known) {
		lost.Kind, lost.SQLiteCode = known.Kind, known.SQLiteCode
	}
	lost.Message = fmt.Sprintf("the transaction was rolled back because a statement in it failed (%v): call Rollback, and run it again", cause)
	c.tx.lost = lost
}

func (c *sqlConn) runUnlessStopped(ctx context.Context, do func() error) error {
	if ctx.Done() == nil {
		return do()
	}
	finished, stopped := make(chan struct{}), make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(stopped)
		again := time.NewTicker(interruptEvery)
		defer again.Stop()
		for {
			C.pando_sql_interrupt(c.handle, nil)
			select {
			case <-finished:
				return
			case <-again.C:
			}
		}
	})
	err := do()
	if !forget() {
		close(finished)
		<-stopped
	}
	return err
}

func (c *sqlConn) execute(ctx context.Context, text string) error {
	cText, free, err := cString("the statement", text)
	if err != nil {
		return err
	}
	defer free()
	return c.run(ctx, func() error {
		_, err := call(func(failure **C.pando_error) C.pando_code {
			return C.pando_sql_execute(c.handle, cText, failure)
		})
		return err
	})
}

// Close rolls back the transaction of the connection.
func (c *sqlConn) Close() error {
	_, err := call(func(failure **C.pando_error) C.pando_code { return C.pando_sql_close(c.handle, failure) })
	C.pando_sql_free(c.handle)
	c.handle = nil
	return err
}

func (c *sqlConn) inTransaction() (bool, error) {
	var open C.int
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_sql_in_transaction(c.handle, &open, failure)
	})
	return open != 0, err
}

// IsValid says whether database/sql can use the connection again.
func (c *sqlConn) IsValid() bool {
	_, err := c.inTransaction()
	return err == nil
}

// ResetSession rolls back a transaction that statements have begun and left open, before somebody else gets the
// connection.
func (c *sqlConn) ResetSession(ctx context.Context) error {
	open, err := c.inTransaction()
	if err == nil && open {
		err = c.execute(ctx, "ROLLBACK")
	}
	if err != nil {
		return driver.ErrBadConn
	}
	return nil
}

// BeginTx begins a transaction. Its isolation is the database's by default; sql.LevelSerializable and
// sql.LevelSnapshot choose it.
func (c *sqlConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	var isolation Isolation
	switch sql.IsolationLevel(options.Isolation) {
	case sql.LevelDefault:
	case sql.LevelSerializable:
		isolation = Serializable
	case sql.LevelSnapshot, sql.LevelRepeatableRead, sql.LevelReadCommitted, sql.LevelReadUncommitted:
		isolation = SnapshotIsolation
	default:
		level := sql.IsolationLevel(options.Isolation)
		return nil, &Error{Kind: ErrInvalid, Message: fmt.Sprintf("there is no isolation %v; use serializable or snapshot", level)}
	}
	if err := c.settle(isolation, options.ReadOnly); err != nil {
		return nil, err
	}
	if err := c.execute(ctx, "BEGIN"); err != nil {
		return nil, errors.Join(err, c.settle(DefaultIsolation, false))
	}
	c.tx = &sqlTx{conn: c}
	return c.tx, nil
}

// settle sets what transactions that begin from now on may do.
func (c *sqlConn) settle(isolation Isolation, readOnly bool) error {
	_, err := call(func(failure **C.pando_error) C.pando_code {
		return C.pando_sql_set_options(c.handle, C.PANDO_DEFAULT, C.int(isolation), failure)
	})
	if err != nil {
		return err
	}
	var only C.int
	if readOnly {
		only = 1
	}
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_sql_set_read_only(c.handle, only, failure)
	})
	return err
}

// Begin begins a transaction with the options of the database.
func (c *sqlConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

type sqlTx struct {
	conn *sqlConn
	// Why every statement fails: the transaction has ended with one that failed.
	lost error
}

// Commit fails with ErrConflict if another transaction changed what this one has read. It is then rolled back. It fails
// also if the transaction has ended with a statement that was stopped.
func (t *sqlTx) Commit() error {
	err := t.conn.execute(context.Background(), "COMMIT")
	// database/sql does not roll back after a commit that has failed.
	return errors.Join(err, t.Rollback())
}

func (t *sqlTx) Rollback() error {
	t.conn.tx = nil
	var err error
	if open, failed := t.conn.inTransaction(); failed != nil || open {
		err = t.conn.execute(context.Background(), "ROLLBACK")
	}
	return errors.Join(err, t.conn.settle(DefaultIsolation, false))
}

// Prepare prepares a statement.
func (c *sqlConn) Prepare(text string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), text)
}

func (c *sqlConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	return c.prepare(ctx, text)
}

func (c *sqlConn) prepare(ctx context.Context, text string) (*sqlStmt, error) {
	cText, free, err := cString("the statement", text)
	if err != nil {
		return nil, err
	}
	defer free()
	stmt := &sqlStmt{conn: c}
	err = c.run(ctx, func() error {
		_, err := call(func(failure **C.pando_error) C.pando_code {
			return C.pando_stmt_prepare(c.handle, cText, &stmt.handle, failure)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	var count C.size_t
	_, err = call(func(failure **C.pando_error) C.pando_code {
		return C.pando_stmt_parameter_count(stmt.handle, &count, failure)
	})
	stmt.parameters = int(count)
	if err != nil {
		stmt.Close()
		return nil, err
	}
	return stmt, nil
}

// ExecContext runs a statement. A script of several statements must have no parameters.
func (c *sqlConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	stmt, err := c.prepare(ctx, text)
	if err != nil {
		if len(args) == 0 && strings.Contains(text, ";") && errors.Is(err, ErrInvalid) {
			return driver.ResultNoRows, c.execute(ctx, text)
		}
		return nil, err
	}
	defer stmt.Close()
	return stmt.ExecContext(ctx, args)
}

func (c *sqlConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	stmt, err := c.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args)
	if err != nil {
		stmt.Close()
		return nil, err
	}
	rows.(*sqlRows).owned = true
	return rows, nil
}

// CheckNamedValue converts an argument to what SQL has: nil, int64, float64, string and []byte. A time becomes the text
// that SQLite's functions of time read, and a bool 0 or 1.
func (c *sqlConn) CheckNamedValue(value *driver.NamedValue) error {
	converted, err := driver.DefaultParameterConverter.ConvertValue(value.Value)
	if err != nil {
		return err
	}
	switch given := converted.(type) {
	case bool:
		converted = int64(0)
		if given {
			converted = int64(1)
		}
	case time.Time:
		converted = given.UTC().Format("2006-01-02 15:04:05.999999999")
	}
	value.Value = converted
	return nil
}
