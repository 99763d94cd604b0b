"""Which remote people mean, and its one name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.workspace.remote import choose_remote, normalise_remote


@for_every_row(
    "url, name",
    [
        ("https://github.com/ada/engine.git", "github.com/ada/engine"),
        ("https://github.com/ada/engine", "github.com/ada/engine"),
        ("http://GitHub.com/Ada/Engine.git/", "github.com/Ada/Engine"),
        ("https://ada:hunter2hunter2@github.com/ada/engine.git", "github.com/ada/engine"),
        ("https://ghp_0123456789@github.com/ada/engine", "github.com/ada/engine"),
        ("https://github.com:8443/ada/engine.git", "github.com/ada/engine"),
        ("https://github.com/ada/engine?access_token=1#x", "github.com/ada/engine"),
        ("HTTPS://github.com/ada/engine", "github.com/ada/engine"),
        ("ssh://git@github.com:22/ada/engine.git", "github.com/ada/engine"),
        ("git+ssh://git@github.com/ada/engine.git", "github.com/ada/engine"),
        ("git://github.com/ada/engine.git", "github.com/ada/engine"),
        ("ssh://git@[::1]:2222/ada/engine.git", "[::1]/ada/engine"),
        ("git@github.com:ada/engine.git", "github.com/ada/engine"),
        ("github.com:ada/engine.git", "github.com/ada/engine"),
        ("git@GitHub.com:/ada/engine.git/", "github.com/ada/engine"),
        ("[git@github.com:2222]:ada/engine.git", "github.com/ada/engine"),
        ("[::1]:ada/engine", "[::1]/ada/engine"),
        ("git@gitlab.com:group/sub/group/engine.git", "gitlab.com/group/sub/group/engine"),
        ("https://git.sr.ht/~ada/engine", "git.sr.ht/~ada/engine"),
        ("https://host/ada/engine.git.git", "host/ada/engine.git"),
        ("  https://github.com/ada/engine\n", "github.com/ada/engine"),
        ("/srv/git/engine.git", None),
        ("./engine", None),
        ("../engine:x", None),
        ("engine", None),
        ("file:///srv/git/engine.git", None),
        (r"C:\src\engine", None),
        ("C:/src/engine", None),
        (r"\\server\share\engine", None),
        ("ext::sh -c 'x'", None),
        ("codecommit::https://x/y", None),
        ("https://github.com/", None),
        ("https:///ada/engine", None),
        ("https://user:pass/word@github.com/ada/engine", None),
        ("https://user:12/34@github.com/ada/engine", None),
        ("https://user/0#@github.com/ada/engine", None),
        ("https://user/0?@github.com/ada/engine", None),
        ("user:password@github.com:ada/engine", None),
        ("https://github.com/ada/eng\x1b[0mine", None),
        ("", None),
    ],
)
def test_every_way_to_write_a_remote_has_one_name(url: str, name: str | None) -> None:
    assert normalise_remote(url) == name


@given(
    st.sampled_from(
        ["https://{}@host.example/p/q", "ssh://{}@host.example/p", "{}@host.example:p"]
    ),
    st.text(st.characters(codec="ascii"), max_size=20).map(lambda text: "Secret7" + text),
)
def test_no_credential_survives(form: str, credential: str) -> None:
    assert "secret7" not in (normalise_remote(form.format(credential)) or "").lower()


@given(st.text(max_size=60))
def test_any_text_is_answered_and_a_name_is_a_host_and_a_path(url: str) -> None:
    name = normalise_remote(url)
    assert name is None or (name.count("/") >= 1 and "@" not in name and name == name.strip("/"))


@for_every_row(
    "names, chosen",
    [
        ("fork upstream origin", "origin"),
        ("fork upstream", "upstream"),
        ("fork spoon", "fork"),
        ("", None),
    ],
)
def test_origin_is_meant_then_upstream_then_the_first(names: str, chosen: str | None) -> None:
    listing = "".join(
        f"{name}\thttps://host/{name} (fetch)\n{name}\thttps://host/push (push)\n"
        for name in names.split()
    )
    assert choose_remote(listing) == (chosen and f"host/{chosen}")
