// Drizzle's tutorial for SQLite: <https://orm.drizzle.team/docs/get-started/turso-new> and its guides to queries.
import assert from 'node:assert/strict';
import { asc, between, count, eq, getTableColumns, relations, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/libsql';
import { migrate } from 'drizzle-orm/libsql/migrator';
import { postsTable, usersTable } from './schema';

const schema = {
  usersTable,
  postsTable,
  ofUsers: relations(usersTable, ({ many }) => ({ posts: many(postsTable) })),
  ofPosts: relations(postsTable, ({ one }) => ({
    user: one(usersTable, { fields: [postsTable.userId], references: [usersTable.id] }),
  })),
};
const db = drizzle({ connection: { url: process.env.URL! }, schema });
const migrationsFolder = `migrations-${process.env.DIALECT}`;
await migrate(db, { migrationsFolder });
await migrate(db, { migrationsFolder });

const john: typeof usersTable.$inferInsert = { name: 'John', age: 30, email: 'john@example.com' };
await db.insert(usersTable).values(john);
assert.deepEqual(await db.select().from(usersTable), [{ id: 1, ...john }]);
await db.update(usersTable).set({ age: 31 }).where(eq(usersTable.email, john.email));
const posts = await db.insert(postsTable)
  .values([{ title: 'a', content: 'b', userId: 1 }, { title: 'c', content: 'd', userId: 1 }]).returning();
assert.ok(posts[1].id === 2 && posts[1].updateAt instanceof Date && posts[1].createdAt.startsWith('20'));

const counted = await db.select({ ...getTableColumns(usersTable), postsCount: count(postsTable.id) }).from(usersTable)
  .leftJoin(postsTable, eq(usersTable.id, postsTable.userId)).groupBy(usersTable.id).orderBy(asc(usersTable.id)).limit(5).offset(0);
assert.deepEqual(counted, [{ id: 1, ...john, age: 31, postsCount: 2 }]);
const recent = await db.select({ id: postsTable.id, title: postsTable.title }).from(postsTable)
  .where(between(postsTable.createdAt, sql`datetime('now', '-1 day')`, sql`datetime('now')`)).orderBy(asc(postsTable.title)).limit(5);
assert.deepEqual(recent, [{ id: 1, title: 'a' }, { id: 2, title: 'c' }]);
await db.update(postsTable).set({ title: 'z' }).where(eq(postsTable.id, 1));
const nested = await db.query.usersTable.findMany({ with: { posts: { with: { user: true } } } });
assert.deepEqual(nested[0].posts.map((post) => [post.title, post.user.name]), [['z', 'John'], ['c', 'John']]);

await db.insert(usersTable).values({ ...john, age: 3 }).onConflictDoUpdate({ target: usersTable.email, set: { age: 99 } });
await db.insert(usersTable).values(john).onConflictDoNothing();
await db.transaction(async (tx) => {
  assert.equal((await tx.select().from(usersTable))[0].age, 99);
  await tx.update(usersTable).set({ age: 1 });
  await assert.rejects(tx.transaction(async (inner) => {
    await inner.update(usersTable).set({ age: 2 });
    inner.rollback();
  }));
});
await assert.rejects(db.transaction(async (tx) => {
  await tx.delete(usersTable);
  tx.rollback();
}));
const [added, all] = await db.batch([
  db.insert(usersTable).values({ name: 'B', age: 4, email: 'b' }).returning({ id: usersTable.id }),
  db.select().from(usersTable),
]);
assert.ok(added[0].id > 1);
assert.deepEqual(all.map(({ name, age }) => [name, age]), [['John', 1], ['B', 4]]);
const duplicate = db.insert(usersTable).values({ name: 'B', age: 4, email: 'b' });
await assert.rejects(duplicate, (error: any) => error.cause.code === 'SQLITE_CONSTRAINT_UNIQUE');
const [busy, other] = [db, drizzle({ connection: { url: process.env.URL! } })].map((one) =>
  one.transaction(async (tx) => {
    await tx.update(usersTable).set({ age: sql`age + 1` }).where(eq(usersTable.email, 'b'));
    await new Promise((resolve) => setTimeout(resolve, 200));
  }));
const ended = await Promise.allSettled([busy, other]);
const failed = ended.filter((one) => one.status === 'rejected');
assert.deepEqual(failed.map((one) => (one as PromiseRejectedResult).reason.code), ['SQLITE_BUSY']);
await db.delete(usersTable).where(eq(usersTable.email, john.email));
console.log(`hrana: drizzle's tutorial passed (${process.env.DIALECT})`);
