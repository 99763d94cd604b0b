"""The containers of `deploy/`: what their files name is there, and the commands run here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleet.teams import PROGRAM

ROOT: Final = Path(__file__).parents[2]
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
DOCKERFILE: Final = (ROOT / "deploy" / "Dockerfile").read_text()


def test_what_the_image_is_made_of_is_there() -> None:
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE)).split()
    assert "src" in copied
    assert [one for one in copied if not (ROOT / one).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [extras] = re.findall(r"'\.\[(.*)\]'", DOCKERFILE)
    assert {*extras.split(",")} <= project["optional-dependencies"].keys()
    assert 'ENTRYPOINT ["treadle"]' in DOCKERFILE
    for service in COMPOSE["services"].values():
        build = service.get("build")
        if build is not None:
            folder = ROOT / "deploy" / build["context"]
            assert (folder / build["dockerfile"]).samefile(ROOT / "deploy" / "Dockerfile")


class Containers:
    """The services as processes, each with the environment that its container has."""

    def __init__(self, url: str, home: Path) -> None:
        self._url, self._home = url, home

    def command(self, name: str, *words: str) -> tuple[list[str], dict[str, str]]:
        """How a service is started, or another command in its container."""
        service = COMPOSE["services"][name]
        told = words or tuple(service["command"])
        place = re.compile(r"postgresql://treadle:\$\{PASSWORD:\?\}@database/treadle")
        environment = {
            key: place.sub(lambda _: self._url, value)
            for key, value in service["environment"].items()
        }
        assert self._url in environment.values()
        more = {"TREADLE_HOME": str(self._home), "FLEET_FOLDER": str(self._home)}
        return [sys.executable, "-m", "treadle", *told], {**os.environ, **environment, **more}

    def run(self, name: str, *words: str) -> None:
        """A command in a new container of a service, to its end."""
        command, environment = self.command(name, *words)
        subprocess.run(command, env=environment, check=True, capture_output=True)

    @contextmanager
    def started(self, name: str, change: dict[str, str], listens: str) -> Iterator[int]:
        """A service; the port on which it says that it listens."""
        command, environment = self.command(name)
        assert change.keys() <= {*command}, command
        command = [change.get(word, word) for word in command]
        command += ["--port", "0"] * (name == "server")
        with subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stderr is not None
            try:
                said = ""
                while (found := re.search(listens, said)) is None:
                    line = process.stderr.readline()
                    assert line, said
                    said += line
                yield int(found[1])
            finally:
                process.terminate()
                process.stderr.read()
                assert process.wait() == 0

    def check_health(self, name: str, port: int) -> None:
        """Run the check of a service's health against the port where it is here."""
        test = COMPOSE["services"][name]["healthcheck"]["test"]
        assert test[:3] == ["CMD", "python", "-c"]
        program = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", test[3])
        subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def containers(queue_url: str, tmp_path: Path) -> Containers:
    return Containers(queue_url, tmp_path)


def test_the_services_start_say_that_they_are_well_and_stop(containers: Containers) -> None:
    with containers.started("server", {}, r"listening on \S+:(\d+)") as port:
        containers.check_health("server", port)
        containers.run("server", "admin", "organizations", "add", "acme")
        containers.run("server", "admin", "users", "add", "owner2", "--organization", "acme")
    change = {"my_agents.py:fleet": f"{PROGRAM}:fleet", "8081": "0"}
    with containers.started("worker", change, r"health on port (\d+)") as port:
        containers.check_health("worker", port)
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}").status == 200
