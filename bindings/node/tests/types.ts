// What the types allow, and what they refuse. It is compiled, and not run.

import { inMemory, open, PandoError, Table } from 'pando-db'
import { PandoLevel } from 'pando-db/level'
import { KeyvPando } from 'pando-db/keyv'
import Keyv from 'keyv'

export async function uses(): Promise<number> {
  const db = await open('x', { memoryBytes: 1 << 25, durability: 'lazy', readOnly: false })
  const table: Table = await db.table('t', { layout: 'lsm' })
  await table.put('k', new Uint8Array(1))
  const value: Buffer | undefined = await table.get(Buffer.from('k'))
  for await (const [key, found] of table.range({ gte: 'a', reverse: true, limit: 3 })) key.compare(found)
  const length: number = await db.transact(async tx => {
    const t = tx.table(table)
    t.put('a', 'b')
    // @ts-expect-error It could not see this put.
    t.getSync('a')
    t.writeStream('w', { ttlMs: 1000 }).end('bytes')
    return (await t.get('a'))?.length ?? 0
  })
  try {
    await table.batch([{ type: 'put', key: 'a', value: 'b' }, { type: 'del', key: 'a' }])
  } catch (error) {
    if (error instanceof PandoError && error.code === 'PANDO_CONFLICT') console.log(error.table, error.key?.length)
    if (error instanceof PandoError && error.sqliteCode === 2067) console.log(await table.hasMany(['a', Buffer.of(1)]))
  }
  await table.put('k', 'v', { ttlMs: 1000 })
  const stream = await table.readStream('k', { start: 1, end: 2 })
  stream?.pipe(process.stdout)
  console.log(stream?.valueLength)
  const mails = await db.consumer('mails')
  for await (const change of await mails.changes({ tables: table, prefix: 'k' })) {
    for (const { kind, key } of change.operations) if (kind === 'put') key?.toString()
    await mails.acknowledge(change)
  }
  // @ts-expect-error There is no such kind of operation.
  const strange = (await (await db.changes()).next({ timeoutMs: 5 }))?.operations[0]?.kind === 'insert'
  if (strange) await db.dropConsumer('mails')
  const rows = await db.sql<{ n: number }>('SELECT ? AS n', 1n, null, new Date(), Buffer.of(1))
  const sum: number = rows[0].n + rows.changes
  const connection = await db.connect()
  const statement = await connection.prepare('SELECT :a AS a')
  for await (const row of statement.iterate({ a: sum })) if (typeof row.a === 'bigint') row.a.toString(16)
  // @ts-expect-error A function is no parameter.
  await db.sql('SELECT ?', () => 1)
  // @ts-expect-error A number is no key.
  await table.get(1)
  // @ts-expect-error There is no such durability.
  await inMemory({ durability: 'none' })
  // @ts-expect-error A put has a value.
  await table.batch([{ type: 'put', key: 'a' }])

  const level = new PandoLevel<string, { n: number }>('x', { valueEncoding: 'json', pando: { memoryBytes: 1 << 25 } })
  const got: { n: number } | undefined = await level.get('k')
  const keyv = new Keyv({ store: new KeyvPando(db) })
  await keyv.set('k', got)
  return length + (value?.length ?? 0)
}
