"""`/pr`: asked about in the chat, with words that can be edited, and pushed after a yes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from terminal.harness import ENTER
from terminal.talks import Start
from terminal.test_chat_commands import is_at_rest


def test_what_was_committed_is_proposed_with_the_words_of_the_person(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    bare = repository.parent / "remote.git"

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=repository, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    git("init", "-q", "--bare", str(bare))
    git("remote", "add", "origin", "git@gitlab.com:someone/some-thing.git")
    git("config", f"url.{bare}.pushInsteadOf", "git@gitlab.com:someone/some-thing.git")
    git("push", "-q", "origin", "HEAD:main")
    talk = start("--approval-mode", "auto", columns=120)
    talk.wait_for("a new thread in")
    talk.say("/pr", "origin/main has all commits that are here")
    talk.say("edit", "It adds now.")
    talk.wait_for(is_at_rest)
    talk.say("/pr", "edit (new, not checked out) to origin, for main:")
    talk.answer("n")
    talk.wait_for(is_at_rest)
    talk.say("/pr", "yes, push it and open the page")
    talk.answer("e")
    talk.wait_for("the first line is the title")
    talk.type("\x05!" + ENTER)  # Ctrl+E: the end of the line
    talk.answer("y")
    talk.wait_for("pushed edit to origin")
    talk.wait_for("https://gitlab.com/someone/some-thing/-/merge_requests/new?")
    assert git("--git-dir", str(bare), "rev-parse", "edit") == git("rev-parse", "HEAD")
    assert git("branch", "--show-current") == "main"
