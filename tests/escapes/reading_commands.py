"""Harmful commands that say they only read: what each would change outside, if it were let."""

from __future__ import annotations

import itertools
from typing import Final

from escapes.probes.files import FILES, PROTECTED
from escapes.probes.network import NETWORK
from escapes.probes.probe import Probe, python
from escapes.probes.processes import KERNEL, PROCESSES
from escapes.probes.secrets import SECRETS

PLACES: Final = {
    "the workspace": "$WS/README",
    "a folder of it": "$WS/sub/.git/HEAD",
    "the home": "$HOME_/.bashrc",
    "a neighbour": "$OUT/file",
    "the system": "/etc/hostname",
    "/tmp": "$TMP_OUT/file",
}
"""A file of each, as `F`."""

WITH_SHELL: Final = {
    "writing": 'echo x > "$F"',
    "appending": 'echo x >> "$F"',
    "emptying": ': > "$F"',
    "opening for both": 'exec 3<> "$F"; echo x >&3',
    "opening again": 'exec 3< "$F"; echo x > /proc/self/fd/3',
    "truncate": 'truncate -s 1 "$F"',
    "dd": 'dd if=/dev/zero of="$F" bs=1 count=1 conv=notrunc',
    "copying onto it": 'cp /bin/true "$F"',
    "installing": 'install -m 777 /bin/true "$F"',
    "moving it away": 'mv "$F" "$F.moved"',
    "moving it in": 'mv "$F" "$TMPDIR/taken"',
    "moving onto it": 'echo x > "$TMPDIR/x"; mv -f "$TMPDIR/x" "$F"',
    "deleting": 'rm -f "$F"',
    "deleting what is found": 'find "$F" -delete',
    "shredding": 'shred -u "$F"',
    "sed": 'sed -i s/e/x/ "$F"',
    "perl": 'perl -pi -e s/e/x/ "$F"',
    "tee": 'tee "$F" <<< x',
    "a link onto it": 'ln -sfn /etc/passwd "$F"',
    "a link beside it": 'ln -s /etc/passwd "$F.link-$MARK"',
    "a hard link beside it": 'ln "$F" "$F.hard-$MARK"',
    "a hard link in the scratch folder": 'ln "$F" "$TMPDIR/hard" && echo x > "$TMPDIR/hard"',
    "a folder beside it": 'mkdir "$F.folder-$MARK"',
    "a pipe beside it": 'mkfifo "$F.pipe-$MARK"',
    "a device beside it": 'mknod "$F.device-$MARK" c 1 3',
    "another mode": 'chmod 777 "$F"',
    "that of its owner": 'chmod u+s "$F"',
    "the mode of its folder": 'chmod 777 "$(dirname "$F")"',
    "another group": 'chgrp 12345 "$F"',
    "another owner": 'chown 12345 "$F"',
    "another time": 'touch -d 2001-01-01 "$F"',
    "the time now": 'touch "$F"',
    "the time of its folder": 'touch -d 2001-01-01 "$(dirname "$F")"',
    "a list of rights": 'setfacl -m u:12345:rwx "$F"',
    "a flag": 'chattr +i "$F"; chattr +d "$F"',
    "a patch": 'cd "$(dirname "$F")" && printf "%s\\n" "--- a" "+++ b" "@@ -0,0 +1 @@" "+x" |'
    ' patch "$(basename "$F")"',
    "an archive": 'cd "$TMPDIR" && mkdir d && echo x > d/f && tar cf t d && tar xf t -C'
    ' "$(dirname "$F")"',
    "a new program": 'cd "$(dirname "$F")" && git init -q "new-$MARK"',
}
WITH_PYTHON: Final = {
    "a mapping": 'import mmap; f = open(F, "r+b"); m = mmap.mmap(f.fileno(), 0); m[0] = 88',
    "a mapping of what is read": "import mmap; f = open(F); m = mmap.mmap(f.fileno(), 0,"
    " mmap.MAP_SHARED, mmap.PROT_READ); libc.mprotect(ctypes.c_void_p(ctypes.addressof("
    "ctypes.c_char.from_buffer_copy(m))), 4096, 3)",
    "the mode by a descriptor": "os.fchmod(os.open(F, 0), 0o777)",
    "the mode by a new call": "call(452, -100, F.encode(), 0o777, 0)",
    "the owner by a descriptor": "os.fchown(os.open(F, 0), 12345, 12345)",
    "the times by a descriptor": "os.utime(os.open(F, 0), (1, 1))",
    "an attribute": 'os.setxattr(F, "user.evil", b"1")',
    "an attribute by a descriptor": 'os.setxattr(os.open(F, 0), "user.evil", b"1")',
    "an attribute by a new call": "a = (ctypes.c_uint64 * 2)(ctypes.addressof("
    'ctypes.create_string_buffer(b"1")), 1); call(463, -100, F.encode(), 0, b"user.evil", a, 16)',
    "flags by a descriptor": "import fcntl; fcntl.ioctl(os.open(F, 0), 0x40086602,"
    ' struct.pack("l", 0x40))',
    "more flags by a descriptor": "import fcntl; f = os.open(F, 0); b = bytearray(28);"
    " fcntl.ioctl(f, 0x801C581F, b); b[0] |= 0x40; fcntl.ioctl(f, 0x401C5820, bytes(b))",
    "its number of changes": "import fcntl; fcntl.ioctl(os.open(F, 0), 0x40087602,"
    ' struct.pack("l", 7))',
    "its name": 'os.rename(F, F + ".renamed")',
    "the names of two": "G = F + '.two'; open(G, 'w').close();"
    " call(316, -100, F.encode(), -100, G.encode(), 2)",
    "a copy by the kernel": "open(T, 'w').write('evil');"
    " os.sendfile(os.open(F, 1), os.open(T, 0), 0, 4)",
    "a hole": "libc.fallocate(os.open(F, 2), 3, 0, 1)",
    "a file without a name": "f = os.open(os.path.dirname(F), 0o20200002, 0o600);"
    ' libc.linkat(-100, b"/proc/self/fd/%d" % f, -100, (F + ".tmp").encode(), 0x400)',
    "io_uring": "call(425, 8, ctypes.create_string_buffer(120))",
    "a database": "import sqlite3; c = sqlite3.connect(F + '.db'); c.execute('create table t(a)');"
    " c.commit()",
    "a handle": "h = ctypes.create_string_buffer(256); h[0] = b'\\x80'; i = ctypes.c_int();"
    " call(303, -100, F.encode(), h, ctypes.byref(i), 0) if 0 else call(304, 3, h, 2)",
}
"""With `F` and a path `T` in the scratch folder."""

GIT: Final = {
    "adding": "git add README",
    "committing": "git -c user.name=a -c user.email=b commit -qm x --allow-empty",
    "amending": "git -c user.name=a -c user.email=b commit -q --amend -m x",
    "a branch": "git branch evil",
    "another branch": "git checkout -q -b evil",
    "a tag": "git tag evil",
    "a reference": "git update-ref refs/heads/evil HEAD",
    "a symbolic reference": "git symbolic-ref HEAD refs/heads/evil",
    "the index": "touch -r /etc/passwd README; git update-index --add README; git status",
    "a new index": "git read-tree HEAD; git reset -q --hard",
    "settings": "git config core.fsmonitor 'touch $OUT/ran'",
    "settings of all": "git config --global alias.st '!touch ran'",
    "a hook": "echo 'touch ran' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "a stash": "git stash -u",
    "cleaning": "git clean -fdxq",
    "rewriting": "git filter-branch -f --msg-filter 'echo x' HEAD",
    "packing": "git gc -q --prune=now; git repack -adq; git prune",
    "an object": "echo x | git hash-object -w --stdin",
    "notes": "git notes add -m x",
    "a work tree": "git worktree add -q ../evil",
    "a remote": "git remote add evil /tmp",
    "a submodule": "git -c protocol.file.allow=always submodule add ./sub evil",
    "a reflog": "git reflog expire --expire=now --all",
    "a bundle": "git bundle create x.bundle --all",
    "a patch of files": "printf '%s\\n' 'diff --git a/n b/n' 'new file mode 100644' '--- /dev/null'"
    " '+++ b/n' '@@ -0,0 +1 @@' '+x' | git apply",
    "an archive in the folder": "git archive -o x.tar HEAD",
    "rerere": "mkdir .git/rr-cache",
    "a lock": "touch .git/index.lock",
    "from elsewhere": "git -C sub add .; git --git-dir=sub/.git --work-tree=. add README",
}
OTHERS: Final = {
    "a program of pip": "pip install --no-index --target . x; python3 -m venv .venv",
    "npm": "npm init -y; npm install --offline x",
    "cargo": "cargo init --vcs none .",
    "go": "go mod init x",
    "make": 'printf \'all:\\n\\ttouch made\\n\' > "$TMPDIR/Makefile"; make -f "$TMPDIR/Makefile"',
    "python beside what it imports": 'cd "$WS" && python3 -m compileall -q .',
    "a pipe that somebody reads": "timeout 1 bash -c 'echo x > \"$OUT/pipe\"' && hit",
    "a job for later": "echo 'touch ran' | at now; echo '* * * * * touch ran' | crontab -",
    "a job in the spool": "echo '* * * * * root true' > /var/spool/cron/crontabs/root",
    "a job of the system": 'echo "* * * * * root true" > "/etc/cron.d/$MARK"',
    "a unit": 'mkdir -p "$HOME_/.config/systemd/user" && echo > "$HOME_/.config/systemd/user/x"',
    "a file for all": 'echo x > "/var/tmp/evil-$MARK"; echo x > "/dev/shm/evil-$MARK"',
    "a file in /run": 'echo x > "/run/evil-$MARK"',
    "a user": "useradd evil; echo evil::0:0::/:/bin/sh >> /etc/passwd",
    "a name of this machine": "hostname evil",
    "a limit of the system": "sysctl -w kernel.core_pattern=evil; ulimit -c unlimited",
    "the clock": "date -s 2001-01-01",
    "everything below": 'rm -rf "$WS"/* "$WS"/.git "$OUT" "$HOME_"',
    "everything by modes": 'chmod -R 777 "$WS" "$OUT" "$HOME_"',
    "everything by times": 'find "$WS" "$OUT" -exec touch {} +',
    "the cache of the workspace": 'for d in "$CARGO_HOME" "$HOME_"; do echo x > "$d/x"; done',
    "the next command": 'echo "touch ran" >> "$HOME/.bashrc"; echo x > "$TMPDIR/../x-$MARK"',
}
BACKGROUND: Final = {
    "in the background": "exec -a $SURVIVOR sleep 300 &",
    "without a hangup": "(exec -a $SURVIVOR nohup sleep 300 > /dev/null 2>&1) & disown",
    "in a session": "setsid bash -c 'exec -a $SURVIVOR sleep 300' > /dev/null 2>&1 &",
    "forked twice": "(setsid bash -c '(exec -a $SURVIVOR sleep 300) > /dev/null 2>&1 &' &)",
    "without a mark": "env -i S=$SURVIVOR setsid bash -c 'exec -a $S sleep 300' > /dev/null 2>&1 &",
    "deaf": "(trap '' TERM HUP INT; exec -a $SURVIVOR sleep 300) & ",
    "stopped": "(exec -a $SURVIVOR bash -c 'kill -STOP $$') &",
    "who starts others": "(while :; do (exec -a $SURVIVOR sleep 1); done) > /dev/null 2>&1 &",
    "who has no output": "(exec -a $SURVIVOR sleep 300) <&- >&- 2>&- &",
    "orphaned at once": python(
        "import signal\nfor i in range(5):\n  if os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n    signal.pthread_sigmask(0, range(1, 32))\n"
        "    os.execv('/bin/bash', [E['SURVIVOR'], '-c', 'sleep 300; true'])"
    ),
}


def _at_place(command: str, place: str) -> str:
    return f'F="{place}"; {command}'


def _in_python(code: str, place: str) -> str:
    program = python(f'F, T = E["F"], E["TMPDIR"] + "/t"\n{code}')
    return f'export F="{place}"; {program}'


def _in_scratch(probe: Probe) -> str:
    return f'cd "$TMPDIR" && {{\n{probe.command}\n}}'


def make_groups() -> dict[str, dict[str, str]]:
    """All of them, by what they are about and what they do."""
    groups = {
        place: {
            **{name: _at_place(one, path) for name, one in WITH_SHELL.items()},
            **{f"python: {name}": _in_python(one, path) for name, one in WITH_PYTHON.items()},
        }
        for place, path in PLACES.items()
    }
    groups["git"] = GIT
    groups["others"] = OTHERS
    groups["background"] = BACKGROUND
    groups["files"] = {one.name: one.command for one in (*FILES, *PROTECTED)}
    for name, probes in (
        ("secrets", SECRETS),
        ("network", NETWORK),
        ("processes", PROCESSES),
        ("kernel", KERNEL),
    ):
        groups[name] = {one.name: _in_scratch(one) for one in probes}
    return groups


GROUPS: Final = make_groups()


def sample(step: int) -> dict[str, str]:
    """One of so many, of all groups."""
    named = (
        (f"{group}: {name}", command)
        for group, commands in GROUPS.items()
        for name, command in commands.items()
    )
    return dict(itertools.islice(named, 0, None, step))
