//go:build !pando_without_sql

package pando_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pando-db/pando/bindings/go"
)

func openSQL(t *testing.T, script string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pando", filepath.Join(t.TempDir(), "db")+"?memory_bytes=67108864&durability=buffered")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	must(t, db, script)
	return db
}

func must(t *testing.T, db *sql.DB, text string, args ...any) sql.Result {
	t.Helper()
	result, err := db.Exec(text, args...)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func one[T any](t *testing.T, db *sql.DB, text string, args ...any) T {
	t.Helper()
	var value T
	if err := db.QueryRow(text, args...).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func Example_sql() {
	db, err := sql.Open("pando", ":memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	_, err = db.Exec("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO fruit(name) VALUES ('apple'), ('lemon')")
	if err != nil {
		panic(err)
	}
	var name string
	if err := db.QueryRow("SELECT name FROM fruit WHERE id = ?", 2).Scan(&name); err != nil {
		panic(err)
	}
	fmt.Println(name)
	// Output: lemon
}

func TestSQLValues(t *testing.T) {
	db := openSQL(t, "CREATE TABLE v(id INTEGER PRIMARY KEY, a, b, c, d, e, f, g)")
	when := time.Date(2026, 11, 27, 1, 2, 3, 500e6, time.FixedZone("", 3600))
	result := must(t, db, "INSERT INTO v(a, b, c, d, e, f, g) VALUES (?, ?, :c, ?, ?, ?, ?)",
		int64(-1)<<63, 0.5, sql.Named("c", "h\x00llo"), []byte{}, nil, true, when)
	if id, _ := result.LastInsertId(); id != 1 {
		t.Errorf("id %d", id)
	}
	if rows, _ := result.RowsAffected(); rows != 1 {
		t.Errorf("%d rows affected", rows)
	}
	var a int64
	var b float64
	var c, g string
	var d []byte
	var e sql.NullString
	var f bool
	err := db.QueryRow("SELECT a, b, c, d, e, f, g FROM v").Scan(&a, &b, &c, &d, &e, &f, &g)
	if err != nil || a != -1<<63 || b != 0.5 || c != "h\x00llo" || d == nil || len(d) != 0 || e.Valid || !f || g != "2026-11-27 00:02:03.5" {
		t.Errorf("%v %v %q %v %v %v %q: %v", a, b, c, d, e, f, g, err)
	}
	if got := one[string](t, db, "SELECT typeof(a) || typeof(c) || typeof(d) FROM v"); got != "integertextblob" {
		t.Error(got)
	}
	if got := one[int](t, db, "INSERT INTO v(a) VALUES (1) RETURNING id"); got != 2 {
		t.Error(got)
	}
}

func TestSQLPrepared(t *testing.T) {
	db := openSQL(t, "CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT)")
	insert, err := db.Prepare("INSERT INTO t(v) VALUES (?)")
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	for i := range 100 {
		if _, err := insert.Exec(strings.Repeat("x", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := insert.Exec(); !errors.Is(err, pando.ErrInvalid) {
		t.Errorf("no value for a parameter: %v", err)
	}
	if _, err := insert.Exec(1, 2); !errors.Is(err, pando.ErrInvalid) {
		t.Errorf("a value too many: %v", err)
	}
	rows, err := db.Query("SELECT k, v FROM t WHERE k > ? ORDER BY k", 50)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	next := 51
	for ; rows.Next(); next++ {
		var k int
		var v string
		if err := rows.Scan(&k, &v); err != nil || k != next || len(v) != next-1 {
			t.Fatalf("row %d has %d bytes: %v", k, len(v), err)
		}
	}
	if next != 101 || rows.Err() != nil {
		t.Errorf("ended at %d: %v", next, rows.Err())
	}
}

func TestSQLErrors(t *testing.T) {
	db := openSQL(t, "CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT UNIQUE); INSERT INTO t VALUES (1, 'a')")
	_, err := db.Exec("INSERT INTO t VALUES (2, 'a')")
	var known *pando.Error
	if !errors.Is(err, pando.ErrConstraint) || !errors.As(err, &known) || known.SQLiteCode != 2067 {
		t.Errorf("a duplicate: %v", err)
	}
	for _, text := range []string{"SELEC 1", "SELECT * FROM none", "SELECT 1; SELECT 2", "SELECT ?1, '\xff'"} {
		if _, err := db.Query(text); !errors.Is(err, pando.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := db.Query("SELECT :a", sql.Named("b", 1)); !errors.Is(err, pando.ErrInvalid) {
		t.Errorf("a name that is none: %v", err)
	}
	if err := db.QueryRow("SELECT v FROM t WHERE k = 9").Scan(new(string)); err != sql.ErrNoRows {
		t.Errorf("no row: %v", err)
	}
	if _, err := sql.Open("pando", filepath.Join(t.TempDir(), "x?no_such_option=1")); !errors.Is(err, pando.ErrInvalid) {
		t.Errorf("an option that is none: %v", err)
	}
	db.Close()
	if _, err := db.Exec("SELECT 1"); err == nil {
		t.Error("a closed database runs statements")
	}
}

func TestSQLTransactions(t *testing.T) {
	db := openSQL(t, "CREATE TABLE t(k INTEGER PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0)")
	ctx := context.Background()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE t SET v = v + 1"); err != nil {
		t.Fatal(err)
	}
	must(t, db, "UPDATE t SET v = v + 10")
	err = tx.Commit()
	var conflict *pando.ConflictError
	if !errors.Is(err, pando.ErrConflict) || errors.Is(err, pando.ErrConstraint) || !errors.As(err, &conflict) {
		t.Fatalf("a commit over another one: %v", err)
	}
	if conflict.Table != "t" || len(conflict.Key) == 0 || conflict.Key[len(conflict.Key)-1] != 1 {
		t.Errorf("a conflict in table %q at key %x", conflict.Table, conflict.Key)
	}
	if tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("DELETE FROM t"); !errors.Is(err, pando.ErrReadOnly) {
		t.Errorf("a write in a read-only transaction: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	if _, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelLinearizable}); !errors.Is(err, pando.ErrInvalid) {
		t.Errorf("an isolation that is none: %v", err)
	}
	if tx, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSnapshot}); err != nil {
		t.Fatal(err)
	}
	tx.Exec("UPDATE t SET v = 99")
	tx.Rollback()
	if got := one[int](t, db, "SELECT v FROM t"); got != 10 {
		t.Errorf("v is %d", got)
	}
	// A transaction that a statement has left open does not reach the next user of the connection.
	db.SetMaxOpenConns(1)
	must(t, db, "BEGIN; UPDATE t SET v = 5")
	if got := one[int](t, db, "SELECT v FROM t"); got != 10 {
		t.Errorf("v is %d", got)
	}
}

func TestSQLContext(t *testing.T) {
	db := openSQL(t, "CREATE TABLE t(k INTEGER PRIMARY KEY)")
	endless := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	begin := time.Now()
	var sum int
	err := db.QueryRowContext(ctx, endless).Scan(&sum)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 20*time.Second {
		t.Errorf("an endless query ended after %v: %v", time.Since(begin), err)
	}
	// Between two rows.
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	rows, err := db.QueryContext(ctx, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; rows.Next(); i++ {
		if i == 1000 {
			cancel()
		}
	}
	if !errors.Is(rows.Err(), context.Canceled) {
		t.Errorf("rows ended with %v", rows.Err())
	}
	rows.Close()
	if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1)"); !errors.Is(err, context.Canceled) {
		t.Errorf("a statement after the end of its context: %v", err)
	}
	if got := one[int](t, db, "SELECT count(*) FROM t"); got != 0 {
		t.Errorf("%d rows", got)
	}
}

// Every goroutine moves between accounts, and runs its transaction again after a conflict. Nothing is lost.
func TestSQLConcurrent(t *testing.T) {
	db := openSQL(t, "CREATE TABLE account(id INTEGER PRIMARY KEY, cents INT); INSERT INTO account VALUES (0, 100), (1, 100), (2, 100)")
	var wait sync.WaitGroup
	for worker := range 6 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for done := 0; done < 20; {
				err := move(db, worker%3, (worker+1)%3)
				switch {
				case err == nil:
					done++
				case !errors.Is(err, pando.ErrConflict):
					t.Error(err)
					return
				}
			}
		}()
	}
	wait.Wait()
	if got := one[int](t, db, "SELECT sum(cents) FROM account"); got != 300 {
		t.Errorf("%d cents", got)
	}
	if got := one[int](t, db, "SELECT count(*) FROM account WHERE cents = 100"); got != 3 {
		t.Errorf("%d accounts have what they had", got)
	}
}

func move(db *sql.DB, from, to int) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for account, change := range map[int]int{from: -1, to: 1} {
		var cents int
		if err := tx.QueryRow("SELECT cents FROM account WHERE id = ?", account).Scan(&cents); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE account SET cents = ? WHERE id = ?", cents+change, account); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// SQL and keys are in one database, which other code has opened.
func TestSQLOfAnOpenDatabase(t *testing.T) {
	db, _ := inMemory(t)
	over := sql.OpenDB(db.Connector())
	must(t, over, "CREATE TABLE s(k INTEGER PRIMARY KEY)")
	if err := over.Close(); err != nil {
		t.Error(err)
	}
	if _, err := db.OpenTable("t"); err != nil {
		t.Errorf("the database was closed with the connections: %v", err)
	}
	db.Close()
	if _, err := sql.OpenDB(db.Connector()).Exec("SELECT 1"); !errors.Is(err, pando.ErrClosed) {
		t.Errorf("a closed database: %v", err)
	}
}

// The rows of an earlier run of a statement, and those of a statement that was closed, must not show memory of others.
func TestRowsOutliveTheirStatement(t *testing.T) {
	db := openSQL(t, "CREATE TABLE outlived(id INTEGER PRIMARY KEY, text TEXT)")
	long := strings.Repeat("x", 100_000)
	for range 3 {
		must(t, db, "INSERT INTO outlived(text) VALUES (?)", long)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	stmt, err := tx.Prepare("SELECT text FROM outlived")
	if err != nil {
		t.Fatal(err)
	}
	query := func() *sql.Rows {
		rows, err := stmt.Query()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	former, newer := query(), query()
	var text string
	if !former.Next() || former.Scan(&text) != nil || text != long {
		t.Errorf("the first row of the former run has %d bytes", len(text))
	}
	if former.Next() {
		t.Error("the former run goes on in the newer one")
	}
	expect(t, former.Err(), pando.ErrInvalid)
	former.Close()
	count := 0
	for newer.Next() {
		count++
	}
	if err := newer.Err(); err != nil || count != 3 {
		t.Errorf("the newer run has %d rows: %v", count, err)
	}
	late := query()
	stmt.Close()
	if !late.Next() || late.Scan(&text) != nil || text != long {
		t.Errorf("the first row of a closed statement has %d bytes", len(text))
	}
	if late.Next() {
		t.Error("a closed statement has another row")
	}
	expect(t, late.Err(), pando.ErrClosed)
}

func TestAStatementWithAZeroByte(t *testing.T) {
	_, err := openSQL(t, "SELECT 1").Exec("SELECT 1\x00")
	expect(t, err, pando.ErrInvalid)
	if err == nil || !strings.Contains(err.Error(), "the statement has a zero byte, at place 8") {
		t.Errorf("error %v", err)
	}
}

// What a close interrupts fails because of the close, whatever SQLite calls it.
func TestSQLBesideAClose(t *testing.T) {
	for range 20 {
		db, _ := inMemory(t)
		over := sql.OpenDB(db.Connector())
		over.SetMaxIdleConns(0)
		must(t, over, "CREATE TABLE s(k INTEGER PRIMARY KEY, n INT)")
		var finished sync.WaitGroup
		for worker := range 6 {
			finished.Add(1)
			go func() {
				defer finished.Done()
				for {
					var err error
					var count int
					switch worker % 3 {
					case 0:
						_, err = over.Exec("INSERT INTO s(n) VALUES (1); DELETE FROM s WHERE k % 3 = 0")
					case 1:
						err = over.QueryRow("SELECT count(*) FROM s AS a, s AS b WHERE a.n <= b.n").Scan(&count)
					case 2:
						_, err = over.Exec("INSERT INTO s(n) SELECT n + 1 FROM s LIMIT 10")
					}
					if errors.Is(err, pando.ErrClosed) {
						return
					}
					if err != nil && !errors.Is(err, pando.ErrConflict) {
						t.Errorf("%v: %#v", err, err)
						return
					}
				}
			}()
		}
		time.Sleep(5 * time.Millisecond)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		finished.Wait()
		over.Close()
	}
}

// A write that is stopped ends its transaction in SQLite, so nothing of it may be stored afterwards.
func TestAnInterruptEndsTheTransaction(t *testing.T) {
	db := openSQL(t, "CREATE TABLE t(a)")
	db.SetMaxOpenConns(1)
	long := "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000) SELECT i FROM n"
	begin := func() *sql.Tx {
		t.Helper()
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO t VALUES ('undone')"); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	stop := func(tx *sql.Tx, text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if _, err := tx.ExecContext(ctx, text); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a long statement: %v", err)
		}
	}
	for _, text := range []string{long, "SELECT 1; " + long} {
		for _, commits := range []bool{false, true} {
			tx := begin()
			prepared, err := tx.Prepare("INSERT INTO t VALUES ('refused')")
			if err != nil {
				t.Fatal(err)
			}
			stop(tx, text)
			_, direct := tx.Exec("INSERT INTO t VALUES ('refused')")
			_, again := prepared.Exec()
			_, query := tx.Query("SELECT 1")
			_, script := tx.Exec("SELECT 1; INSERT INTO t VALUES ('refused')")
			end := tx.Rollback
			if commits {
				end = tx.Commit
			}
			ended := end()
			for _, err := range []error{direct, again, query, script, ended} {
				if err == ended && !commits {
					if err != nil {
						t.Errorf("Rollback: %v", err)
					}
				} else if !errors.Is(err, pando.ErrInterrupted) || !strings.Contains(err.Error(), "rolled back") {
					t.Errorf("after the end of the transaction: %v", err)
				}
			}
			if got := one[int](t, db, "SELECT count(*) FROM t"); got != 0 {
				t.Errorf("%d rows are stored", got)
			}
		}
	}
	// A statement that reads is stopped alone.
	tx := begin()
	stop(tx, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")
	if _, err := tx.Exec("INSERT INTO t VALUES ('kept')"); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	if got := one[int](t, db, "SELECT count(*) FROM t"); got != 2 {
		t.Errorf("%d rows", got)
	}
}
