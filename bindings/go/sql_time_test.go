//go:build !pando_without_sql

package pando_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/pando-db/pando/bindings/go"
)

func TestSQLTimes(t *testing.T) {
	db := openSQL(t, "CREATE TABLE seen(id INTEGER PRIMARY KEY, at DATETIME)")
	zone := time.FixedZone("", 2*60*60)
	for _, stored := range []time.Time{
		time.Date(2024, 2, 29, 23, 59, 58, 123456789, time.UTC),
		time.Date(2024, 2, 29, 23, 59, 58, 0, zone),
		time.Date(1900, 1, 1, 0, 0, 0, 500_000_000, time.UTC),
	} {
		var read time.Time
		must(t, db, "INSERT OR REPLACE INTO seen VALUES (1, ?)", stored)
		if err := db.QueryRow("SELECT at FROM seen").Scan((*pando.Time)(&read)); err != nil || !read.Equal(stored) {
			t.Errorf("%v was read as %v: %v", stored, read, err)
		}
	}
	for text, expected := range map[string]time.Time{
		"2024-05-06":                 time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC),
		"2024-05-06 07:08":           time.Date(2024, 5, 6, 7, 8, 0, 0, time.UTC),
		"2024-05-06T07:08:09.5":      time.Date(2024, 5, 6, 7, 8, 9, 500_000_000, time.UTC),
		"2024-05-06T07:08:09Z":       time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC),
		"2024-05-06 07:08:09+02:00":  time.Date(2024, 5, 6, 5, 8, 9, 0, time.UTC),
		"2024-05-06T07:08:09.25Z":    time.Date(2024, 5, 6, 7, 8, 9, 250_000_000, time.UTC),
		"2024-05-06 07:08:09.000001": time.Date(2024, 5, 6, 7, 8, 9, 1000, time.UTC),
	} {
		var read time.Time
		if err := db.QueryRow("SELECT ?", text).Scan((*pando.Time)(&read)); err != nil || !read.Equal(expected) {
			t.Errorf("%q was read as %v: %v", text, read, err)
		}
	}
	var read pando.Time
	for _, wrong := range []any{"soon", "12:30", 7, nil} {
		if err := db.QueryRow("SELECT ?", wrong).Scan(&read); err == nil {
			t.Errorf("%v was read as %v", wrong, time.Time(read))
		}
	}
	var perhaps sql.Null[pando.Time]
	if err := db.QueryRow("SELECT NULL").Scan(&perhaps); err != nil || perhaps.Valid {
		t.Errorf("NULL was read as %v: %v", perhaps, err)
	}
	if err := db.QueryRow("SELECT datetime('now')").Scan(&perhaps); err != nil || !perhaps.Valid {
		t.Errorf("the time of now was read as %v: %v", perhaps, err)
	}
}
