//go:build !pando_without_sql

package pando

import (
	"database/sql"
	"fmt"
	"time"
)

// Time reads a time.Time that SQL has stored as text, which database/sql does not convert by itself:
//
//	var when time.Time
//	err := row.Scan((*pando.Time)(&when))
//
// It takes the formats of SQLite's functions of time that have a date: the time of day may be missing, or end with a zone.
// A text without a zone is in UTC. For a column that can be NULL, scan into a sql.Null[pando.Time].
type Time time.Time

var _ sql.Scanner = (*Time)(nil)

// The texts that SQLite's functions of time read. Go reads fractions of a second though a format has none.
var timeFormats = []string{
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02 15:04",
	"2006-01-02T15:04",
	"2006-01-02 15:04Z07:00",
	"2006-01-02T15:04Z07:00",
	"2006-01-02",
}

// Scan sets the time to that of a text.
func (t *Time) Scan(value any) error {
	text, isText := value.(string)
	if !isText {
		return &Error{Kind: ErrInvalid, Message: fmt.Sprintf("a time must be a text of SQL, not %T", value)}
	}
	for _, format := range timeFormats {
		if read, err := time.Parse(format, text); err == nil {
			*t = Time(read)
			return nil
		}
	}
	message := fmt.Sprintf("%q is not a time: it must be as 2006-01-02 15:04:05", text)
	return &Error{Kind: ErrInvalid, Message: message}
}
