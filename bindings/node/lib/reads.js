'use strict'

const { awaited, immediate, closed } = require('./errors')
const { bytesOf, viewOf, packKeys, unpackValues, unpackRecords } = require('./packed')
const { optionsOf, checkWhole } = require('./arguments')
const { ValueReadable } = require('./values')

const ENDS = ['prefix', 'gte', 'gt', 'lt', 'lte']

const RANGE = Object.fromEntries(ENDS.map(end => [end, 'any']))
const SCAN = { ...RANGE, reverse: 'boolean', limit: 'any' }

/** A range with bytes of its own as its ends. */
function rangeOf (given) {
  const range = {}
  for (const end of ENDS) {
    if (given[end] !== undefined) range[end] = bytesOf(given[end], end)
  }
  return range
}

/**
 * A range whose keys are deleted, as the first of the arguments of a call; without one, all keys. An undefined range or
 * end would mean the same, and is refused: a program that computes it wrongly would lose everything.
 */
function deletedRangeOf (given) {
  if (given.length === 0) return {}
  if (given[0] === undefined) throw new TypeError('the range is undefined: leave it out to delete all keys')
  const range = optionsOf(given[0], RANGE)
  for (const end of Object.keys(range)) {
    if (range[end] === undefined) throw new TypeError(`${end} is undefined: leave it out if the range has no such end`)
  }
  return rangeOf(range)
}

/** What to scan, as it is now, for an iterator that begins later: it throws the error. */
function scanOf (given) {
  try {
    const { reverse = false, limit = Infinity, ...ends } = optionsOf(given, SCAN)
    checkWhole(limit, 'limit', { orInfinity: true })
    return { reverse, limit, range: rangeOf(ends) }
  } catch (error) {
    return { error }
  }
}

/** Steps over records: the native half reads them in chunks. */
class Cursor {
  #scan
  #queue

  constructor (scan, queue) {
    this.#scan = scan
    this.#queue = queue
  }

  /** Returns the next records as pairs; none at the end. Values of a cursor over keys are empty. */
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

  /** Whether a call waits for others before it begins. */
  get waits () {
    return false
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

  get waits () {
    return true
  }

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

  /** A key for a call that is made when it is its turn. */
  #keyOf (key) {
    return this.#queue.waits ? bytesOf(key, 'the key') : viewOf(key, 'the key')
  }

  async get (key) {
    const bytes = this.#keyOf(key)
    return (await this.#run(() => this.#reader.get(this.#native, bytes))) ?? undefined
  }

  async getMany (keys) {
    const packed = packKeys(Array.from(keys, key => viewOf(key, 'a key')))
    return unpackValues(await this.#run(() => this.#reader.getMany(this.#native, packed)))
  }

  /** Returns which of the keys exist, without reading their values. */
  async hasMany (keys) {
    const packed = packKeys(Array.from(keys, key => viewOf(key, 'a key')))
    return Array.from(await this.#run(() => this.#reader.hasMany(this.#native, packed)), found => found === 1)
  }

  async has (key) {
    const bytes = this.#keyOf(key)
    return this.#run(() => this.#reader.has(this.#native, bytes))
  }

  /** Opens a stream of a value from the byte `start` on and before the byte `end`; undefined if there is no value. */
  async readStream (key, options) {
    const { start = 0, end = Infinity } = optionsOf(options, { start: 'any', end: 'any' })
    const bytes = this.#keyOf(key)
    checkWhole(start, 'start')
    checkWhole(end, 'end', { orInfinity: true })
    const native = await this.#run(() => this.#reader.openValue(this.#native, bytes))
    if (!native) return undefined
    immediate(() => native.seek(start))
    return new ValueReadable(native, start, end)
  }

  /** Returns how many milliseconds an entry still lives: Infinity if it never expires, undefined if there is none. */
  async expiry (key) {
    const bytes = this.#keyOf(key)
    return (await this.#run(() => this.#reader.expiry(this.#native, bytes))) ?? undefined
  }

  /** Iterates over [key, value] in the order of the keys. */
  range (options) {
    return this.#records(scanOf(options), false)
  }

  async * #records (scan, keysOnly) {
    for await (const records of this.#chunks(scan, keysOnly)) {
      for (const record of records) {
        this.#queue.check()
        yield record
      }
    }
  }

  /** Iterates over the keys, without a look at their values. */
  keys (options) {
    return this.#parts(scanOf(options), 0)
  }

  values (options) {
    return this.#parts(scanOf(options), 1)
  }

  async * #parts (scan, which) {
    for await (const record of this.#records(scan, which === 0)) yield record[which]
  }

  /** Iterates over arrays of [key, value]: what each read has found. */
  chunks (options) {
    return this.#chunks(scanOf(options), false)
  }

  /** Iterates over arrays of [key, value] whose values are empty and not read. */
  keyChunks (options) {
    return this.#chunks(scanOf(options), true)
  }

  async * #chunks ({ reverse, limit, range, error }, keysOnly) {
    if (error !== undefined) throw error
    if (this.#ready !== undefined) await this.#queue.run(this.#ready)
    const cursor = this.cursor(range, keysOnly)
    let left = limit
    try {
      while (left > 0) {
        const records = await cursor.next(reverse)
        if (records.length === 0) return
        if (records.length > left) records.length = left
        left -= records.length
        yield records
      }
    } finally {
      cursor.close()
    }
  }

  /** Opens a cursor of this moment over a range whose ends are Buffers. */
  cursor (range, keysOnly = false) {
    const scan = immediate(() => this.#reader.scan(this.#native, range, keysOnly))
    const run = call => this.#run(call)
    return new Cursor(scan, { run })
  }

  /** Returns a value without a promise. It waits for the disk if the value is not in memory. */
  getSync (key) {
    const bytes = viewOf(key, 'the key')
    return immediate(() => this.#reader.getSync(this.#native, bytes)) ?? undefined
  }
}

module.exports = { Reads, Calls, Queue, deletedRangeOf }
