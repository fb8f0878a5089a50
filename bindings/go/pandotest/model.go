package pandotest

import (
	"bytes"
	"iter"
	"sort"
	"sync"

	"github.com/pando-db/pando/bindings/go"
)

// Model is a database in memory with the tables "a" and "b": one writer at a time, and a copy for each reader. The zero
// value is empty.
type Model struct {
	writing sync.Mutex
	reading sync.Mutex
	state   state
}

// state has the records of each table, in order.
type state struct{ a, b []pando.Record }

// Update runs work with a copy of the state, which takes its place unless work returns an error.
func (m *Model) Update(work func(Writer) error) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	copied := m.now()
	if err := work(&copied); err != nil {
		return err
	}
	m.reading.Lock()
	defer m.reading.Unlock()
	m.state = copied
	return nil
}

// View runs work with a copy of the state.
func (m *Model) View(work func(Reader) error) error {
	now := m.now()
	return work(&now)
}

func (m *Model) now() state {
	m.reading.Lock()
	defer m.reading.Unlock()
	return m.state.copy()
}

func (s *state) copy() state {
	return state{append([]pando.Record(nil), s.a...), append([]pando.Record(nil), s.b...)}
}

// table returns the records of a table. Those of "b" are those of every other name.
func (s *state) table(name string) *[]pando.Record {
	if name == "a" {
		return &s.a
	}
	return &s.b
}

// find returns the place of the first record at or after key, and whether key is there.
func find(records []pando.Record, key []byte) (int, bool) {
	at := sort.Search(len(records), func(i int) bool { return bytes.Compare(records[i].Key, key) >= 0 })
	return at, at < len(records) && bytes.Equal(records[at].Key, key)
}

func (s *state) Get(table string, key []byte) ([]byte, error) {
	records := *s.table(table)
	at, exists := find(records, key)
	if !exists {
		return nil, pando.ErrNotFound
	}
	return bytes.Clone(records[at].Value), nil
}

func (s *state) Put(table string, key, value []byte) error {
	records := s.table(table)
	at, exists := find(*records, key)
	if !exists {
		*records = append(*records, pando.Record{})
		copy((*records)[at+1:], (*records)[at:])
	}
	(*records)[at] = pando.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)}
	return nil
}

func (s *state) Insert(table string, key, value []byte) error {
	if _, exists := find(*s.table(table), key); exists {
		return pando.ErrExists
	}
	return s.Put(table, key, value)
}

func (s *state) Delete(table string, key []byte) error {
	records := s.table(table)
	if at, exists := find(*records, key); exists {
		*records = append((*records)[:at], (*records)[at+1:]...)
	}
	return nil
}

// bounds returns the places from which and before which the records of a range are.
func bounds(records []pando.Record, keys pando.Range) (from, to int) {
	from, _ = find(records, keys.Start)
	if prefix, _ := find(records, keys.Prefix); prefix > from {
		from = prefix
	}
	to = from
	for to < len(records) && bytes.HasPrefix(records[to].Key, keys.Prefix) &&
		(keys.End == nil || bytes.Compare(records[to].Key, keys.End) < 0) {
		to++
	}
	return from, to
}

func (s *state) DeleteRange(table string, keys pando.Range) error {
	records := s.table(table)
	from, to := bounds(*records, keys)
	*records = append((*records)[:from], (*records)[to:]...)
	return nil
}

func (s *state) Scan(table string, keys pando.Range) iter.Seq2[pando.Record, error] {
	records := *s.table(table)
	from, to := bounds(records, keys)
	records = append([]pando.Record(nil), records[from:to]...)
	return func(yield func(pando.Record, error) bool) {
		for i := range records {
			if keys.Reverse {
				i = len(records) - 1 - i
			}
			record := pando.Record{Key: bytes.Clone(records[i].Key), Value: bytes.Clone(records[i].Value)}
			if !yield(record, nil) {
				return
			}
		}
	}
}

func (s *state) Savepoint(work func() error) error {
	before := s.copy()
	err := work()
	if err != nil {
		*s = before
	}
	return err
}
