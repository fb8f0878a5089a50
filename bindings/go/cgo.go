package pando

// The flags name where scripts/go installs the library: CGO_CFLAGS and CGO_LDFLAGS add to them.

/*
#cgo CFLAGS: -std=c11
#cgo linux LDFLAGS: -lpando -lpthread -ldl -lm
#cgo darwin LDFLAGS: -lpando
#include <pando.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// call runs a function of the library, and makes an error of its failure. A key that is absent is not one.
func call(do func(failure **C.pando_error) C.pando_code) (C.pando_code, error) {
	// The pointer is of C's memory, because C stores a pointer to its own memory in it.
	var failure *C.pando_error
	code := do(&failure)
	if code == C.PANDO_OK || code == C.PANDO_ABSENT {
		return code, nil
	}
	defer C.pando_error_free(failure)
	return code, errorOf(code, failure)
}

// errorOf copies an error of C.
func errorOf(code C.pando_code, failure *C.pando_error) error {
	kind, known := kinds[code]
	if !known {
		kind = ErrFailed
	}
	made := &Error{Kind: kind, Message: C.GoString(C.pando_error_message(failure))}
	made.SQLiteCode = int(C.pando_error_sqlite_code(failure))
	if kind != ErrConflict {
		return made
	}
	conflict := &ConflictError{Err: made}
	if table := C.pando_error_table(failure); table != nil {
		conflict.Table = C.GoString(table)
	}
	var length C.size_t
	if key := C.pando_error_key(failure, &length); key != nil {
		conflict.Key = goBytes(key, length)
	}
	return conflict
}

// filled returns bytes, or a byte to point to if there are none. Write &filled(bytes)[0] within the call of C: cgo then
// checks the bytes alone for pointers of Go. With an address that was taken before, it checks the whole object that the
// bytes are a part of, which may have pointers: the buffer of an encoder, for example.
func filled(bytes []byte) []byte {
	if len(bytes) == 0 {
		return emptyBytes[:]
	}
	return bytes
}

// goBytes copies bytes of C, of any length. The pointer to no bytes is not looked at.
func goBytes(data unsafe.Pointer, length C.size_t) []byte {
	if length == 0 {
		return []byte{}
	}
	return append(make([]byte, 0, int(length)), unsafe.Slice((*byte)(data), int(length))...)
}

// bytesOf copies bytes that C has lent. Their pointer is not loaded if there are none.
func bytesOf(bytes *C.pando_bytes) []byte {
	if bytes.len == 0 {
		return []byte{}
	}
	return goBytes(bytes.data, bytes.len)
}

// pinned holds bytes in place while structures of C point to them.
type pinned struct{ runtime.Pinner }

// bytes makes a structure of C that points to bytes. Those of an empty slice that is not nil have an address, too: NULL
// means that there are none.
func (p *pinned) bytes(bytes []byte) C.pando_bytes {
	if bytes == nil {
		return C.pando_bytes{}
	}
	if len(bytes) == 0 {
		bytes = emptyBytes[:]
		p.Pin(&bytes[0])
		return C.pando_bytes{data: unsafe.Pointer(&bytes[0])}
	}
	p.Pin(&bytes[0])
	return C.pando_bytes{data: unsafe.Pointer(&bytes[0]), len: C.size_t(len(bytes))}
}

var emptyBytes [1]byte

// bounds makes a range of C. It lives until unpin is called.
func (p *pinned) bounds(r Range) *C.pando_range {
	made := &C.pando_range{prefix: p.bytes(r.Prefix), start: p.bytes(r.Start), end: p.bytes(r.End)}
	if r.KeysOnly {
		made.keys_only = 1
	}
	p.Pin(made)
	return made
}

// cString makes a string of C. A zero byte in it would end it early, so it is refused, with what the text is.
func cString(what, text string) (*C.char, func(), error) {
	for i := range len(text) {
		if text[i] == 0 {
			return nil, func() {}, &Error{Kind: ErrInvalid, Message: fmt.Sprintf("%s has a zero byte, at place %d: remove it", what, i)}
		}
	}
	made := C.CString(text)
	return made, func() { C.free(unsafe.Pointer(made)) }, nil
}
