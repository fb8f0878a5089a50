package pando

// #include <pando.h>
import "C"

import (
	"math/rand/v2"
	"time"
)

const (
	// heldAttempts is how many attempts of Update, the last ones, hold back other commits.
	heldAttempts = 4
	// mostHeld is how long they do so at most: the function can wait for a commit of another goroutine.
	mostHeld = 500 * time.Millisecond
	// longestWait is how long an attempt waits for others that hold back commits, and askAgain how often it asks.
	longestWait = 5 * time.Second
	askAgain    = time.Millisecond
)

// turn holds back the commits of others, once it is taken.
type turn struct {
	hold  *guarded[*C.pando_hold]
	timer *time.Timer
}

// take waits until no other transaction holds back commits, and then does so. It does nothing if that takes too long.
func (t *turn) take(db *DB) error {
	for until := time.Now().Add(longestWait); time.Now().Before(until); time.Sleep(rand.N(askAgain)) {
		var handle *C.pando_hold
		err := db.do(func(db *C.pando_db, failure **C.pando_error) C.pando_code {
			return C.pando_db_try_hold_commits(db, &handle, failure)
		})
		if err != nil {
			return err
		}
		if handle != nil {
			t.hold = &guarded[*C.pando_hold]{handle: handle, name: "the turn"}
			t.timer = time.AfterFunc(mostHeld, t.release)
			return nil
		}
	}
	return nil
}

// release lets others commit.
func (t *turn) release() {
	if handle, err := t.hold.enter(); err == nil {
		defer t.hold.leave()
		C.pando_hold_release(handle, nil)
	}
}

// end lets others commit, if the turn was taken.
func (t *turn) end() {
	if t.hold == nil {
		return
	}
	t.timer.Stop()
	t.hold.end(func(handle *C.pando_hold) { C.pando_hold_free(handle) })
}

// commit commits a transaction, past the commits that are held back.
func (t *turn) commit(tx *C.pando_tx, number *C.uint64_t, failure **C.pando_error) C.pando_code {
	if t.hold != nil {
		if handle, err := t.hold.enter(); err == nil {
			defer t.hold.leave()
			return C.pando_hold_commit(handle, tx, number, failure)
		}
	}
	return C.pando_tx_commit(tx, number, failure)
}
