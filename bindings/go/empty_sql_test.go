//go:build !pando_without_sql

package pando_test

import "testing"

func TestEmptyBlobs(t *testing.T) {
	db := openSQL(t, "CREATE TABLE t(a, b)")
	must(t, db, "INSERT INTO t VALUES (x'', ''), (x'', '')")
	atManyDepths(func() {
		rows, err := db.Query("SELECT a, b FROM t")
		if err != nil {
			t.Error(err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var a []byte
			var b string
			if err := rows.Scan(&a, &b); err != nil || a == nil || len(a) != 0 || b != "" {
				t.Errorf("%v %q: %v", a, b, err)
			}
		}
	})
}
