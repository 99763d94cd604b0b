"""Ways to talk to somebody outside. Listeners count who comes."""

from __future__ import annotations

from typing import Final

from escapes.probes.probe import Probe, python

_NATIVE: Final = """
import mmap, platform
if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 4096, prot=7)
    # push rbx; mov eax, 359 (socket of i386); mov ebx, 2; mov ecx, 1; xor edx, edx; int 0x80; ...
    page.write(bytes.fromhex("53b867010000bb02000000b90100000031d2cd805bc3"))
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CFUNCTYPE(ctypes.c_int)(at)() >= 0:
        hit()
"""


def _socket(family: str, kind: str = "SOCK_STREAM", protocol: int = 0) -> str:
    return python(f"socket.socket(socket.{family}, socket.{kind}, {protocol}); hit()")


def _connect(to: str) -> str:
    code = f"s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect({to}); s.send(b'x')"
    return python(code)


NETWORK: Final = (
    Probe("the shell", 'exec 3<>"/dev/tcp/127.0.0.1/$TCP" && echo x >&3'),
    Probe("datagrams of the shell", 'echo x > "/dev/udp/127.0.0.1/$UDP"'),
    Probe("curl", 'curl -sm 3 "http://127.0.0.1:$TCP/"'),
    Probe("wget", 'wget -q -T 3 -t 1 -O- "http://127.0.0.1:$TCP/"'),
    Probe("git", 'timeout 5 git ls-remote "git://127.0.0.1:$TCP/x"'),
    Probe("Python", python('socket.create_connection(("127.0.0.1", int(E["TCP"])), 2).send(b"x")')),
    Probe(
        "the address of version 6",
        python('socket.create_connection(("::1", int(E["TCP6"])), 2).send(b"x")'),
    ),
    Probe(
        "a datagram",
        python(
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            's.sendto(E["MARK"].encode(), ("127.0.0.1", int(E["UDP"])))'
        ),
    ),
    Probe(
        "sending while connecting",
        python(
            "s = socket.socket()\n"
            's.sendto(b"x", 0x20000000, ("127.0.0.1", int(E["TCP"])))'  # MSG_FASTOPEN
        ),
    ),
    Probe(
        "multipath TCP",
        python(
            "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)\n"
            's.connect(("127.0.0.1", int(E["TCP"])))'
        ),
    ),
    Probe("asking for a name", 'printf x > /dev/udp/127.0.0.1/$UDP; getent hosts "$MARK.invalid"'),
    Probe("a raw socket", _socket("AF_INET", "SOCK_RAW", 1), as_root_only=True),
    Probe("a packet socket", _socket("AF_PACKET", "SOCK_RAW"), as_root_only=True),
    Probe("netlink, but for addresses", _socket("AF_NETLINK", "SOCK_RAW", 15)),
    Probe("vsock", _socket("AF_VSOCK")),
    Probe("a socket of the kernel's ciphers", _socket("AF_ALG", "SOCK_SEQPACKET"), control=False),
    Probe("a socket of another machine word", python(_NATIVE), control=False),
    Probe("x32", python("call(0x40000000 + 41, 2, 1, 0)"), control=False),
    Probe(
        "a socket made by io_uring",
        python("p = ctypes.create_string_buffer(256); call(425, 4, p)"),
    ),
    Probe("a socket in the home", _connect('E["HOME_"] + "/agent.sock"')),
    Probe("a socket in /tmp", _connect('E["TMP_OUT"] + "/s"')),
    Probe("the agent of ssh", _connect('E.get("SSH_AUTH_SOCK") or E["AGENT"]')),
    Probe(
        "a socket in /run",
        _connect('E["RUN_SOCKET"]'),
        as_root_only=True,
    ),
    Probe(
        "a socket elsewhere",
        _connect('E["OUT"] + "/s"'),
    ),
    Probe("a linked socket", 'ln -s "$HOME_/agent.sock" s; ' + _connect('"s"')),
    Probe("an abstract socket", _connect('"\\0" + E["MARK"]')),
    Probe(
        "an abstract datagram",
        python(
            "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            's.sendto(b"x", "\\0" + E["MARK"] + "d")'
        ),
    ),
    Probe(
        "docker",
        python(
            "for p in '/var/run/docker.sock', '/run/docker.sock', '/run/systemd/private',"
            " '/run/dbus/system_bus_socket', '/run/user/0/bus':\n"
            "    if os.path.exists(p): hit()"
        ),
        control=False,
    ),
    Probe(
        "a socket of the runtime",
        python(
            """
for entry in os.listdir("/proc/self/fd"):
    try:
        s = socket.socket(fileno=os.dup(int(entry)))
        s.send(b"x")
        hit()
    except OSError:
        pass
"""
        ),
        control=False,
    ),
)
