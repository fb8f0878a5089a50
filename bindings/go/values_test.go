package pando_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pando-db/pando/bindings/go"
)

// longValue has 3 MiB, so that it is written to the data file as it arrives.
func longValue() []byte {
	value := make([]byte, 3<<20)
	for i := range value {
		value[i] = byte(i / 997 * 7)
	}
	return value
}

func TestValuesInParts(t *testing.T) {
	db, table := inMemory(t)
	value, key := longValue(), []byte("film")
	_, err := db.ValueReader(table, key)
	expect(t, err, pando.ErrNotFound)
	var late *pando.ValueWriter
	var own *pando.ValueReader
	err = db.Update(func(tx *pando.Tx) error {
		// HalfReader returns half of what is asked for, as a connection does.
		written, err := tx.PutFrom(table, key, iotest.HalfReader(bytes.NewReader(value)))
		if err != nil || written != int64(len(value)) {
			t.Errorf("%d bytes: %v", written, err)
		}
		writer, err := tx.ValueWriter(table, []byte("w"))
		if err != nil {
			return err
		}
		copied, err := io.Copy(writer, bytes.NewReader([]byte("abc")))
		if err != nil || copied != 3 {
			t.Errorf("%d bytes: %v", copied, err)
		}
		if has, err := tx.Has(table, []byte("w")); has || err != nil {
			t.Errorf("the value is there before it is finished: %v", err)
		}
		if _, err := writer.Finish(); err != nil {
			return err
		}
		_, err = writer.Finish()
		expect(t, err, pando.ErrClosed)
		_, err = writer.Write(nil)
		expect(t, err, pando.ErrClosed)
		if late, err = tx.ValueWriter(table, []byte("late")); err != nil {
			return err
		}
		own, err = tx.ValueReader(table, key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// What was not finished is given up with its transaction.
	_, err = late.Write([]byte("x"))
	expect(t, err, pando.ErrClosed)
	if got, err := io.ReadAll(own); err != nil || !bytes.Equal(got, value) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	own.Close()
	own.Close()
	_, err = own.Read(make([]byte, 1))
	expect(t, err, pando.ErrClosed)
	_, err = own.Seek(0, io.SeekStart)
	expect(t, err, pando.ErrClosed)
}

func TestValueReader(t *testing.T) {
	db, table := inMemory(t)
	value, key := longValue(), []byte("k")
	put := func(from io.Reader) error {
		return db.Update(func(tx *pando.Tx) error {
			_, err := tx.PutFrom(table, key, from)
			return err
		})
	}
	if err := put(bytes.NewReader(value)); err != nil {
		t.Fatal(err)
	}
	var reader *pando.ValueReader
	err := db.View(func(s *pando.Snapshot) (err error) {
		reader, err = s.ValueReader(table, key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	// The reader outlives the snapshot, and its value a newer one.
	if err := put(bytes.NewReader([]byte("short"))); err != nil {
		t.Fatal(err)
	}
	if err := db.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if reader.Size() != int64(len(value)) {
		t.Errorf("%d bytes", reader.Size())
	}
	if err := iotest.TestReader(io.NewSectionReader(at{reader}, 1<<20, 70000), value[1<<20:1<<20+70000]); err != nil {
		t.Error(err)
	}
	for _, end := range []int64{-5, 0, 9} {
		place, err := reader.Seek(end, io.SeekEnd)
		if err != nil || place != int64(len(value))+end {
			t.Errorf("place %d: %v", place, err)
		}
		rest, err := io.ReadAll(reader)
		if err != nil || !bytes.Equal(rest, value[min(place, int64(len(value))):]) {
			t.Errorf("%d bytes after %d: %v", len(rest), place, err)
		}
	}
	_, err = reader.Seek(-1, io.SeekStart)
	expect(t, err, pando.ErrInvalid)
	_, err = reader.Seek(0, 9)
	expect(t, err, pando.ErrInvalid)
	short, err := db.ValueReader(table, key)
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	if err := iotest.TestReader(short, []byte("short")); err != nil {
		t.Error(err)
	}
}

// at reads at any place, for the readers of io.
type at struct{ reader io.ReadSeeker }

func (a at) ReadAt(to []byte, offset int64) (int, error) {
	if _, err := a.reader.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	return io.ReadFull(a.reader, to)
}

func TestPutFromFails(t *testing.T) {
	db, table := inMemory(t)
	broken := errors.New("the line was cut")
	err := db.Update(func(tx *pando.Tx) error {
		from := io.MultiReader(bytes.NewReader(longValue()), iotest.ErrReader(broken))
		if _, err := tx.PutFrom(table, []byte("k"), from); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
		return tx.Put(table, []byte("other"), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Get(table, []byte("k"))
	expect(t, err, pando.ErrNotFound)
	if err := db.Check(); err != nil {
		t.Error(err)
	}
}

func TestValueWriterWithTTL(t *testing.T) {
	db, plain := inMemory(t)
	cache, err := db.TableWith("cache", pando.TableOptions{TTLByKey: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *pando.Tx) error {
		_, err := tx.ValueWriterWithTTL(plain, []byte("k"), time.Hour)
		expect(t, err, pando.ErrInvalid)
		writer, err := tx.ValueWriterWithTTL(cache, []byte("k"), time.Hour)
		if err != nil {
			return err
		}
		_, err = writer.Finish()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if ttl, err := db.Expiry(cache, []byte("k")); err != nil || ttl > time.Hour || ttl < time.Hour/2 {
		t.Errorf("expires in %v: %v", ttl, err)
	}
}

// withPointers is an object whose bytes are given to C though it has pointers.
type withPointers struct {
	bytes [32]byte
	to    *withPointers
}

func TestEncodersWriteValues(t *testing.T) {
	db, table := inMemory(t)
	value := longValue()
	encoders := map[string]func(io.Writer) io.WriteCloser{
		"gzip":   func(to io.Writer) io.WriteCloser { return gzip.NewWriter(to) },
		"base64": func(to io.Writer) io.WriteCloser { return base64.NewEncoder(base64.StdEncoding, to) },
		"hex": func(to io.Writer) io.WriteCloser {
			return struct {
				io.Writer
				io.Closer
			}{hex.NewEncoder(to), io.NopCloser(nil)}
		},
	}
	decoders := map[string]func(io.Reader) (io.Reader, error){
		"gzip":   func(from io.Reader) (io.Reader, error) { return gzip.NewReader(from) },
		"base64": func(from io.Reader) (io.Reader, error) { return base64.NewDecoder(base64.StdEncoding, from), nil },
		"hex":    func(from io.Reader) (io.Reader, error) { return hex.NewDecoder(from), nil },
	}
	for name, encoder := range encoders {
		err := db.Update(func(tx *pando.Tx) error {
			writer, err := tx.ValueWriter(table, []byte(name))
			if err != nil {
				return err
			}
			encoded := encoder(writer)
			if _, err := encoded.Write(value); err != nil {
				return err
			}
			if err := encoded.Close(); err != nil {
				return err
			}
			_, err = writer.Finish()
			return err
		})
		if err != nil {
			t.Fatal(name, err)
		}
		reader, err := db.ValueReader(table, []byte(name))
		if err != nil {
			t.Fatal(name, err)
		}
		decoded, err := decoders[name](reader)
		if err != nil {
			t.Fatal(name, err)
		}
		if got, err := io.ReadAll(decoded); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%s: %d bytes: %v", name, len(got), err)
		}
		reader.Close()
	}
}

func TestBytesOfObjectsWithPointers(t *testing.T) {
	db, table := inMemory(t)
	cache, err := db.TableWith("cache", pando.TableOptions{TTLByKey: true})
	if err != nil {
		t.Fatal(err)
	}
	object := &withPointers{to: &withPointers{}}
	key, into := object.bytes[:8], object.bytes[8:]
	err = errors.Join(
		db.Put(table, key, key),
		db.PutWithTTL(cache, key, key, time.Hour),
		db.Update(func(tx *pando.Tx) error {
			_, got := tx.Get(table, key)
			_, had := tx.Has(table, key)
			_, lives := tx.Expiry(cache, key)
			_, put := tx.PutFrom(table, key, bytes.NewReader(key))
			return errors.Join(got, had, lives, put, tx.Put(table, key, key), tx.PutWithTTL(cache, key, key, time.Hour),
				tx.SetExpiry(cache, key, time.Hour), tx.DeleteRange(table, pando.Range{Prefix: into}))
		}),
		db.View(func(s *pando.Snapshot) error {
			_, got := s.Get(table, key)
			_, had := s.Has(table, key)
			_, many := s.MultiGet(table, key, into)
			_, lives := s.Expiry(cache, key)
			reader, err := s.ValueReader(table, key)
			if err != nil {
				return err
			}
			defer reader.Close()
			if count, err := reader.Read(into); count != len(key) || err != nil {
				t.Errorf("%d bytes: %v", count, err)
			}
			return errors.Join(got, had, many, lives)
		}),
		db.Delete(table, key))
	if err != nil {
		t.Error(err)
	}
	if _, err := db.Expiry(cache, key); err != nil {
		t.Error(err)
	}
	_, err = db.Get(table, key)
	expect(t, err, pando.ErrNotFound)
}

func TestAnErrorThatWrapsEOFIsNotTheEnd(t *testing.T) {
	db, table := inMemory(t)
	cut := fmt.Errorf("the connection was reset: %w", io.EOF)
	err := db.Update(func(tx *pando.Tx) error {
		from := io.MultiReader(bytes.NewReader([]byte("half")), iotest.ErrReader(cut))
		if _, err := tx.PutFrom(table, []byte("k"), from); err != cut {
			t.Errorf("error %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Get(table, []byte("k"))
	expect(t, err, pando.ErrNotFound)
}

func TestATransactionEndsWhileItsValueIsWritten(t *testing.T) {
	db, table := inMemory(t)
	broken := errors.New("given up")
	for range 50 {
		from, to := io.Pipe()
		begun, ended := make(chan struct{}), make(chan error, 1)
		err := db.Update(func(tx *pando.Tx) error {
			writer, err := tx.ValueWriter(table, []byte("k"))
			if err != nil {
				return err
			}
			go func() {
				_, err := io.Copy(writer, from)
				from.CloseWithError(err)
				ended <- err
			}()
			go func() {
				piece := make([]byte, 1000)
				to.Write(piece)
				close(begun)
				for {
					if _, err := to.Write(piece); err != nil {
						return
					}
				}
			}()
			<-begun
			return broken
		})
		if err != broken {
			t.Fatal(err)
		}
		expect(t, <-ended, pando.ErrClosed)
	}
}

func TestTooShortATimeToLive(t *testing.T) {
	db, _ := inMemory(t)
	byKey, err := db.TableWith("by key", pando.TableOptions{TTLByKey: true})
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("k")
	if err := db.PutWithTTL(byKey, key, nil, pando.Never); err != nil {
		t.Fatal(err)
	}
	for _, ttl := range []time.Duration{-time.Hour, -1, 1, time.Millisecond - 1} {
		_, err := db.TableWith("short", pando.TableOptions{TTL: ttl})
		expect(t, err, pando.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), "at least 1ms") {
			t.Errorf("error %v", err)
		}
		expect(t, db.PutWithTTL(byKey, key, nil, ttl), pando.ErrInvalid)
		err = db.Update(func(tx *pando.Tx) error {
			expect(t, tx.PutWithTTL(byKey, key, nil, ttl), pando.ErrInvalid)
			expect(t, tx.SetExpiry(byKey, key, ttl), pando.ErrInvalid)
			_, err := tx.ValueWriterWithTTL(byKey, key, ttl)
			expect(t, err, pando.ErrInvalid)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if left, err := db.Expiry(byKey, key); left != pando.Never || err != nil {
		t.Errorf("the entry lives for %v, %v", left, err)
	}
	for _, ttl := range []time.Duration{0, time.Millisecond, pando.Never} {
		if _, err := db.TableWith(ttl.String(), pando.TableOptions{TTL: ttl}); err != nil {
			t.Errorf("TTL %v: %v", ttl, err)
		}
	}
}
