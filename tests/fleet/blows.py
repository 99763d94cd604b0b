"""What can happen to a fleet: to its workers, to their network, to their database."""

from __future__ import annotations

import signal
import subprocess
from contextlib import ExitStack
from itertools import count, cycle
from random import Random
from threading import Thread
from typing import IO

from fleet.teams import Team
from server.databases import Postgres
from server.holding_proxy import HoldingProxy
from server.proxies import open_before

CONCURRENCY = 3
HOUR_S = 3600.0
AHEAD_S = (0.0, HOUR_S, -HOUR_S)
"""How far the clocks of workers are ahead, one after the other."""


class Member:
    """A worker, and the network between it and the database."""

    def __init__(self, process: subprocess.Popen[str], proxy: HoldingProxy) -> None:
        self.process, self.proxy = process, proxy
        self.is_away = False
        """Whether it sleeps, or nothing gets to it."""

    @property
    def is_at_work(self) -> bool:
        return self.process.poll() is None and not self.is_away


class Blows:
    """What happens, to whom chance has it.

    Args:
        team: the fleet.
        postgres: its database.
        chance: says who.
        worker_count: so many are at work after each blow.
    """

    def __init__(self, team: Team, postgres: Postgres, chance: Random, worker_count: int) -> None:
        self.team, self.postgres, self.chance = team, postgres, chance
        self._url = team.told["FLEET_URL"]
        self._worker_count = worker_count
        self._members: list[Member] = []
        self._clocks = cycle(AHEAD_S)
        self._network = ExitStack()
        self._numbers = count()

    ALL = ("kill", "sleep", "stop", "cut", "restart", "crash", "sever", "hold", "half_close")

    def fill_up(self) -> None:
        """Start workers until enough are at work."""
        while sum(one.is_at_work for one in self._members) < self._worker_count:
            proxy, through = self._network.enter_context(open_before(self._url, HoldingProxy))
            process = self.team.start(
                "--concurrency", str(CONCURRENCY), url=through, ahead_s=next(self._clocks)
            )
            log, process.stderr = process.stderr, None  # nobody is to wait until it is read
            assert log is not None
            Thread(target=self._keep_log, args=(log,), daemon=True).start()
            self._members.append(Member(process, proxy))

    def _keep_log(self, log: IO[str]) -> None:
        with log:
            place = self.team.folder / f"worker-{next(self._numbers)}.log"
            place.write_text(log.read())

    # ---- workers ------------------------------------------------------------------------------

    def kill(self) -> None:
        """A worker dies."""
        self._choose().process.kill()

    def sleep(self) -> None:
        """A worker stops where it is, past its lease; those that were away are back."""
        self.bring_back()
        sleeper = self._choose()
        sleeper.process.send_signal(signal.SIGSTOP)
        sleeper.is_away = True

    def stop(self) -> None:
        """A worker is told to stop."""
        self._choose().process.terminate()

    def bring_back(self) -> None:
        """Who sleeps wakes up, and what was held arrives."""
        for one in self._members:
            if one.is_away:
                one.process.send_signal(signal.SIGCONT)
                one.proxy.release()
                one.is_away = False

    # ---- the network --------------------------------------------------------------------------

    def sever(self) -> None:
        """The connections of a worker end."""
        self._choose().proxy.cut()

    def hold(self) -> None:
        """Nothing gets from a worker to the database or back, past its lease."""
        self.bring_back()
        cut_off = self._choose()
        cut_off.proxy.hold()
        cut_off.is_away = True

    def half_close(self) -> None:
        """What a worker says is done, and no answer comes."""
        self._choose().proxy.half_close()

    # ---- the database -------------------------------------------------------------------------

    def cut(self) -> None:
        """Every connection to the database ends there."""
        self.postgres.kill_backends(self._url.partition("@/")[2].partition("?")[0])

    def restart(self) -> None:
        """The database loses its power, and comes back."""
        self.postgres.stop_immediately()
        self.postgres.start()

    def crash(self) -> None:
        """The database is killed, and comes back."""
        self.postgres.kill()
        self.postgres.start()

    # ---- the end ------------------------------------------------------------------------------

    def end(self) -> None:
        """Stop all workers as one does it, and the network behind them."""
        self.bring_back()
        for one in self._members:
            one.process.terminate()
        for one in self._members:
            one.process.wait(60)
        self._network.close()

    def _choose(self) -> Member:
        return self.chance.choice([one for one in self._members if one.is_at_work])
