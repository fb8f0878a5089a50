'use strict'

const { awaited, immediate, closed } = require('./errors')
const { bytesOf, packKeys, unpackValues, unpackRecords } = require('./packed')
const { ValueReadable, checkPlace } = require('./values')

const ENDS = ['prefix', 'gte', 'gt', 'lt', 'lte']

/** A range with bytes as its ends. */
function rangeOf (given = {}) {
  const range = {}
  for (const end of ENDS) {
    if (given[end] !== undefined) range[end] = bytesOf(given[end], end)
  }
  return range
}

/** Steps over records: the native half reads them in chunks. */
class Cursor {
  #scan
  #queue

  constructor (scan, queue) {
    this.#scan = scan
    this.#queue = queue
  }

  /** Returns the next records as pairs; none at the end. */
  async next (reverse) {
    return unpackRecords(await this.#queue.run(() => this.#scan.next(reverse)))
  }

  /** The next records are those from `key` on, or in reverse those up to it. */
  seek (key, reverse) {
    immediate(() => this.#scan.seek(key, reverse))
  }

  close () {
    immediate(() => this.#scan.close())
  }
}

/** The calls of an object, which can overlap. They end with those of `parent`. */
class Calls {
  #parent
  #ended

  constructor (parent) {
    this.#parent = parent
  }

  run (call) {
    return awaited(call)
  }

  /** The object, which messages call `what`, has ended. */
  end (what) {
    this.#ended = what
  }

  /** Fails if the object has ended, for uses of records that were read ahead. The native half is slower to ask. */
  check () {
    if (this.#ended !== undefined) throw closed(this.#ended)
    this.#parent?.check()
  }
}

/** One call after another, for objects that only one call at a time can use. */
class Queue extends Calls {
  #last = Promise.resolve()

  run (call) {
    const done = this.#last.then(() => awaited(call))
    this.#last = done.catch(() => {})
    return done
  }
}

/** The reads of a table. `queue` runs the calls, and `ready` is what must be done before a read. */
class Reads {
  #native
  #reader
  #queue
  #ready

  constructor (native, reader, queue, ready = undefined) {
    this.#native = native
    this.#reader = reader
    this.#queue = queue
    this.#ready = ready
  }

  get name () {
    return this.#native.name
  }

  get layout () {
    return this.#native.layout
  }

  /** Runs a call when it is its turn. */
  #run (call) {
    return this.#queue.run(this.#ready === undefined ? call : () => this.#ready().then(call))
  }

  async get (key) {
    const bytes = bytesOf(key, 'the key')
    return (await this.#run(() => this.#reader.get(this.#native, bytes))) ?? undefined
  }

  async getMany (keys) {
    const packed = packKeys(Array.from(keys, key => bytesOf(key, 'a key')))
    return unpackValues(await this.#run(() => this.#reader.getMany(this.#native, packed)))
  }

  async has (key) {
    const bytes = bytesOf(key, 'the key')
    return this.#run(() => this.#reader.has(this.#native, bytes))
  }

  /** Opens a stream of a value from the byte `start` on and before the byte `end`; undefined if there is no value. */
  async readStream (key, { start = 0, end = Infinity } = {}) {
    const bytes = bytesOf(key, 'the key')
    checkPlace(start, 'start')
    checkPlace(end, 'end')
    const native = await this.#run(() => this.#reader.openValue(this.#native, bytes))
    if (!native) return undefined
    immediate(() => native.seek(start))
    return new ValueReadable(native, start, end)
  }

  /** Returns how many milliseconds an entry still lives: Infinity if it never expires, undefined if there is none. */
  async expiry (key) {
    const bytes = bytesOf(key, 'the key')
    return (await this.#run(() => this.#reader.expiry(this.#native, bytes))) ?? undefined
  }

  /** Iterates over [key, value] in the order of the keys. */
  async * range (options = {}) {
    for await (const records of this.chunks(options)) {
      for (const record of records) {
        this.#queue.check()
        yield record
      }
    }
  }

  async * keys (options = {}) {
    for await (const [key] of this.range(options)) yield key
  }

  async * values (options = {}) {
    for await (const [, value] of this.range(options)) yield value
  }

  /** Iterates over arrays of [key, value]: what each read has found. */
  async * chunks ({ reverse = false, limit = Infinity, ...ends } = {}) {
    const range = rangeOf(ends)
    if (this.#ready !== undefined) await this.#queue.run(this.#ready)
    const cursor = this.cursor(range)
    try {
      while (limit > 0) {
        const records = await cursor.next(reverse)
        if (records.length === 0) return
        if (records.length > limit) records.length = limit
        limit -= records.length
        yield records
      }
    } finally {
      cursor.close()
    }
  }

  /** Opens a cursor of this moment over a range whose ends are Buffers. */
  cursor (range) {
    const scan = immediate(() => this.#reader.scan(this.#native, range))
    const run = call => this.#run(call)
    return new Cursor(scan, { run })
  }

  /** Returns a value without a promise. It waits for the disk if the value is not in memory. */
  getSync (key) {
    const bytes = bytesOf(key, 'the key')
    return immediate(() => this.#reader.getSync(this.#native, bytes)) ?? undefined
  }
}

module.exports = { Reads, Calls, Queue, rangeOf }
