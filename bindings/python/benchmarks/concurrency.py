"""Measures how late the loop of asyncio is, and how much two threads read, each beside a control without Pando.

    python benchmarks/concurrency.py [--rounds 3] [--tasks 1000] [--loop-only] [--threads-only] [--dir DIRECTORY]

All of a table take turns in each round, in an order that changes. The tables have the median of the rounds.

* Loop: a ticker of 1 ms beside tasks that each make 100 bytes durable and read them again. One control does the same with
  a file of its own, on as many threads. For the other one, the loop has nothing to do but its ticker, while another process
  does the work with Pando. "Without waits" leaves out the time for which the loop's thread was ready and waited for a
  processor, which other threads had. `scripts/loop-calls` counts what the loop's thread asks of the system meanwhile.
* Threads: as much work for each of two threads as for one. A control shows what two threads can get of the machine at that
  moment. That of `multi_get` computes checksums, for which the interpreter releases its lock as well. That of single gets
  is a loop of Python, during which the interpreter has its lock, if it has one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import sysconfig
import tempfile
import threading
import time
import zlib
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

import pando
from pando import aio

VALUE = bytes(range(100))
KEYS = list(range(20_000))


def waited_ms() -> float:
    """Returns for how long this thread was ready to run and waited for a processor, on Linux; 0 elsewhere."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e6
    except OSError:
        return 0.0


def phase(name: str) -> None:
    """Shows `scripts/loop-calls` where a part begins, and which thread is the loop's; an empty name ends the part."""
    os.path.exists(f"/phase:{name}")


async def lateness(name: str, tasks: int, task: Callable[[int], Awaitable[None]]) -> tuple[float, float, float, float]:
    """Returns how late a ticker is at most, also without waits, and in the middle, and the tasks a second."""
    late: list[float] = []
    own: list[float] = []

    async def tick() -> None:
        while True:
            waited, due = waited_ms(), time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            late.append((time.perf_counter() - due) * 1000)
            own.append(late[-1] - (waited_ms() - waited))

    async def begin(number: int) -> None:
        # The tasks begin in the order in which an application gets its requests, not all in one turn of the loop.
        await asyncio.sleep(number % 50 / 1000)
        await task(number)

    ticker = asyncio.create_task(tick())
    phase(name)
    began = time.perf_counter()
    await asyncio.gather(*(begin(number) for number in range(tasks)))
    seconds = time.perf_counter() - began
    phase("")
    ticker.cancel()
    return max(late), max(own), statistics.median(late), tasks / seconds


async def work_for_another(root: Path, tasks: int) -> None:
    """Does the tasks with Pando each time that a line comes, and says when they are done."""
    async with await aio.create(root) as db:
        table = await db.table("t", key=int, value=bytes)

        async def use(number: int) -> None:
            await table.put(number, VALUE)
            assert await table.get(number) == VALUE

        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            await asyncio.gather(*(use(number) for number in range(tasks)))
            print("done", flush=True)


async def measure_loop(root: Path, rounds: int, tasks: int) -> None:
    file = os.open(root / "control", os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes(tasks * len(VALUE)), 0)
    os.fsync(file)
    executor = ThreadPoolExecutor(aio.DEFAULT_THREADS)
    loop = asyncio.get_running_loop()

    def write(number: int) -> None:
        os.pwrite(file, VALUE, number * len(VALUE))
        os.fdatasync(file)

    async def control(number: int) -> None:
        await loop.run_in_executor(executor, write, number)
        read = await loop.run_in_executor(executor, os.pread, file, len(VALUE), number * len(VALUE))
        assert read == VALUE

    asked = [__file__, "--work-for-another", str(root / "other"), "--tasks", str(tasks)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *asked, stdin=pipe, stdout=pipe)
    assert process.stdin is not None and process.stdout is not None
    requests, replies = process.stdin, process.stdout

    async def idle(number: int) -> None:
        if number == 0:
            requests.write(b"\n")
            assert await replies.readline() == b"done\n"

    async with await aio.create(root / "db") as db:
        table = await db.table("t", key=int, value=bytes)

        async def use(number: int) -> None:
            await table.put(number, VALUE)
            assert await table.get(number) == VALUE

        works = {"Pando": use, "control: a file": control, "control: idle, another process works": idle}
        found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in works}
        # The first round starts the threads of all, and is not counted.
        for number in range(-1, rounds):
            for name, task in works.items() if number % 2 == 0 else reversed(works.items()):
                result = await lateness(name if number >= 0 else "", tasks, task)
                if number >= 0:
                    found[name].append(result)
        assert await table.count() == tasks
    requests.close()
    await process.wait()
    executor.shutdown()
    os.close(file)
    print(f"| {tasks} tasks at a time | late at most | without waits | in the middle | tasks/s |")
    print("|---|---:|---:|---:|---:|")
    for name, results in found.items():
        most, own, middle, speed = (statistics.median(column) for column in zip(*results))
        each_most, each_own = (", ".join(f"{result[place]:.1f}" for result in results) for place in (0, 1))
        print(f"| {name} | {most:.1f} ms ({each_most}) | {own:.1f} ms ({each_own}) | {middle:.2f} ms | {speed:.0f} |")


def seconds_of(work: Callable[[], None], count: int) -> tuple[float, float]:
    """Returns how long the threads take, and how long the slowest takes without its waits for a processor."""
    own: list[float] = []

    def run() -> None:
        waited, began = waited_ms(), time.perf_counter()
        work()
        own.append(time.perf_counter() - began - (waited_ms() - waited) / 1000)

    threads = [threading.Thread(target=run) for _ in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began, max(own)


def measure_threads(root: Path, rounds: int) -> None:
    block = bytes(1 << 20)
    with pando.create(root / "threads", durability="buffered") as db:
        table = db.table("t", key=int)
        table.update((number, bytes(1000)) for number in KEYS)
        db.checkpoint()

        def gets() -> None:
            for _ in range(5):
                assert len(table.multi_get(KEYS)) == len(KEYS)

        def control() -> None:
            for _ in range(400):
                zlib.crc32(block)

        def single_gets() -> None:
            for _ in range(5):
                for key in KEYS:
                    assert len(table[key]) == 1000

        def loop() -> None:
            total = 0
            for number in range(1_000_000):
                total += number % 7
            assert total

        works = {
            "multi_get of 20,000 keys": gets,
            "control: checksums": control,
            "20,000 single gets": single_gets,
            "control: a loop of Python": loop,
        }
        found: dict[str, list[list[float]]] = {name: [] for name in works}
        for number in range(rounds):
            for name, work in works.items() if number % 2 == 0 else reversed(works.items()):
                one, two = seconds_of(work, 1), seconds_of(work, 2)
                found[name].append([2 * alone / both for alone, both in zip(one, two)])
    print("| two threads | times as much as one | without waits |")
    print("|---|---:|---:|")
    for name, ratios in found.items():
        cells = (f"{statistics.median(each):.2f} ({', '.join(f'{one:.2f}' for one in each)})" for each in zip(*ratios))
        print(f"| {name} | {' | '.join(cells)} |")


def interpreter() -> str:
    """Returns the version of the interpreter, and whether it has its lock."""
    version = f"CPython {sys.version.split()[0]}"
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return version
    return f"{version}, free-threaded, {'with' if sys._is_gil_enabled() else 'without'} the lock"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--dir")
    parser.add_argument("--loop-only", action="store_true", help="leave the threads out")
    parser.add_argument("--work-for-another", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads-only", action="store_true", help="leave the loop of asyncio out")
    given = parser.parse_args()
    if given.work_for_another is not None:
        asyncio.run(work_for_another(given.work_for_another, given.tasks))
        return
    print(f"{interpreter()}\n")
    with tempfile.TemporaryDirectory(dir=given.dir) as root:
        if not given.threads_only:
            asyncio.run(measure_loop(Path(root), given.rounds, given.tasks))
            print()
        if not given.loop_only:
            measure_threads(Path(root), given.rounds)


if __name__ == "__main__":
    main()
