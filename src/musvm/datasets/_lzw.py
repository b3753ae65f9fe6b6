"""Unpacking `.Z` files, the format of the Unix program compress (Lempel, Ziv and Welch).

After a header of three bytes (1f 9d, then the largest code width, plus 128 if code 256 empties
the table) comes a stream of codes, least significant bit first. Widths begin at 9 bits and grow
by one each time the table holds a code that the present width cannot express. Codes are written
in groups of eight, so a change of width or an emptied table skips to the end of a group.
Each code after the first adds one entry: the previous string and the first byte of this one.
"""

from __future__ import annotations

import numpy as np

CLEAR = 256
MIN_WIDTH = 9
BLOCK = 1 << 15  # Codes unpacked at once; a multiple of 8, the size of a group.


def unpack_z(data: bytes, *, max_size: int) -> bytes:
    """Decompress; ValueError if the data is not in the format or exceeds `max_size` unpacked."""
    if len(data) < 3 or data[:2] != b"\x1f\x9d":
        raise ValueError("not a compress (.Z) file")
    max_width, can_clear = data[2] & 0x1F, bool(data[2] & 0x80)
    if not MIN_WIDTH <= max_width <= 16:
        raise ValueError(f"a code width of {max_width} bits is not possible in a .Z file")
    decoder = _Decoder(1 << max_width, can_clear)
    position, width, size = 3, MIN_WIDTH, 0
    while True:
        # The width holds until the table has 2**width entries; at the last width it always does.
        budget = BLOCK if width == max_width else (1 << width) - decoder.n_expected
        codes = _read_codes(data, position, width, min(budget, BLOCK))
        if not codes:
            return b"".join(decoder.output)
        n_used, cleared = decoder.feed(codes)
        size += decoder.last_size
        if size > max_size:
            raise ValueError(f"unpacks to more than {max_size:,} bytes")
        position += -(-n_used // 8) * width
        if cleared:
            width = MIN_WIDTH
        elif width < max_width and decoder.n_expected >= 1 << width:
            width += 1


def _read_codes(data: bytes, position: int, width: int, count: int) -> list[int]:
    """Up to `count` codes of `width` bits from byte `position` on; fewer at the end."""
    raw = np.frombuffer(data[position : position + -(-count * width // 8)], dtype=np.uint8)
    bits = np.unpackbits(raw, bitorder="little")
    complete = bits[: min(count, len(bits) // width) * width].reshape(-1, width)
    codes: list[int] = (complete @ (1 << np.arange(width))).tolist()
    return codes


class _Decoder:
    """The table of strings, and the strings put out so far."""

    def __init__(self, max_entries: int, can_clear: bool) -> None:
        self._max_entries = max_entries
        self._can_clear = can_clear
        self.output: list[bytes] = []
        self.last_size = 0
        self._reset()

    def _reset(self) -> None:
        self._table = [bytes([byte]) for byte in range(256)] + [b""] * self._can_clear
        self._previous = b""

    @property
    def n_expected(self) -> int:
        """Entries of the table, less the one that the first code does not add."""
        return len(self._table) - (not self._previous)

    def feed(self, codes: list[int]) -> tuple[int, bool]:
        """Decode up to and including an order to empty the table: (codes used, was emptied)."""
        n_used = len(codes)
        if cleared := self._can_clear and CLEAR in codes:
            n_used = codes.index(CLEAR) + 1
            codes = codes[: n_used - 1]
        n_before = len(self.output)
        self._decode(codes)
        self.last_size = sum(map(len, self.output[n_before:]))
        if cleared:
            self._reset()
        return n_used, cleared

    def _decode(self, codes: list[int]) -> None:
        table, previous = self._table, self._previous
        for code in codes:
            if code < len(table):
                string = table[code]
            elif code == len(table) and previous:
                string = previous + previous[:1]  # the entry that this very code adds
            else:
                raise ValueError(f"code {code} is not in the table yet: the file is corrupted")
            self.output.append(string)
            if previous and len(table) < self._max_entries:
                table.append(previous + string[:1])
            previous = string
        self._previous = previous
