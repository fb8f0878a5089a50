'use strict'

// What functions take: a wrong name or type is an error that says which one, and is never ignored.

const shown = given => given === null ? 'null' : Array.isArray(given) ? 'an array' : `a value of type ${typeof given}`

/** Returns options whose names are those of `kinds`, each undefined or of its type; 'any' leaves the check to others. */
function optionsOf (given, kinds) {
  if (given === undefined) return {}
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    throw new TypeError(`options must be an object, not ${shown(given)}`)
  }
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(kinds, name)) {
      throw new TypeError(`there is no option ${name} here; the options are ${Object.keys(kinds).join(', ')}`)
    }
    if (given[name] !== undefined && kinds[name] !== 'any') typed(given[name], name, kinds[name])
  }
  return given
}

/** Returns a value that has a type. */
function typed (given, name, kind) {
  if (typeof given !== kind) throw new TypeError(`${name} must be a ${kind}, not ${shown(given)}`)
  return given
}

const textOf = (given, name) => typed(given, name, 'string')

/** Throws unless a number is a whole one from 0 on, or Infinity if that is possible. */
function checkWhole (given, name, { orInfinity = false } = {}) {
  typed(given, name, 'number')
  if (given < 0 || !(Number.isSafeInteger(given) || (orInfinity && given === Infinity))) {
    throw new RangeError(`${name} is ${given}; it must be a whole number from 0 on`)
  }
}

/** The options of a table. */
const TABLE = { layout: 'string', compression: 'string', ttlMs: 'number', ttlByKey: 'boolean' }
const DURABILITY = { durability: 'string' }
const TRANSACTION = { durability: 'string', isolation: 'string' }

module.exports = { optionsOf, typed, textOf, checkWhole, shown, TABLE, DURABILITY, TRANSACTION }
