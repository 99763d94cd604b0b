"""The agents of a fleet, and the threads of their tasks, in whichever stores these are."""

from __future__ import annotations

from contextlib import suppress

from treadle.agent.definition import AgentDefinition
from treadle.errors import UnknownThreadError, UsageError
from treadle.fleet.job_mark import find_mark
from treadle.store.threads import AnyThreads
from treadle.thread.codec import Entry
from treadle.thread.fold import ThreadFold
from treadle.thread.ids import is_name_of


class Members:
    """The agents of a fleet, by their names."""

    def __init__(self) -> None:
        self.agents: dict[str, AgentDefinition] = {}
        """Each has a `membership`."""

    def find_agent(self, name: str) -> AgentDefinition:
        """The agent of this name; raises `UsageError` if there is none."""
        if name not in self.agents:
            names = ", ".join(sorted(self.agents)) or "nobody"
            raise UsageError(f"the fleet has no agent {name!r}", hint=f"it has: {names}")
        return self.agents[name]

    def find_lasting_model(self, name: str) -> str:
        """By which name the queue counts tasks with a model.

        Raises:
            UsageError: there is no such model.
            ConfigError: a setting is not valid.
        """
        if any(one.provider_name == name for one in self.agents.values()):
            return name
        from treadle.agent.models import find_lasting_name

        return find_lasting_name(name)

    def list_stores(self) -> list[AnyThreads]:
        """Where tasks are, each once."""
        found: list[AnyThreads] = []
        for agent in self.agents.values():
            if agent.membership.store not in found:
                found.append(agent.membership.store)
        return found

    def load(self, thread_id: str) -> ThreadFold:
        """A thread as it stands; raises `UnknownThreadError`, or `StoreError`."""
        for store in self.list_stores():
            with suppress(UnknownThreadError):
                return store.load(thread_id).fold
        raise UnknownThreadError(f"no store of this fleet has a thread {thread_id}")

    def find_tasks(self, text: str) -> list[str]:
        """The task with this key; else those whose ids begin or end so, newest first.

        Raises:
            StoreError: the store refused.
        """
        stores = self.list_stores()
        named = [(store, one) for store in stores if (one := _find_key(store, text)) is not None]
        similar = ((store, one) for store in stores for one in store.ids() if is_name_of(text, one))
        found = [
            one for store, one in named or similar if find_mark(store.load(one).fold) is not None
        ]
        return [*dict.fromkeys(found)]  # two of the stores may be one folder

    def record(self, thread_id: str, *facts: Entry) -> ThreadFold:
        """Record facts in a thread, and give it as it stands then.

        Raises:
            UnknownThreadError: there is none.
            ThreadBusyError: somebody works on it.
            StoreError: the store refused.
        """
        for store in self.list_stores():
            with suppress(UnknownThreadError):
                writer = store.open(thread_id)
                try:
                    for fact in facts:
                        writer.stage(fact)
                    writer.write()
                    writer.sync()
                    return writer.fold
                finally:
                    writer.close()
        raise UnknownThreadError(f"no store of this fleet has a thread {thread_id}")


def _find_key(store: AnyThreads, text: str) -> str | None:
    try:
        return store.find_key(text)
    except UsageError:  # what is no key
        return None
