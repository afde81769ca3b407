"""Reads TensorBoard event files and prints "STEP TAG VALUE" for every scalar.

Does not use TensorBoard: checks the length and both checksums of every record, and reads
the protobuf fields by their wire types.

usage: read_events.py FILE...
"""

import struct
import sys


def crc32c(data):
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        head = data[at : at + 8]
        (length,) = struct.unpack("<Q", head)
        (head_crc,) = struct.unpack("<I", data[at + 8 : at + 12])
        body = data[at + 12 : at + 12 + length]
        (body_crc,) = struct.unpack("<I", data[at + 12 + length : at + 16 + length])
        if head_crc != masked(head) or body_crc != masked(body):
            sys.exit(f"a checksum is wrong at byte {at}")
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack("<d", data[at : at + 8])[0], at + 8
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        elif kind == 5:
            value, at = struct.unpack("<f", data[at : at + 4])[0], at + 4
        else:
            sys.exit(f"wire type {kind}")
        yield number, value


def main():
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            events = [dict(fields(r)) for r in records(file.read())]
        if events[0].get(3) != b"brain.Event:2":
            sys.exit(f"{path} does not begin with its version")
        for event in events[1:]:
            for number, value in fields(event[5]):
                scalar = dict(fields(value))
                print(event[2], scalar[1].decode(), f"{scalar[2]:.6g}")


main()
