"""Values of any length as binary files."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._pando import ValueReader

# A piece of a long value, which the engine reads and verifies as a whole.
PIECE_BYTES = 256 << 10


class _RawValue(io.RawIOBase):
    """A value as a raw file, which ``io.BufferedReader`` wraps."""

    def __init__(self, reader: ValueReader) -> None:
        self._reader = reader
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        with memoryview(buffer).cast("B") as view:
            found = self._reader.read(len(view))
            view[: len(found)] = found
        self._position += len(found)
        return len(found)

    def readall(self) -> bytes:
        began = self._position
        pieces: list[bytes] = []
        try:
            while piece := self._reader.read(PIECE_BYTES):
                pieces.append(piece)
                self._position += len(piece)
        except BaseException:
            # No byte is skipped: the next read begins where this one began.
            self.seek(began)
            raise
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence is {whence}, which is none of io's three")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._reader.size}[whence]
        if base + offset < 0:
            raise ValueError("the place is before the first byte of the value")
        self._reader.seek(base + offset)
        self._position = base + offset
        return self._position

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._reader.close()


def file_of(reader: ValueReader) -> io.BufferedReader:
    """Returns a binary file, with ``read``, ``seek`` and ``close``."""
    return io.BufferedReader(_RawValue(reader), PIECE_BYTES)
