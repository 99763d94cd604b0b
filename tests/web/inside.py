"""Addresses that lead inside: to this machine, its network, or what programs read so."""

from __future__ import annotations

from typing import Final

PUBLIC: Final = "93.184.215.14"

LITERALS: Final = (
    # this machine
    *("http://127.0.0.1/", "http://127.1/", "http://127.0.1/", "http://127.255.255.254/"),
    *("http://0.0.0.0/", "http://0/", "http://0.1.2.3/", "http://[::1]/", "http://[::]/"),
    *("http://[0:0:0:0:0:0:0:1]/", "http://[0000::0001]/"),
    # numbers that some programs read as 127.0.0.1 or 169.254.169.254
    *("http://2130706433/", "http://017700000001/", "http://0x7f000001/", "http://0x7f.1/"),
    *("http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://127.0.0.0x1/", "http://127.0.0.01/"),
    *("http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/"),
    *("http://256.256.256.256/", "http://127.0.0.1.0x/", "http://1.2.3.4.5/", "http://0x/"),
    # private networks, clouds, examples, many machines
    *("http://10.0.0.1/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.1.1/"),
    *("http://100.64.0.1/", "http://100.100.100.200/latest/meta-data/", "http://100.127.255.255/"),
    *("http://169.254.169.254/latest/meta-data/", "http://169.254.170.2/v2/credentials"),
    *("http://168.63.129.16/", "http://192.0.0.192/", "http://192.0.2.1/", "http://198.18.0.1/"),
    *("http://198.51.100.1/", "http://203.0.113.9/", "http://192.88.99.1/"),
    *(
        "http://224.0.0.1/",
        "http://239.255.255.250/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
    ),
    # IPv6, also with an IPv4 address in it
    *("http://[fc00::1]/", "http://[fd00:ec2::254]/", "http://[fe80::1]/", "http://[fec0::1]/"),
    *("http://[ff02::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    *("http://[::ffff:a9fe:a9fe]/", "http://[::127.0.0.1]/", "http://[::7f00:1]/"),
    *("http://[64:ff9b::127.0.0.1]/", "http://[64:ff9b::a00:1]/", "http://[64:ff9b:1::1]/"),
    *("http://[2002:7f00:1::]/", "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/"),
    *("http://[2001:db8::1]/", "http://[3fff::1]/", "http://[100::1]/", "http://[5f00::1]/"),
    *("http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[::ffff:0:127.0.0.1]/"),
    # names of this machine and of networks of one's own
    *("http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://a.localhost/"),
    *("http://router/", "http://intranet/", "http://printer.local/", "http://nas.lan/"),
    *("http://metadata.google.internal/computeMetadata/v1/", "http://db.home.arpa/"),
    # letters that become other letters
    *("http://\uff11\uff12\uff17.0.0.1/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/"),
    *("http://%31%32%37.0.0.1/", "http://127.0.0.1%2f.example.com/", "http://loc\u00adalhost/"),
    "http://\uff4cocalhost/",
    # who is whose host
    *("http://example.com@127.0.0.1/", "http://user:pass@example.com/", "http://@127.0.0.1/"),
    *("http://127.0.0.1\\@example.com/", "http://example.com\\@127.0.0.1/", "http:\\\\127.0.0.1/"),
    *("http://example.com:80@127.0.0.1/", "http://[::1]@example.com/", "http://127.0.0.1 .com/"),
    *("http://exa\tmple.com/", "http://exa\nmple.com/", "http://127.0.0.1\0.example.com/"),
    "//127.0.0.1/",
    # ports and schemes that are none of the web
    *("http://93.184.215.14:22/", "http://93.184.215.14:6379/", "http://93.184.215.14:0/"),
    *("http://93.184.215.14:99999/", "http://93.184.215.14:25/", "https://93.184.215.14:5432/"),
    *("file:///etc/passwd", "file://localhost/etc/passwd", "data:text/html,x", "ftp://a.com/"),
    *("gopher://127.0.0.1:6379/_x", "unix:///var/run/docker.sock", "javascript:alert(1)"),
    *("http+unix://%2Fvar%2Frun%2Fdocker.sock/", "ws://127.0.0.1/", "blob:http://a.com/x"),
)
"""What the address alone shows."""

WITHOUT_HOST: Final = ("http:///127.0.0.1/", "http://", "http://?x", "127.0.0.1", "http:127.0.0.1")
"""What is no address; as a link it is one of the page's own site."""

RESOLVED: Final = (
    ("inside.example.com", ("127.0.0.1",)),
    ("mixed.example.com", (PUBLIC, "127.0.0.1")),
    ("mixed-first.example.com", ("10.0.0.7", PUBLIC)),
    ("metadata.example.com", ("169.254.169.254",)),
    ("mapped.example.com", ("::ffff:127.0.0.1",)),
    ("nat64.example.com", ("64:ff9b::7f00:1",)),
    ("v6.example.com", (PUBLIC, "::1")),
    ("zone.example.com", ("fe80::1%eth0",)),
    ("unique.example.com", ("fd12:3456::1",)),
    ("shared.example.com", ("100.64.1.1",)),
    ("any.example.com", ("0.0.0.0",)),
    ("odd.example.com", ("127.1",)),
    ("127.0.0.1.nip.io", ("127.0.0.1",)),
    ("xn--nxasmq6b.example", ("192.168.0.1",)),
)
"""Names, with what a hostile server says they are."""
