"""Ways to read what is not the workspace's. Each finds a secret that the output must not hold."""

from __future__ import annotations

from typing import Final

from escapes.probes.probe import Probe, python

SECRETS: Final = (
    Probe("an ssh key", 'cat "$HOME_/.ssh/id_ed25519"'),
    Probe("~", "cat ~/.ssh/id_ed25519"),
    Probe("cloud credentials", 'cat "$HOME_/.aws/credentials"'),
    Probe("logins", 'cat "$HOME_/.netrc"'),
    Probe("a token of GitHub", 'cat "$HOME_/.config/gh/hosts.yml"'),
    Probe("git's passwords", 'cat "$HOME_/.git-credentials"'),
    Probe("the history of the shell", 'cat "$HOME_/.bash_history"'),
    Probe("a key of gpg", 'cat "$HOME_/.gnupg/private.key"'),
    Probe("everything in the home", 'tar c "$HOME_" | grep -a canary'),
    Probe("searching the home", 'find "$HOME_" -type f -exec cat {} +'),
    Probe("as base64", 'base64 -w0 "$HOME_/.ssh/id_ed25519"'),
    Probe("as hexadecimal digits", 'od -An -v -tx1 "$HOME_/.ssh/id_ed25519" | tr -d " \\n"'),
    Probe("backwards", 'rev "$HOME_/.ssh/id_ed25519"'),
    Probe("a link to a key", "cat link_to_key"),
    Probe("through another program", 'git diff --no-index /dev/null "$HOME_/.ssh/id_ed25519"'),
    Probe("threads of this program", 'cat "$HOME_/.local/share/treadle/threads/t.jsonl"'),
    Probe("settings of this program", 'cat "$HOME_/.config/treadle/config.toml"'),
    Probe("threads kept elsewhere", 'cat "$HIDDEN/t.jsonl"'),
    Probe("writing threads kept elsewhere", 'echo x > "$HIDDEN/t.jsonl"'),
    Probe("a secret in /tmp", 'cat "$TMP_OUT/secret"'),
    Probe("shared memory", 'cat "/dev/shm/$MARK"'),
    Probe("a key in the environment", "env; export -p; cat /proc/self/environ", control=False),
    Probe(
        "the environment of process 1",
        "cat /proc/1/environ; tr '\\0' '\\n' < /proc/1/environ",
        control=False,
    ),
    Probe("the environment of the runtime", 'cat "/proc/$RUNTIME/environ" > /dev/null && hit'),
    Probe("everybody's environment", "cat /proc/[0-9]*/environ # of the victim, too"),
    Probe("the environment of a process", 'cat "/proc/$VICTIM/environ"'),
    Probe(
        "everybody's arguments",
        "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -a ^canary # the victim's, too",
    ),
    Probe("the root of process 1", 'cat "/proc/1/root$HOME_/.ssh/id_ed25519"', control=False),
    Probe("the root of a process", 'cat "/proc/$VICTIM/root$HOME_/.ssh/id_ed25519"'),
    Probe("the folder of a process", 'cat "/proc/$VICTIM/cwd/secret"'),
    Probe(
        "the descriptors of the runtime", "cat /proc/$RUNTIME/fd/* 2>&1 < /dev/null", control=False
    ),  # reading all of them waits for terminals
    Probe(
        "an inherited descriptor",
        "for f in 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do cat <&$f; done",
        control=False,
    ),
    Probe(
        "the memory of a process",
        python(
            """
for line in open(f"/proc/{E['VICTIM']}/maps"):
    if "[heap]" in line or "[stack]" in line:
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        with open(f"/proc/{E['VICTIM']}/mem", "rb") as memory:
            memory.seek(begin)
            sys.stdout.buffer.write(memory.read(end - begin))
"""
        ),
    ),
    Probe(
        "process_vm_readv",
        python(
            """
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
maps = open(f"/proc/{E['VICTIM']}/maps").read().split("\\n")
begin = next(int(line.split("-")[0], 16) for line in maps if "[stack]" in line)
buffer = ctypes.create_string_buffer(8)
here = Part(ctypes.addressof(buffer), 8)
there = Part(begin, 8)
if libc.process_vm_readv(int(E["VICTIM"]), ctypes.byref(here), 1, ctypes.byref(there), 1, 0) > 0:
    hit()
"""
        ),
    ),
    Probe(
        "files of passwords",
        "for f in /etc/shadow /etc/security/opasswd; do cat $f > /dev/null && hit; done",
        as_root_only=True,
    ),
    Probe(
        "the disk", "for d in /dev/vda /dev/sda /dev/nvme0n1; do : < $d && hit; done", control=False
    ),
    Probe("the kernel's messages", "dmesg > /dev/null && hit", as_root_only=True),
    Probe(
        "a segment of System V",
        python(
            """
number = libc.shmget(int(E["SHM_KEY"]), 0, 0)
if number != -1:
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(number, None, 0o10000)
    print(ctypes.string_at(at))
"""
        ),
    ),
)
