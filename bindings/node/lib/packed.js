'use strict'

// The buffers of src/packed.rs.

/** Text as UTF-8, and a copy of bytes: the caller may change its own as soon as the call has returned. */
function bytesOf (given, what) {
  const bytes = viewOf(given, what)
  return typeof given === 'string' ? bytes : Buffer.from(bytes)
}

/**
 * Text as UTF-8, and bytes as a Buffer over the same memory. Only for bytes that are packed, or given to the native half,
 * before the call of the package returns.
 */
function viewOf (given, what) {
  if (typeof given === 'string') return Buffer.from(given)
  if (Buffer.isBuffer(given)) return given
  if (given instanceof Uint8Array) return Buffer.from(given.buffer, given.byteOffset, given.byteLength)
  throw new TypeError(`${what} must be a string, a Buffer or a Uint8Array`)
}

/** Writes, one after another: each has a key, and a value unless the key is deleted. */
function packWrites (writes) {
  let length = 0
  for (const { key, value } of writes) length += 9 + key.length + (value === undefined ? 0 : value.length)
  const packed = Buffer.allocUnsafe(length)
  let at = 0
  for (const { key, value } of writes) {
    packed[at] = value === undefined ? 1 : 0
    packed.writeUInt32LE(key.length, at + 1)
    packed.writeUInt32LE(value === undefined ? 0 : value.length, at + 5)
    packed.set(key, at + 9)
    at += 9 + key.length
    if (value !== undefined) {
      packed.set(value, at)
      at += value.length
    }
  }
  return packed
}

/** The different tables of writes, and the place of each write's table among them; no places if there is one table. */
function packTables (writes) {
  const places = new Map()
  for (const { handle } of writes) if (!places.has(handle)) places.set(handle, places.size)
  const tables = [...places.keys()]
  if (tables.length === 1) return { tables, places: undefined }
  const packed = Buffer.allocUnsafe(4 * writes.length)
  writes.forEach(({ handle }, at) => packed.writeUInt32LE(places.get(handle), 4 * at))
  return { tables, places: packed }
}

function packKeys (keys) {
  const packed = Buffer.allocUnsafe(keys.reduce((length, key) => length + 4 + key.length, 0))
  let at = 0
  for (const key of keys) {
    at = packed.writeUInt32LE(key.length, at)
    packed.set(key, at)
    at += key.length
  }
  return packed
}

/** The values that a buffer has; undefined for those that do not exist. They share its memory. */
function unpackValues (packed) {
  const values = []
  for (let at = 0; at < packed.length;) {
    const length = packed.readUInt32LE(at)
    at += 4
    values.push(length === 0 ? undefined : packed.subarray(at, at += length - 1))
  }
  return values
}

/** The records that a buffer has, as pairs. They share its memory. */
function unpackRecords (packed) {
  const records = []
  for (let at = 0; at < packed.length;) {
    const start = at + 8
    const end = start + packed.readUInt32LE(at)
    const next = end + packed.readUInt32LE(at + 4)
    records.push([packed.subarray(start, end), packed.subarray(end, next)])
    at = next
  }
  return records
}

module.exports = { bytesOf, viewOf, packTables, packWrites, packKeys, unpackValues, unpackRecords }
