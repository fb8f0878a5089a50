// A second migration, which makes a table anew, keeps its rows, and goes on with its ids.
import assert from 'node:assert/strict';
import { drizzle } from 'drizzle-orm/libsql';
import { migrate } from 'drizzle-orm/libsql/migrator';
import { usersTable } from './schema';

const db = drizzle({ connection: { url: process.env.URL! } });
const before = await db.select().from(usersTable);
await migrate(db, { migrationsFolder: 'migrations-sqlite' });
assert.deepEqual(await db.select().from(usersTable), before);
const [{ id }] = await db.insert(usersTable).values({ name: 'no age', email: 'n' }).returning({ id: usersTable.id });
assert.ok(id > before[before.length - 1].id);
