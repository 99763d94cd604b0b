"""The filter's numbers are those of the kernel's headers, and it denies what it names."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from treadle.sandbox import seccomp

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernel(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("no kernel headers here")
    text = HEADERS[machine].read_text()
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
    numbers = {name: int(number) for name, number in found}
    column = seccomp.MACHINES[machine]
    named = {**seccomp._DENIED, **seccomp._SHARED, **seccomp._OTHERS, **seccomp._WITH_MODE}
    named |= {**seccomp._METADATA, **seccomp._OF_ANOTHER, **seccomp._SIGNALS}
    named["fcntl"] = seccomp._FCNTL
    here = {name: both[column] for name, both in named.items() if both[column] != -1}
    known = {name: number for name, number in here.items() if name in numbers}
    assert known == {name: numbers[name] for name in known}
    assert len(known) > 40


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_it_allows_what_it_does_not_know_and_kills_other_machines(machine: str) -> None:
    code = seccomp.make_filter(machine, [seccomp.AF_UNIX])
    assert answer(code, arch=0x40000003, number=1) == 0x80000000
    mine = 0xC000003E if machine == "x86_64" else 0xC00000B7
    column = seccomp.MACHINES[machine]
    assert answer(code, arch=mine, number=1) == 0x7FFF0000
    for name, numbers in seccomp._DENIED.items():
        assert answer(code, arch=mine, number=numbers[column]) == 0x00050001, name
    shared = seccomp.make_filter(machine, [seccomp.AF_UNIX], has_own_ipc=False)
    for name, numbers in seccomp._SHARED.items():
        assert answer(code, arch=mine, number=numbers[column]) == 0x7FFF0000, name
        assert answer(shared, arch=mine, number=numbers[column]) == 0x00050001, name
    clone, clone3, socket, ioctl = (
        seccomp._OTHERS[name][column] for name in ("clone", "clone3", "socket", "ioctl")
    )
    assert answer(code, arch=mine, number=clone, first=17) == 0x7FFF0000
    assert answer(code, arch=mine, number=clone, first=0x10000000 | 17) == 0x00050001
    assert answer(code, arch=mine, number=clone3) == 0x00050000 | 38
    assert answer(code, arch=mine, number=socket, first=1) == 0x7FFF0000
    assert answer(code, arch=mine, number=socket, first=2) == 0x00050001
    for request in (0x5412, 0x541C):
        assert answer(code, arch=mine, number=ioctl, second=request) == 0x00050001
    assert answer(code, arch=mine, number=ioctl, second=0x5401) == 0x7FFF0000


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_of_netlink_only_addresses_are_open_and_no_file_gets_the_mode_of_another(
    machine: str,
) -> None:
    code = seccomp.make_filter(machine, [seccomp.AF_UNIX, seccomp.AF_NETLINK])
    mine = 0xC000003E if machine == "x86_64" else 0xC00000B7
    column = seccomp.MACHINES[machine]

    def asked(number: int, *arguments: int) -> bool:
        said = answer(code, arch=mine, number=number, arguments=arguments)
        assert said in (0x7FFF0000, 0x00050001)
        return said == 0x7FFF0000

    socket = seccomp._OTHERS["socket"][column]
    assert [asked(socket, 16, 3, protocol) for protocol in (0, 9, 12)] == [True, False, False]
    assert asked(socket, 1)
    assert not asked(socket, 2)
    creates, opens = 0o101, 0o1
    for name, (x86, arm, at) in seccomp._WITH_MODE.items():
        number = (x86, arm)[column]
        for mode in (0o755, 0o4755, 0o2755, 0o6755, 0o1777):
            is_bad = bool(mode & seccomp._MODE_BITS[name])
            for flags in (creates, opens) if name in seccomp._OPEN else (creates,):
                arguments = [0] * (at - 1) + [flags, mode]
                if number != -1:
                    is_allowed = asked(number, *arguments)
                    assert is_allowed is (not is_bad or flags == opens), (name, oct(mode))


READING = {
    "chmod-like": ("_METADATA", (0, 0), False),
    "of another program": ("_OF_ANOTHER", (7, 0), False),
    "of the caller": ("_OF_ANOTHER", (0, 0), True),
}
IOCTLS = {
    0x5401: True,  # TCGETS
    0x541B: True,  # FIONREAD
    0x802C542A: True,  # TCGETS2
    0x8910: True,  # SIOCGIFNAME
    0x80086601: True,  # FS_IOC_GETFLAGS
    0x5412: False,  # TIOCSTI
    0x40086602: False,  # FS_IOC_SETFLAGS
    0x401C5820: False,  # FS_IOC_FSSETXATTR
    0x40087602: False,  # FS_IOC_SETVERSION
    0x5000940E: False,  # BTRFS_IOC_SUBVOL_CREATE
    0x40806685: False,  # FS_IOC_ENABLE_VERITY
    0x800C6613: False,  # FS_IOC_SET_ENCRYPTION_POLICY
}


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_a_command_that_only_reads_changes_no_file_and_no_program_that_landlock_leaves_open(
    machine: str,
) -> None:
    mine = 0xC000003E if machine == "x86_64" else 0xC00000B7
    column = seccomp.MACHINES[machine]
    filters = {
        one: seccomp.make_filter(machine, [], has_own_ipc=False, outside=one)
        for one in (seccomp.OPEN, seccomp.UNCHANGED, seccomp.UNCHANGED_AND_UNSIGNALLED)
    }

    def passes(outside: seccomp.Outside, number: int, *arguments: int) -> bool:
        said = answer(filters[outside], arch=mine, number=number, arguments=arguments)
        assert said in (0x7FFF0000, 0x00050001)
        return said == 0x7FFF0000

    wrong = []
    for name, (table, arguments, is_allowed) in READING.items():
        for call, numbers in getattr(seccomp, table).items():
            number = numbers[column]
            for outside in filters:
                expected = is_allowed or outside is seccomp.OPEN
                if number != -1 and passes(outside, number, *arguments) != expected:
                    wrong.append((name, call, outside))
    ioctl = seccomp._OTHERS["ioctl"][column]
    for request, is_allowed in IOCTLS.items():
        for outside in filters:
            expected = is_allowed or (outside is seccomp.OPEN and request != 0x5412)
            if passes(outside, ioctl, 0, request) != expected:
                wrong.append(("ioctl", hex(request), outside))
    signals = [(numbers[column], (1, 9)) for numbers in seccomp._SIGNALS.values()]
    fcntl = seccomp._FCNTL[column]
    signals += [(fcntl, (3, 8)), (fcntl, (3, 15)), (ioctl, (3, 0x8901)), (ioctl, (3, 0x8902))]
    for number, arguments in signals:
        wrong += [
            ("signal", str(number), outside)
            for outside in filters
            if passes(outside, number, *arguments) == outside.denies_signals
        ]
    assert passes(seccomp.UNCHANGED_AND_UNSIGNALLED, fcntl, 3, 1)
    assert wrong == []


def answer(
    code: bytes,
    *,
    arch: int,
    number: int,
    first: int = 0,
    second: int = 0,
    arguments: tuple[int, ...] = (),
) -> int:
    """What the kernel would do: its machine for filters, as far as ours goes."""
    six = (*(arguments or (first, second)), 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<IIQ6Q", number, arch, 0, *six)
    steps = list(struct.iter_unpack("=HBBI", code))
    at = loaded = 0
    while True:
        op, when_true, when_false, value = steps[at]
        if op == 0x06:
            return int(value)
        if op == 0x20:
            loaded = struct.unpack_from("<I", data, value)[0]
        elif op == 0x54:
            loaded &= value
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[op]
            at += when_true if holds else when_false
        at += 1
