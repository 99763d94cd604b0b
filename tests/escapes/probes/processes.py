"""Ways to touch processes outside, or to outlive the command."""

from __future__ import annotations

from typing import Final

from escapes.probes.probe import Probe, python

_OWN: Final = "limits and priorities of the user's own processes have no rule"

PROCESSES: Final = (
    Probe("TERM", "kill $VICTIM"),
    Probe("KILL", "kill -9 $VICTIM"),
    Probe("STOP", "kill -STOP $VICTIM"),
    Probe("USR1", "kill -USR1 $VICTIM"),
    Probe("signal 0", "kill -0 $VICTIM && hit"),
    Probe("signalling a group", "kill -TERM -- -$VICTIM"),
    Probe(
        "signalling by name",
        'for p in /proc/[0-9]*; do grep -qa "$MARK-victim" "$p/cmdline" && kill -9 "${p#/proc/}";'
        " done",
    ),
    Probe(
        "signalling by descriptor",
        python(
            'fd = os.pidfd_open(int(E["VICTIM"]))\nimport signal\nsignal.pidfd_send_signal(fd, 10)'
        ),
    ),
    Probe(
        "signalling everybody",
        # Only where the kernel says that "everybody" is not the machine.
        '[ "$(readlink /proc/self/ns/pid)" != "$PID_NAMESPACE" ] && kill -9 -1; true',
        control=False,
    ),
    Probe("tracing", python('call(101, 16, int(E["VICTIM"]), 0, 0)'), control=True),
    Probe("seizing", python('call(101, 0x4206, int(E["VICTIM"]), 0, 0)')),
    Probe("a descriptor of another", python('call(438, os.pidfd_open(int(E["VICTIM"])), 0, 0)')),
    Probe("writing its memory", "exec 3<>/proc/$VICTIM/mem && hit"),
    Probe(
        "writing the runtime's output",
        'for f in 0 1 2; do exec 3>"/proc/$RUNTIME/fd/$f" && hit; done',
        control=False,
    ),
    Probe("making it the first to be killed", "echo 1000 > /proc/$VICTIM/oom_score_adj && hit"),
    Probe(
        "its limits",
        "prlimit --pid $VICTIM --nofile=64:64 && hit",
        open_in_landlock=_OWN,
    ),
    Probe(
        "its priority",
        "renice -n 19 -p $VICTIM && hit",
        open_to_user=_OWN,
    ),
    Probe(
        "its processors",
        "taskset -p 1 $VICTIM && hit",
        open_to_user=_OWN,
    ),
    Probe("its name", "echo evil > /proc/$VICTIM/comm && hit", control=False),
    Probe(
        "typing into a terminal",
        python(
            """
import fcntl, termios
for name in "/dev/tty", "/dev/pts/0", "/proc/self/fd/0":
    try:
        fcntl.ioctl(os.open(name, os.O_RDWR | os.O_NOCTTY), termios.TIOCSTI, b"x")
        hit()
    except OSError:
        pass
"""
        ),
        control=False,
    ),
    Probe(
        "typing into a terminal of its own",
        python(
            """
import fcntl, pty, termios
if os.fork() == 0:
    os.setsid()
    far, near = os.openpty()
    fcntl.ioctl(near, termios.TIOCSCTTY, 0)
    fcntl.ioctl(near, termios.TIOCSTI, b"x")
    hit()
    os._exit(0)
os.wait()
"""
        ),
        as_root_only=True,
    ),
    Probe(
        "typing with bits that nobody looks at",
        python(
            """
import pty
far, near = os.openpty()
os.setsid() if os.getpid() != os.getsid(0) else None
for high in 1 << 32, 1 << 40:
    if libc.syscall(16, near, ctypes.c_ulong(0x5412 | high), b"x") != -1: hit()
"""
        ),
        control=False,
    ),
    Probe("the terminal of the person", ": < /dev/tty && hit", control=False),
    Probe("going on in the background", 'exec -a "$SURVIVOR" sleep 300 &', control=False),
    Probe(
        "nohup",
        "nohup setsid bash -c 'exec -a \"$SURVIVOR\" sleep 300' > /dev/null 2>&1 &",
        control=False,
    ),
    Probe(
        "a daemon",
        python(
            """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(64):
            try: os.close(fd)
            except OSError: pass
        os.execve("/bin/sleep", [E["SURVIVOR"], "300"], {})
    os._exit(0)
os.wait()
"""
        ),
    ),
    Probe(
        "a daemon that is orphaned in time",
        python(
            """
import time
if os.fork() == 0:
    os.setsid()
    for _ in range(6):
        if os.fork(): os._exit(0)
        os.setsid()
    os.execve("/bin/sleep", [E["SURVIVOR"], "300"], {})
"""
        ),
        control=False,
    ),
    Probe(
        "disowned",
        'bash -c \'trap "" TERM HUP INT; exec -a "$SURVIVOR" sleep 300\' & disown',
        control=False,
    ),
    Probe(
        "cron",
        'for d in /etc/cron.d /var/spool/cron; do touch "$d/evil-$MARK" && rm "$d/evil-$MARK" &&'
        " hit; done",
        as_root_only=True,
    ),
)

KERNEL: Final = (
    Probe("new privileges", "grep -q 'NoNewPrivs:.0' /proc/self/status && hit"),
    Probe("no filter", "grep -q 'Seccomp:.0' /proc/self/status && hit"),
    Probe(
        "capabilities", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && hit", as_root_only=True
    ),
    Probe(
        "capabilities to come",
        "grep -q 'CapBnd:.*[1-9a-f]' /proc/self/status && hit",
    ),
    Probe(
        "a program that runs as root",
        'cp "$OUT/suid" s; "$OUT/suid" -u | grep -qx 0 && hit',
        control=False,
    ),
    Probe("a user namespace", "unshare -U true && hit", control=False),
    Probe(
        "a user namespace with mounts",
        "unshare -Urm mount -t tmpfs none /mnt && hit",
        control=False,
    ),
    Probe("a network of its own", "unshare -n true && hit", own_mounts=True, as_root_only=True),
    Probe(
        "clone with a namespace",
        python(
            "import signal\npid = libc.syscall(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)\n"
            "if pid == 0: os._exit(0)\nif pid > 0: hit()"
        ),
        control=False,
    ),
    Probe(
        "clone3 with a namespace",
        python(
            "a = struct.pack('<11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)\n"
            "pid = libc.syscall(435, a, len(a))\nif pid == 0: os._exit(0)\nif pid > 0: hit()"
        ),
        control=False,
    ),
    Probe(
        "entering namespaces",
        "nsenter -t $VICTIM -m true && hit; nsenter -t 1 -n true && hit",
        control=False,  # what these need is not even root's in the machine of the tests
        as_root_only=True,
    ),
    Probe("io_uring", python("p = ctypes.create_string_buffer(256); call(425, 1, p)")),
    Probe(
        "bpf",
        python("a = struct.pack('<5I', 2, 4, 4, 1, 0) + bytes(100)\ncall(321, 0, a, len(a))"),
        as_root_only=True,
        control=False,
    ),
    Probe(
        "perf",
        python("a = struct.pack('<IIQ', 1, 128, 0) + bytes(112)\ncall(298, a, 0, -1, -1, 0)"),
        control=False,
    ),
    Probe("userfaultfd", python("call(323, 1)")),
    Probe("asking for a key", python("call(250, 0, -3, 1)")),
    Probe("adding a key", python("call(248, b'user', E['MARK'].encode(), b'x', 1, -1)")),
    Probe("a kernel module", python("call(175, b'', 0, b'')"), control=False),
    Probe(
        "another kernel",
        python("libc.syscall(246, 0, 99, 0, 0) == -1 and ctypes.get_errno() == 1 or hit()"),
        as_root_only=True,
    ),
    Probe("a device", "mknod d c 1 3 && hit; mknod b b 254 0 && hit", as_root_only=True),
    Probe(
        "devices of the machine",
        python(
            "for d in 'mem', 'kmem', 'port', 'kvm', 'fuse', 'kmsg', 'vda', 'sda', 'loop0':\n"
            "    try: os.open('/dev/' + d, os.O_RDWR); hit()\n"
            "    except OSError: pass"
        ),
        as_root_only=True,
    ),
    Probe(
        "kernel settings",
        python(
            "for f in ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname',"
            " '/proc/sys/vm/drop_caches', '/proc/sysrq-trigger', '/proc/sys/kernel/modprobe',\n"
            "          '/sys/kernel/uevent_helper', '/sys/kernel/mm/ksm/run'):\n"
            "    try: os.open(f, os.O_WRONLY); hit()\n"
            "    except OSError: pass"
        ),
        as_root_only=True,
    ),
    Probe(
        "control groups",
        python(
            "import glob\n"
            "for f in glob.glob('/sys/fs/cgroup/**/release_agent', recursive=True)[:9] + "
            "glob.glob('/sys/fs/cgroup/*/cgroup.procs')[:9]:\n"
            "    try: os.open(f, os.O_WRONLY); hit()\n"
            "    except OSError: pass"
        ),
        as_root_only=True,
    ),
    Probe(
        "the clock",
        python(
            # No time at all: who might set it is told that this is none.
            "libc.syscall(164, struct.pack('<qq', 0, -1), 0) == -1"
            " and ctypes.get_errno() == 1 or hit()"
        ),
        as_root_only=True,
    ),
    Probe(
        "the name of the machine",
        python("n = os.uname().nodename.encode()\ncall(170, n, len(n))"),
        own_mounts=True,
        as_root_only=True,
    ),
    Probe(
        "accounting",
        python("libc.acct(b'/nowhere') == -1 and ctypes.get_errno() == 1 or hit()"),
        as_root_only=True,
        control=False,
    ),
    Probe(
        "swapping",
        python("libc.swapoff(b'/nowhere') == -1 and ctypes.get_errno() == 1 or hit()"),
        as_root_only=True,
        control=False,
    ),
    Probe("fanotify", python("call(300, 0, 0)"), control=False, as_root_only=True),
    Probe("ports of the processor", python("call(172, 3)"), control=False),
    Probe("becoming another", "setpriv --reuid 1234 --clear-groups true && hit", as_root_only=True),
    Probe("a filter that lies", python("call(317, 1, 8, 0)"), control=False),
)
"""Calls to the kernel that no build and no test needs."""
