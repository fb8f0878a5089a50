import { EventEmitter } from 'node:events'
import { Database, DatabaseOptions } from './index'

/** A store of Keyv in one table: of a database that is open, or of the one in a directory, or in memory. */
export class KeyvPando extends EventEmitter {
  constructor(at?: string | Database, options?: DatabaseOptions & { table?: string })
  opts: { dialect: string, url: string, table: string }
  namespace: string | undefined
  get<Value>(key: string): Promise<Value | undefined>
  getMany<Value>(keys: string[]): Promise<Array<Value | undefined>>
  set(key: string, value: any, ttl?: number): Promise<boolean>
  setMany(entries: Array<{ key: string, value: any, ttl?: number }>): Promise<boolean[]>
  delete(key: string): Promise<boolean>
  deleteMany(keys: string[]): Promise<boolean>
  has(key: string): Promise<boolean>
  hasMany(keys: string[]): Promise<boolean[]>
  clear(): Promise<void>
  iterator<Value>(namespace?: string): AsyncGenerator<[string, Value], void>
  disconnect(): Promise<void>
}
export default KeyvPando
