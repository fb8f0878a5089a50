'use strict'

const { optionsOf, textOf, shown } = require('./arguments')
const { awaited, immediate } = require('./errors')
const { bytesOf } = require('./packed')
const { Queue } = require('./reads')

const FILTER = { tables: 'any', prefix: 'any' }

/** The names of tables, and a prefix as bytes. */
function filterOf ({ tables = [], prefix }) {
  const given = Array.isArray(tables) ? tables : [tables]
  const names = given.map(table => textOf(typeof table === 'string' ? table : table?.name, 'each of tables'))
  return [names, prefix === undefined ? undefined : bytesOf(prefix, 'the prefix')]
}

/** The longest time of a timer. A longer one ends at once. */
const MOST_MS = 2 ** 31 - 1

/** Waits for a promise, but not longer than so many milliseconds, and not longer than a timer can. */
async function atMost (promise, ms) {
  if (ms === Infinity) return promise
  let timer
  try {
    await Promise.race([promise, new Promise(resolve => { timer = setTimeout(resolve, Math.min(ms, MOST_MS)) })])
  } finally {
    clearTimeout(timer)
  }
}

/** Every commit in order: an async iterator that waits for the next one, and ends when it or the database is closed. */
class Changes {
  #native
  #db
  #queue = new Queue()
  #closed = false

  constructor (handle, db) {
    this.#native = handle
    this.#db = db
  }

  get isClosed () {
    return this.#closed || this.#db.isClosed
  }

  /** Returns the next change. Waits for it, for at most `timeoutMs`; undefined after that, and at the end. */
  async next (options) {
    const { timeoutMs = Infinity } = optionsOf(options, { timeoutMs: 'number' })
    if (!(timeoutMs >= 0)) throw new RangeError(`timeoutMs is ${timeoutMs}; it must be from 0 on`)
    return this.#queue.run(() => this.#wait(Date.now() + timeoutMs))
  }

  async #wait (until) {
    while (!this.isClosed) {
      try {
        const change = await this.#native.next()
        if (change) return change
      } catch (error) {
        if (this.isClosed) break
        throw error
      }
      const left = until - Date.now()
      if (left <= 0) return undefined
      await atMost(this.#native.ready(), left)
      this.#native.rest()
    }
    this.#native.close()
    return undefined
  }

  /** A loop that is left closes the changes. */
  async * [Symbol.asyncIterator] () {
    try {
      for (;;) {
        const change = await this.next()
        if (change === undefined) return
        yield change
      }
    } finally {
      await this.close()
    }
  }

  /** Ends the iterator. A call that waits returns undefined. */
  async close () {
    this.#closed = true
    immediate(() => this.#native.close())
    // A call that is reading lets go of the rest when it ends.
    await this.#queue.run(async () => this.#native.close())
  }
}

/** A named consumer of changes, whose position survives restarts. */
class Consumer {
  #native
  #name
  #db
  #queue = new Queue()

  constructor (handle, name, db) {
    this.#native = handle
    this.#name = name
    this.#db = db
  }

  get name () {
    return this.#name
  }

  /** The last commit that was acknowledged. */
  get position () {
    return immediate(() => this.#native.position())
  }

  /** Opens an async iterator over the changes after the last acknowledged commit. */
  async changes (filter) {
    const [tables, prefix] = filterOf(optionsOf(filter, FILTER))
    return new Changes(await this.#queue.run(() => this.#native.changes(tables, prefix)), this.#db)
  }

  /** Records durably that everything up to a commit, or a change, is done. */
  async acknowledge (commit) {
    const number = typeof commit === 'object' ? commit?.commitNumber : commit
    if (typeof number !== 'number') throw new TypeError(`commit must be a number or a change, not ${shown(commit)}`)
    return this.#queue.run(() => this.#native.acknowledge(number))
  }

  /** Closes the consumer, so that it can be opened again. Its position is kept. */
  async close () {
    return this.#queue.run(async () => this.#native.close())
  }
}

module.exports = { Changes, Consumer, filterOf, FILTER }
