'use strict'

const { Readable, Writable } = require('node:stream')
const { awaited } = require('./errors')

/** How much is read or collected at a time: a piece of a long value. */
const PIECE_BYTES = 256 << 10

/** A stream of a value, or of a part of it. */
class ValueReadable extends Readable {
  #native
  #left
  #last = Promise.resolve()

  constructor (native, start, end) {
    super({ highWaterMark: PIECE_BYTES })
    this.#native = native
    this.#left = Math.max(0, Math.min(end, native.length) - start)
    /** The length of the whole value. */
    this.valueLength = native.length
  }

  _read (size) {
    this.#last = awaited(() => this.#native.read(Math.min(size, this.#left))).then(bytes => {
      this.#left -= bytes.length
      this.push(bytes.length === 0 ? null : bytes)
    }, error => { this.destroy(error) })
  }

  _destroy (error, done) {
    const closed = this.#last.catch(() => {}).then(() => awaited(() => this.#native.close()))
    closed.then(() => done(error), failed => done(error ?? failed))
  }
}

/**
 * A stream whose bytes become the value of a key when it ends. `begin` and `finish` wait for their turn. `open` has the
 * streams of the transaction that are not finished.
 */
class ValueWritable extends Writable {
  #begin
  #finish
  #open
  #native
  #last = Promise.resolve()

  constructor (begin, finish, open) {
    super({ highWaterMark: PIECE_BYTES })
    this.#begin = begin
    this.#finish = finish
    this.#open = open.add(this)
  }

  #then (call, done) {
    // Nobody is left to get the error of a stream that was destroyed meanwhile.
    this.#last = call().then(() => done(), error => done(this.destroyed ? undefined : error))
  }

  _construct (done) {
    this.#then(async () => { this.#native = await this.#begin() }, done)
  }

  _write (bytes, encoding, done) {
    this.#then(() => awaited(() => this.#native.append(bytes)), done)
  }

  _final (done) {
    this.#then(async () => {
      await this.#finish(this.#native)
      this.#open.delete(this)
    }, done)
  }

  _destroy (error, done) {
    this.#open.delete(this)
    const abandoned = this.#last.catch(() => {}).then(() => awaited(() => this.#native?.abandon()))
    abandoned.then(() => done(error), failed => done(error ?? failed))
  }
}

module.exports = { ValueReadable, ValueWritable }
