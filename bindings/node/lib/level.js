'use strict'

// Pando as an abstract-level database: sublevels, encodings, hooks and everything else that is built on it.

const { AbstractLevel, AbstractIterator, AbstractSnapshot } = require('abstract-level')
const { open, inMemory } = require('.')

const kTable = Symbol('table')
const kOpened = Symbol('opened')
const kView = Symbol('view')

/** The ends that abstract-level gave, which are Buffers. Of two, the one that includes its key counts. */
function endsOf ({ gte, gt, lt, lte }) {
  const ends = {}
  if (gte !== undefined) ends.gte = gte
  else if (gt !== undefined) ends.gt = gt
  if (lte !== undefined) ends.lte = lte
  else if (lt !== undefined) ends.lt = lt
  return ends
}

function isWithin (key, { gte, gt, lt, lte }) {
  return (gte === undefined || Buffer.compare(key, gte) >= 0) &&
    (gt === undefined || Buffer.compare(key, gt) > 0) &&
    (lt === undefined || Buffer.compare(key, lt) < 0) &&
    (lte === undefined || Buffer.compare(key, lte) <= 0)
}

/** A database of abstract-level in one table of a Pando database. Without a location it is in memory. */
class PandoLevel extends AbstractLevel {
  #location
  #options
  #db
  #table

  constructor (location, options) {
    const { table = 'level', pando = {}, ...rest } = options ?? {}
    super({
      encodings: { buffer: true },
      createIfMissing: location !== undefined,
      errorIfExists: location !== undefined,
      explicitSnapshots: true,
      getSync: true,
      has: true,
      implicitSnapshots: true,
      permanence: location !== undefined,
      seek: true
    }, rest)
    this.#location = location
    this.#options = { table, pando }
  }

  get location () {
    return this.#location
  }

  /** The table, for iterators. */
  get [kTable] () {
    return this.#table
  }

  /** The database, for snapshots. */
  get [kOpened] () {
    return this.#db
  }

  async _open ({ createIfMissing, errorIfExists }) {
    const { pando, table } = this.#options
    this.#db = this.#location === undefined
      ? this.#db ?? await inMemory(pando)
      : await this.#opened(createIfMissing, errorIfExists, pando)
    this.#table = await this.#db.table(table)
  }

  async #opened (create, mustBeNew, pando) {
    if (mustBeNew) {
      const existing = await open(this.#location, { ...pando, create: false }).catch(error => {
        if (error.code !== 'PANDO_MISSING') throw error
      })
      if (existing !== undefined) {
        await existing.close()
        throw new Error(`${this.#location} exists (errorIfExists is true)`)
      }
    }
    return open(this.#location, { ...pando, create }).catch(error => {
      if (error.code !== 'PANDO_MISSING') throw error
      throw new Error(`${this.#location} does not exist (createIfMissing is false)`, { cause: error })
    })
  }

  async _close () {
    // One in memory can be opened again with its records, as memory-level can.
    if (this.#location !== undefined) await this.#db?.close()
  }

  /** What the options say to read: a snapshot, or the newest state. */
  #reads ({ snapshot }) {
    return snapshot === undefined ? this.#table : snapshot[kView].table(this.#table)
  }

  async _get (key, options) {
    return this.#reads(options).get(key)
  }

  _getSync (key, options) {
    return this.#reads(options).getSync(key)
  }

  async _getMany (keys, options) {
    return this.#reads(options).getMany(keys)
  }

  async _has (key, options) {
    return this.#reads(options).has(key)
  }

  async _hasMany (keys, options) {
    return this.#reads(options).hasMany(keys)
  }

  // Options have what abstract-level adds, too.
  async _put (key, value, { durability }) {
    return this.#table.put(key, value, { durability })
  }

  async _del (key, { durability }) {
    return this.#table.del(key, { durability })
  }

  async _batch (operations, { durability }) {
    return this.#table.batch(operations, { durability })
  }

  async _clear (options) {
    const ends = endsOf(options)
    if (options.limit < 0 && options.snapshot === undefined) return this.#table.deleteRange(ends)
    const limit = options.limit < 0 ? Infinity : options.limit
    for await (const records of this.#reads(options).keyChunks({ ...ends, limit, reverse: options.reverse })) {
      await this.#table.batch(records.map(([key]) => ({ type: 'del', key })))
    }
  }

  _iterator (options) {
    return new PandoIterator(this, options)
  }

  _snapshot (options) {
    return new PandoSnapshot(this, options)
  }
}

class PandoIterator extends AbstractIterator {
  #cursor
  #snapshot
  #ends
  #reverse
  #keysOnly
  #records = []
  #at = 0
  #isOutside = false

  constructor (db, options) {
    super(db, options)
    // A seek, and the first read of a snapshot, need them later: the caller may have changed its own.
    this.#ends = Object.fromEntries(Object.entries(endsOf(options)).map(([end, key]) => [end, Buffer.from(key)]))
    this.#keysOnly = options.values === false
    this.#reverse = options.reverse
    this.#snapshot = options.snapshot
    // Without a snapshot of the caller, what is read is what is there now.
    if (this.#snapshot === undefined) this.#cursor = db[kTable].cursor(this.#ends, this.#keysOnly)
  }

  /** The cursor. A snapshot may be closed before the first read, which abstract-level then refuses. */
  #opened () {
    this.#cursor ??= this.#snapshot[kView].table(this.db[kTable]).cursor(this.#ends, this.#keysOnly)
    return this.#cursor
  }

  /** Sees to it that there are records; false at the end. */
  async #ready () {
    if (this.#at < this.#records.length) return true
    if (this.#isOutside) return false
    this.#records = await this.#opened().next(this.#reverse)
    this.#at = 0
    return this.#records.length > 0
  }

  async _next () {
    return await this.#ready() ? this.#records[this.#at++] : undefined
  }

  async _nextv (size) {
    const taken = []
    while (taken.length < size && await this.#ready()) {
      const count = Math.min(size - taken.length, this.#records.length - this.#at)
      for (let i = 0; i < count; i++) taken.push(this.#records[this.#at++])
    }
    return taken
  }

  _seek (target) {
    this.#records = []
    this.#at = 0
    this.#isOutside = !isWithin(target, this.#ends)
    if (!this.#isOutside) this.#opened().seek(target, this.#reverse)
  }

  async _close () {
    this.#cursor?.close()
  }
}

class PandoSnapshot extends AbstractSnapshot {
  constructor (db, options) {
    super(options)
    this[kView] = db[kOpened].snapshot()
  }

  async _close () {
    await this[kView].close()
  }
}

module.exports = { PandoLevel }
