"""What `treadle doctor` looks at, in the order in which it says it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from treadle import helper_programs
from treadle.app.sandbox_policy import make_policy
from treadle.app.sessions.provider_reachability import check_providers
from treadle.app.sessions.providers import PLAYED_KINDS, Models
from treadle.app.upkeep import checks, risk_checks
from treadle.app.upkeep.store_checks import check_store
from treadle.config.loader import load_settings
from treadle.core.config import choose_model
from treadle.errors import TreadleError
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places


def run_checks(store: LocalStore) -> Iterator[checks.Finding]:
    """Check versions, folders, programs, disk, settings, models, threads and what they leave.

    Changes nothing, but brings the search index up to date. Settings, and what commands may do, are
    those that hold in the current folder.
    """
    places = store.places
    helper_programs.exclude(Path.cwd())
    yield from checks.check_versions()
    yield from checks.check_folders(places)
    yield from checks.check_programs()
    yield from checks.check_environment()
    yield from checks.check_disk(places)
    yield from _check_models(places)
    yield from check_store(store, places)


def _check_models(places: Places) -> Iterator[checks.Finding]:
    """Settings, what they let commands do, the model of new threads, providers with a key."""
    try:
        loaded = load_settings(".", os.environ)
    except TreadleError as error:
        yield checks.failure("settings", error.message, error.hint or "correct it")
        yield from checks.check_sandbox()
        return
    for notice in loaded.notices:
        yield checks.warning("settings", notice, "`treadle config show --origin` tells what holds")
    if not loaded.notices:
        yield checks.ok("settings", f"{len(loaded.list_changed())} set, the rest by default")
    yield from risk_checks.check_commands(make_policy(loaded.settings, places))
    yield from risk_checks.check_settings(loaded, os.getuid())
    chosen = problem = advice = ""
    try:
        chosen = Models(loaded).resolve_name(None)
    except TreadleError as error:
        problem, advice = error.message, error.hint or "docs/models.md says more"
    wanted = [
        name
        for name, entry in loaded.catalog.providers.items()
        if name == chosen.partition(":")[0]
        or os.environ.get(entry.key_env)
        or entry.key_file
        or entry.key_command
    ]
    found = asyncio.run(
        check_providers(loaded, [name for name in wanted if name not in PLAYED_KINDS])
    )
    if not chosen:
        yield checks.warning("model", problem, advice)
    else:
        yield checks.check_model(chosen, found, is_named=bool(choose_model(loaded.settings.models)))
    yield from risk_checks.check_keys(found)
    for one in found:
        yield checks.check_provider(one, is_used=one.provider == chosen.partition(":")[0])
