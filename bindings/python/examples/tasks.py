"""asyncio: many tasks, one database, and a loop that never waits for the disk."""

import asyncio

from pando import aio


async def main() -> None:
    async with await aio.in_memory() as db:
        table = await db.table("squares", key=int, value=str)
        await asyncio.gather(*(table.put(number, str(number * number)) for number in range(100)))
        async with db.write() as tx:
            await tx[table].put(-1, "1")
        async for number, square in table.range(-5, 3):
            print(number, square)


if __name__ == "__main__":
    asyncio.run(main())
