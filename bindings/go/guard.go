package pando

import "sync"

// guarded is a handle of C that one goroutine can end while others use it. The end waits for the calls that use the
// handle, and later calls fail with ErrClosed. The calls of one goroutine do not nest: nothing of the caller's runs
// between enter and leave.
type guarded[P comparable] struct {
	mutex  sync.RWMutex
	handle P
	// How messages call it, such as "the transaction".
	name string
}

// enter returns the handle, which is not freed before leave. After an error there is nothing to leave.
func (g *guarded[P]) enter() (P, error) {
	g.mutex.RLock()
	var none P
	if g.handle == none {
		g.mutex.RUnlock()
		return none, closed(g.name)
	}
	return g.handle, nil
}

// leave allows the end of the handle.
func (g *guarded[P]) leave() { g.mutex.RUnlock() }

// enterAlone is enter for a call that no other may disturb: it waits for those that use the handle.
func (g *guarded[P]) enterAlone() (P, error) {
	g.mutex.Lock()
	var none P
	if g.handle == none {
		g.mutex.Unlock()
		return none, closed(g.name)
	}
	return g.handle, nil
}

// leaveAlone ends what enterAlone began.
func (g *guarded[P]) leaveAlone() { g.mutex.Unlock() }

// end frees the handle with a function of C, once no call uses it. A second time has no effect.
func (g *guarded[P]) end(free func(P)) {
	handle, err := g.enterAlone()
	if err != nil {
		return
	}
	defer g.leaveAlone()
	free(handle)
	var none P
	g.handle = none
}
