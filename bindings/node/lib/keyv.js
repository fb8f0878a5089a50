'use strict'

// Pando as a storage adapter of Keyv. Keyv puts the namespace before the keys, and the expiry into the values.

const { EventEmitter } = require('node:events')
const { open, inMemory } = require('.')

/**
 * A store of Keyv in one table of a Pando database: of one that is open, or of the one in the directory `at`. Without
 * `at` it is in memory.
 */
class KeyvPando extends EventEmitter {
  #opened
  #db
  #table
  #isOwner

  constructor (at, { table = 'keyv', ...options } = {}) {
    super()
    // Keyv 5 gives an iterator only to stores whose dialect is one that it knows, and asks for nothing else of it.
    this.opts = { dialect: 'sqlite', url: typeof at === 'string' ? at : '', table }
    this.namespace = undefined
    this.#isOwner = at === undefined || typeof at === 'string'
    this.#opened = this.#open(at, table, options)
    // Every call reports the failure; none may ever be made.
    this.#opened.catch(error => { if (this.listenerCount('error') > 0) this.emit('error', error) })
  }

  async #open (at, table, options) {
    if (!this.#isOwner) this.#db = at
    else this.#db = at === undefined ? await inMemory(options) : await open(at, options)
    this.#table = await this.#db.table(table)
  }

  async get (key) {
    await this.#opened
    return (await this.#table.get(key))?.toString()
  }

  async getMany (keys) {
    await this.#opened
    const values = await this.#table.getMany(keys)
    return values.map(value => value?.toString())
  }

  async set (key, value) {
    await this.#opened
    await this.#table.put(key, value)
    return true
  }

  async setMany (entries) {
    await this.#opened
    await this.#table.batch(entries.map(({ key, value }) => ({ type: 'put', key, value })))
    return entries.map(() => true)
  }

  async delete (key) {
    return this.deleteMany([key])
  }

  /** Returns whether any of the keys existed. */
  async deleteMany (keys) {
    await this.#opened
    return this.#db.transact(async tx => {
      const table = tx.table(this.#table)
      let any = false
      for (const key of keys) any = (await table.remove(key)) !== undefined || any
      return any
    })
  }

  async has (key) {
    await this.#opened
    return this.#table.has(key)
  }

  async hasMany (keys) {
    await this.#opened
    return this.#table.hasMany(keys)
  }

  /** Deletes the keys of the namespace; without one, all. */
  async clear () {
    await this.#opened
    await this.#table.deleteRange(this.namespace ? { prefix: `${this.namespace}:` } : {})
  }

  /** Iterates over the keys of a namespace, and their values. */
  async * iterator (namespace) {
    await this.#opened
    const range = namespace ? { prefix: `${namespace}:` } : {}
    for await (const [key, value] of this.#table.range(range)) yield [key.toString(), value.toString()]
  }

  /** Closes the database, unless it was opened by the caller. */
  async disconnect () {
    await this.#opened
    if (this.#isOwner) await this.#db.close()
  }
}

module.exports = { KeyvPando, default: KeyvPando }
