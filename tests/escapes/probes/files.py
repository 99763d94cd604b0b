"""Ways to change what lies outside of the workspace."""

from __future__ import annotations

from typing import Final

from escapes.probes.probe import Probe, python

_METADATA: Final = "Landlock does not know of modes, times and attributes"
_HARD: Final = "a hard link that lies in the workspace already is the workspace's own file"

FILES: Final = (
    Probe("an absolute path", 'echo x > "$OUT/file"'),
    Probe("two dots", "echo x > ../../outside/file"),
    Probe("a file of the home", 'echo x >> "$HOME_/.bashrc"'),
    Probe("a new file in the home", 'echo x > "$HOME_/.pam_environment"'),
    Probe("a neighbour of the workspace", "mkdir -p ../other; echo x > ../other/file"),
    Probe("a link planted before", "echo x > link_to_file"),
    Probe("a linked folder planted before", "echo x > link_to_folder/file"),
    Probe("a link made now", 'ln -s "$OUT" l && echo x > l/file'),
    Probe("a chain of links", 'ln -s "$OUT" a; ln -s a b; ln -s b/file c; echo x > c'),
    Probe("a link to the root", 'ln -s / r; echo x > "r$OUT/file"'),
    Probe(
        "a swapped folder",
        'mkdir d; for i in 1 2 3 4 5 6 7 8; do rmdir d; ln -s "$OUT" d; echo x > d/file; rm d;'
        " mkdir d; echo x > d/file; rm d/file; done",
    ),
    Probe(
        "a hard link planted before",
        "echo x > hard_link",
        open_in_bubblewrap=_HARD,
        open_in_landlock=_HARD,
    ),
    Probe("a hard link made now", 'ln "$OUT/file" h && echo x > h'),
    Probe("a hard link through a descriptor", 'ln -L /proc/self/fd/3 h 3< "$OUT/file"; echo x > h'),
    Probe("moving something out", 'echo x > f; mv f "$OUT/new"'),
    Probe("moving something in", 'mv "$OUT/file" taken'),
    Probe("copying something out", 'cp README "$OUT/new"'),
    Probe("deleting", 'rm -rf "${OUT:?}"/*'),
    Probe("a new folder", 'mkdir "$OUT/new"'),
    Probe("a new link", 'ln -s /etc "$OUT/new"'),
    Probe("a new pipe", 'mkfifo "$OUT/new"'),
    Probe("truncating", 'truncate -s 0 "$OUT/file"'),
    Probe("other modes", 'chmod 777 "$OUT/file"', open_in_landlock=_METADATA),
    Probe(
        "another owner",
        'chown 12345 "$OUT/file"',
        as_root_only=True,
        open_in_landlock="",
    ),
    Probe("other times", 'touch -d 2001-01-01 "$OUT/file"', open_in_landlock=_METADATA),
    Probe(
        "an attribute",
        python('os.setxattr(E["OUT"] + "/file", "user.evil", b"1")'),
        open_in_landlock=_METADATA,
    ),
    Probe("through its own root", 'echo x > "/proc/self/root$OUT/file"'),
    Probe("through the root of process 1", 'echo x > "/proc/1/root$OUT/file"', control=False),
    Probe("through another's root", 'echo x > "/proc/$VICTIM/root$OUT/file"'),
    Probe("through the runtime's folder", 'echo x > "/proc/$RUNTIME/root$OUT/file"'),
    Probe(
        "through everybody's folder",
        'for p in /proc/[0-9]*; do [ -e "$p/cwd/victim.here" ] && echo x > "$p/cwd/file"; done',
    ),
    Probe(
        "through an inherited descriptor",
        'for f in /proc/self/fd/*; do [ -e "$f/file" ] && echo x > "$f/file"; done',
        control=False,  # descriptors are closed without a sandbox, too
    ),
    Probe(
        "through the descriptors of the runtime",
        'for f in /proc/$RUNTIME/fd/*; do [ -e "$f/file" ] && echo x > "$f/file"; done',
    ),
    Probe("into a toolchain", 'echo x > "$HOME_/.local/bin/tool"'),
    Probe("beside a toolchain", 'cp /bin/true "$HOME_/.local/bin/git"'),
    Probe("into the interpreter", 'touch "$PREFIX/evil-$MARK.pth"'),
    Probe("a system folder", 'touch "/usr/local/bin/evil-$MARK"', as_root_only=True),
    Probe("/etc", 'touch "/etc/evil-$MARK"', as_root_only=True),
    Probe("/tmp", 'touch "/tmp/evil-$MARK"'),
    Probe("a file in /tmp", 'echo x > "$TMP_OUT/file"'),
    Probe("/var/tmp", 'touch "/var/tmp/evil-$MARK"'),
    Probe("/dev/shm", 'touch "/dev/shm/evil-$MARK"'),
    Probe("/run", 'touch "/run/evil-$MARK"', as_root_only=True),
    Probe("/dev", 'touch "/dev/evil-$MARK"', as_root_only=True),
    Probe(
        "a bind mount",
        'mkdir m; mount --bind "$OUT" m && hit && echo x > m/file',
        own_mounts=True,
        as_root_only=True,
    ),
    Probe("a new mount", "mount -t tmpfs none sub && hit", own_mounts=True, as_root_only=True),
    Probe(
        "mounting it writable",
        'mount -o remount,bind,rw / && hit; mount -o remount,rw "$OUT" && hit;'
        ' echo x > "$OUT/file"',
        own_mounts=True,
        as_root_only=True,
    ),
    Probe(
        "unmounting what hides",
        # What is named does not exist: who might unmount anything is told so, others are refused.
        python("libc.umount2(b'/nowhere', 2) == -1 and ctypes.get_errno() == 1 or hit()"),
        as_root_only=True,
    ),
    Probe("another root", "chroot / true && hit", as_root_only=True),
    Probe(
        "the root of another",
        'chroot "/proc/$VICTIM/root" sh -c "echo x > $OUT_QUOTED/file" && hit',
        as_root_only=True,
    ),
    Probe(
        "pivoting",
        python(
            "libc.pivot_root(b'/nowhere', b'/nowhere') == -1 and ctypes.get_errno() == 1 or hit()"
        ),
        own_mounts=True,
        as_root_only=True,
    ),
    Probe(
        "the new mount calls",
        python(
            "call(428, -100, b'/', 1)\n"  # open_tree, to clone
            "call(430, b'tmpfs', 0)\n"  # fsopen
            "call(442, -100, b'/', 0, 0, 0)"  # mount_setattr
        ),
        own_mounts=True,
        as_root_only=True,
    ),
    Probe(
        "a file by its handle",
        python(
            """
handle = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0) + bytes(128))
mount = ctypes.c_int()
where = os.open(E["WS"], os.O_RDONLY)
path = os.fsencode(E["OUT"] + "/file")
if libc.name_to_handle_at(-100, path, handle, ctypes.byref(mount), 0) == 0:
    call(304, where, handle, 0)
"""
        ),
        as_root_only=True,
    ),
    Probe("writing /proc/self/exe", "exec 3<>/proc/1/exe && hit", control=False),
    Probe("its own program again", '/proc/self/exe -c "echo x > $OUT_QUOTED/file"', control=False),
    Probe("a file too big", "truncate -s 3G big && hit"),
    Probe("a program of its owner", "cp /bin/true t; chmod u+s t; [ -u t ] && hit"),
    Probe(
        "a new program of its owner",
        python("os.umask(0); os.open('t', os.O_CREAT | os.O_RDWR, 0o4755)\n") + "\n[ -u t ] && hit",
    ),
    Probe(
        "a file that grows too big",
        python("f = open('big', 'wb'); f.seek(3 * 2**30); f.write(b'x'); f.flush(); hit()"),
    ),
)
"""None of these may change anything that is not the workspace's."""

_EVIL: Final = 'printf \'#!/bin/sh\\ntouch "%s/pwned"\\n\' "$OUT" > evil; chmod +x evil;'

PROTECTED: Final = (
    Probe("a hook", f"{_EVIL} cp evil .git/hooks/pre-commit", then_git=True),
    Probe("a setting", f'{_EVIL} git config core.fsmonitor "$WS/evil"', then_git=True),
    Probe(
        "a setting by hand",
        f'{_EVIL} printf "[core]\\n\\tfsmonitor = $WS/evil\\n" >> .git/config',
        then_git=True,
    ),
    Probe(
        "a setting by renaming",
        f'{_EVIL} cp .git/config c; git config -f c core.fsmonitor "$WS/evil"; mv -f c .git/config',
        then_git=True,
    ),
    Probe(
        "hooks by renaming",
        f"{_EVIL} mv .git/hooks old; mkdir .git/hooks; cp evil .git/hooks/pre-commit",
        then_git=True,
    ),
    Probe(
        "hooks by deleting",
        f"{_EVIL} rm -rf .git/hooks; mkdir h; cp evil h/pre-commit; ln -sfn ../h .git/hooks",
        then_git=True,
    ),
    Probe(
        "another .git",
        f"{_EVIL} cp -r .git g; cp evil g/hooks/pre-commit; mv .git old; mv g .git",
        then_git=True,
    ),
    Probe(
        "a .git file",
        f'{_EVIL} cp -r .git g; cp evil g/hooks/pre-commit; mv .git old; echo "gitdir: g" > .git',
        then_git=True,
    ),
    Probe(
        "deleting .git",
        f"{_EVIL} cp -r .git g; cp evil g/hooks/pre-commit; rm -rf .git; mv g .git",
        then_git=True,
    ),
    Probe(
        "exchanging .git",
        _EVIL
        + " cp -r .git g; cp evil g/hooks/pre-commit; "
        + python("libc.syscall(316, -100, b'.git', -100, b'g', 2)"),  # renameat2 with EXCHANGE
        then_git=True,
    ),
    Probe(
        "another common folder",
        f"{_EVIL} cp -r .git common; cp evil common/hooks/pre-commit; git config -f common/config"
        ' core.fsmonitor "$WS/evil"; echo "$WS/common" > .git/commondir',
        then_git=True,
    ),
    Probe(
        "the workspace renamed",
        f'{_EVIL} mv "$WS" "$WS.old" && mkdir -p "$WS/.git/hooks" && hit',
        control=False,
    ),
    Probe("a nested hook", f"{_EVIL} cp evil sub/.git/hooks/pre-commit", then_git=True),
    Probe(
        "a nested setting", f'{_EVIL} git -C sub config core.fsmonitor "$WS/evil"', then_git=True
    ),
    Probe(
        "a nested repository by renaming",
        f"{_EVIL} cp -r sub new; cp evil new/.git/hooks/pre-commit; mv sub old; mv new sub",
        then_git=True,
    ),
    Probe(
        "a nested one with a strange name",
        f"{_EVIL} cp evil $'we\\nird \\u202e/.git/hooks/pre-commit'",
        then_git=True,
    ),
    Probe(
        "the hook of a submodule",
        f"{_EVIL} cp evil .git/modules/module/hooks/pre-commit",
        then_git=True,
    ),
    Probe(
        "the setting of a submodule",
        f'{_EVIL} git config -f .git/modules/module/config core.fsmonitor "$WS/evil"',
        then_git=True,
    ),
    Probe(
        "the hook of a submodule that was taken apart",
        f"{_EVIL} cp evil .git/modules/module/hooks/pre-commit; mv head .git/modules/module/HEAD",
        before="mv .git/modules/module/HEAD head",
        then_git=True,
    ),
    Probe("this program's settings", 'echo "evil = 1" >> .treadle/config.toml'),
    Probe("a new file of this program's", "echo x > .treadle/hooks.toml"),
    Probe(
        "this program's folder by renaming",
        "mv .treadle old; mkdir .treadle; echo x > .treadle/config.toml",
    ),
    Probe(
        "this program's folder by a link",
        "mkdir t; echo x > t/config.toml; rm -rf .treadle; ln -s t .treadle",
    ),
    Probe(
        "having another's settings put back",
        'mkdir t; echo x > .treadle/config.toml; mv .treadle t; ln -s "$HOME_/.config/treadle"'
        " .treadle",
        control=False,  # nothing is put back without a sandbox
    ),
    Probe(
        "having a hook put back elsewhere",
        'mkdir t; mv .git t; ln -s "$OUT" .git; echo x > t/.git/config',
        control=False,
    ),
    Probe(
        "hiding it behind a mount",
        "mount -t tmpfs none .git/hooks && hit",
        own_mounts=True,
        as_root_only=True,
    ),
    Probe("a second name for a hook", "ln .git/hooks/kept.sample h && echo x > h"),
    Probe("a second name for the settings", "ln .git/config c && echo '[a]' >> c"),
    Probe("the modes of a hook", "chmod 777 .git/hooks/kept.sample", open_in_landlock=""),
)
"""What runs programs later, in a workspace that is otherwise writable."""
