"""What a command may leave for the person's own git to run; what is only odd, or a link."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

REPOSITORY: Final = "a repository"
PLAIN: Final = "no repository"
SUBFOLDER: Final = "a folder of a repository"


class Plant(Struct, frozen=True):
    """Commands that leave something for git, in a workspace of this kind.

    `evil` is a program in it. `prepared` is what the person has done there before, as words for a
    shell; `variables` are theirs, with `WS` for the workspace. `in_folders` is where the person
    works afterwards. Git itself takes no notice of some: that is asserted too, so that a git that
    does is noticed.
    """

    commands: tuple[str, ...]
    kind: str = REPOSITORY
    in_folders: tuple[str, ...] = (".",)
    more_uses: tuple[str, ...] = ()
    git_refuses: bool = False
    prepared: str = ""
    variables: tuple[tuple[str, str], ...] = ()


NESTED: Final = "git init -q {0} && git -C {0} commit -q --allow-empty -m x"
_SET: Final = 'git config -f {0}/config core.fsmonitor "$PWD/evil; false"'
BARE: Final = "mkdir -p {0}/objects {0}/refs && echo 'ref: refs/heads/main' > {0}/HEAD"
BARE_SET: Final = (
    "git config -f {0}/config core.repositoryformatversion 0;"
    ' git config -f {0}/config core.worktree "$PWD/{0}";'
    ' git config -f {0}/config core.fsmonitor "$PWD/evil; false"'
)
_REBASE: Final = (
    "mkdir {0}/rebase-merge; touch {0}/rebase-merge/interactive;"
    " echo refs/heads/main > {0}/rebase-merge/head-name;"
    " git --git-dir {0} rev-parse HEAD | tee {0}/rebase-merge/onto > {0}/rebase-merge/orig-head;"
    ' echo "exec $PWD/evil" > {0}/rebase-merge/git-rebase-todo'
)


def nested(at: str, *more: str) -> str:
    return "; ".join((NESTED.format(at), _SET.format(f"{at}/.git"), *more))


def nested_from(at: str, into: str) -> str:
    """A repository with a program in its settings, moved to where another `.git` leads."""
    return f"{nested(at)}; cp -r {at}/.git/. {into}/; rm -rf {at}; git add n"


def bare(at: str) -> str:
    return f"{BARE.format(at)}; {BARE_SET.format(at)}"


DEEP: Final = "x/b/c/d/e/f/g/h"
_EVIL_SET: Final = (
    "mkdir -p $(dirname {0}); "
    """printf '[core]\n\tfsmonitor = "%s; false"\n' "$PWD/evil" > {0}"""
)
_EVIL_TEMPLATE: Final = "rm -rf t; mkdir -p t/hooks; cp evil t/hooks/pre-commit"
_NEW_ONE: Final = ("init -q new", "-C new commit -q --allow-empty -m x")
_LINK_IN_PARENT: Final = (
    "git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,ws/{0}"
)
PLANTS: Final = {
    "a gitlink": Plant((nested("n", "git add n"),)),
    "a gitlink of a work tree": Plant(
        (nested("n", "mv n/.git git_of_n; echo 'gitdir: ../git_of_n' > n/.git; git add n"),)
    ),
    "a gitlink, made harmless first": Plant(
        (f"{NESTED.format('n')}; git add n", _SET.format("n/.git"))
    ),
    "a gitlink, its repository later": Plant(
        (
            f"{NESTED.format('n')}; git add n; rm -rf n/.git",
            nested("n"),
        )
    ),
    "a gitlink far down": Plant((nested(DEEP, f"git add {DEEP}"),)),
    "a gitlink of the repository above": Plant(
        (nested(DEEP),), SUBFOLDER, prepared=_LINK_IN_PARENT.format(DEEP)
    ),
    "a gitlink of a repository further up": Plant(
        (nested(DEEP),),
        SUBFOLDER,
        prepared=f"cd ../..; git init -q; {_LINK_IN_PARENT.format(DEEP).replace(',ws', ',top/ws')}",
        in_folders=("../..",),
    ),
    "a gitlink of the repository above, among programs": Plant(
        (nested("node_modules/n"),), SUBFOLDER, prepared=_LINK_IN_PARENT.format("node_modules/n")
    ),
    "a gitlink among programs": Plant((nested("node_modules/n", "git add -f node_modules/n"),)),
    "a gitlink behind many folders": Plant((nested("z/n", "git add z/n; mkdir a{1..1500}"),)),
    "a gitlink of a gitlink": Plant(
        (f"{NESTED.format(DEEP)}; {nested(f'{DEEP}/n', f'git -C {DEEP} add n')}; git add {DEEP}",),
        in_folders=(".", DEEP),
    ),
    "a gitlink in a split index": Plant(
        (nested("n", "git add n; git update-index --split-index"),)
    ),
    "a nested hook": Plant(
        (
            f"{NESTED.format('n')}; cp evil n/.git/hooks/post-index-change; "
            "cp evil n/.git/hooks/pre-commit; cp evil n/.git/hooks/reference-transaction",
        ),
        in_folders=("n",),
    ),
    "a nested include": Plant(
        (
            f'{NESTED.format("n")}; git config -f c core.fsmonitor "$PWD/evil; false";'
            ' git -C n config include.path "$PWD/c"',
        ),
        in_folders=("n",),
    ),
    "a nested commondir": Plant(
        (
            f"{nested('m')}; {NESTED.format('n')}; echo ../../m/.git > n/.git/commondir;"
            " rm -f m/.git/HEAD",
        ),
        in_folders=("n",),
    ),
    "a nested link": Plant(
        (nested("n", "mv n/.git elsewhere; ln -s ../elsewhere n/.git"),), in_folders=("n",)
    ),
    "settings that are a link": Plant(
        (nested("n", "mv n/.git/config c; ln -s ../../c n/.git/config"),), in_folders=("n",)
    ),
    "settings for one work tree": Plant(
        (
            f"{NESTED.format('n')}; git -C n config extensions.worktreeConfig true;"
            ' git -C n config --worktree core.fsmonitor "$PWD/evil; false"',
        ),
        in_folders=("n",),
    ),
    "a new submodule": Plant(
        (
            nested(
                "n",
                "mkdir -p .git/modules; mv n/.git .git/modules/n; "
                "echo 'gitdir: ../.git/modules/n' > n/.git; git add n",
            ),
        )
    ),
    "a bare layout": Plant((bare("."),), PLAIN),
    "a bare layout in a folder of a repository": Plant((bare("."),), SUBFOLDER),
    "a bare layout further down": Plant((bare("n"),), in_folders=("n",)),
    "a bare layout that was harmless": Plant(
        (BARE.format("n"), BARE_SET.format("n")), in_folders=("n",)
    ),
    "a repository where there is none": Plant((nested("."),), PLAIN),
    "settings of the person": Plant(
        (_EVIL_SET.format("conf/g"),),
        prepared="mkdir conf; echo '[user]' > conf/g",
        variables=(("GIT_CONFIG_GLOBAL", "WS/conf/g"),),
    ),
    "settings of the person, not there before": Plant(
        (_EVIL_SET.format("conf/g"),), variables=(("GIT_CONFIG_GLOBAL", "WS/conf/g"),)
    ),
    "settings of the person, by a link that they have": Plant(
        (f"rm conf; {_EVIL_SET.format('conf')}",),
        prepared="echo '[user]' > real; ln -s real conf",
        variables=(("GIT_CONFIG_GLOBAL", "WS/conf"),),
    ),
    "settings of the person, behind a link that they have": Plant(
        (_EVIL_SET.format("real"),),
        prepared="echo '[user]' > real; ln -s real conf",
        variables=(("GIT_CONFIG_GLOBAL", "WS/conf"),),
    ),
    "settings of the person, behind a link to nothing": Plant(
        (_EVIL_SET.format("real"),),
        prepared="ln -s real conf",
        variables=(("GIT_CONFIG_GLOBAL", "WS/conf"),),
    ),
    "settings of the desktop": Plant(
        (_EVIL_SET.format(".xdg/git/config"),),
        prepared="mkdir -p .xdg/git; touch .xdg/git/config",
        variables=(("XDG_CONFIG_HOME", "WS/.xdg"),),
    ),
    "settings of the desktop, not there before": Plant(
        (_EVIL_SET.format(".xdg/git/config"),), variables=(("XDG_CONFIG_HOME", "WS/.xdg"),)
    ),
    "settings of the desktop, by a link": Plant(
        (f"{_EVIL_SET.format('conf/git/config')}; ln -s conf .xdg",),
        variables=(("XDG_CONFIG_HOME", "WS/.xdg"),),
    ),
    "settings of the system": Plant(
        (_EVIL_SET.format("s"),), variables=(("GIT_CONFIG_SYSTEM", "WS/s"),)
    ),
    "settings that a variable includes": Plant(
        (_EVIL_SET.format("s"),),
        variables=(
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "include.path"),
            ("GIT_CONFIG_VALUE_0", "WS/s"),
        ),
    ),
    "hooks that a variable names": Plant(
        ("mkdir h; cp evil h/pre-commit",),
        variables=(
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.hooksPath"),
            ("GIT_CONFIG_VALUE_0", "h"),
        ),
    ),
    "settings behind a link of the home folder": Plant(
        (_EVIL_SET.format("real"),),
        prepared="git config --global include.path inc; touch real; ln -s $PWD/real ~/inc",
    ),
    "settings behind a link of the home folder to nothing": Plant(
        (_EVIL_SET.format("d/real"),),
        prepared="git config --global include.path inc; mkdir d; ln -s $PWD/d/real ~/inc",
    ),
    "hooks behind a link of the home folder": Plant(
        ("cp evil h/pre-commit",),
        prepared="git config --global core.hooksPath ~/hooks; mkdir h; ln -s $PWD/h ~/hooks;"
        " touch h/x",
    ),
    "a template": Plant(
        (_EVIL_TEMPLATE,),
        more_uses=_NEW_ONE,
        prepared="mkdir t",
        variables=(("GIT_TEMPLATE_DIR", "WS/t"),),
    ),
    "a template that settings name": Plant(
        (_EVIL_TEMPLATE,),
        more_uses=_NEW_ONE,
        prepared='git config --global init.templateDir "$PWD/t"; mkdir -p t/hooks; touch t/hooks/x',
    ),
    "a gitlink, its .git empty first": Plant(("mkdir -p n/.git", nested_from("m", "n/.git"))),
    "a gitlink, what its .git names empty first": Plant(
        (
            "mkdir -p n target/g; echo 'gitdir: ../target/g' > n/.git",
            nested_from("m", "target/g"),
        )
    ),
    "a gitlink, what its .git names like a work tree": Plant(
        (
            f"{NESTED.format('m')}; mkdir -p n target/worktrees; mv m/.git target/worktrees/w;"
            " echo 'gitdir: ../target/worktrees/w' > n/.git; git add n",
            _SET.format("target/worktrees/w"),
        )
    ),
    "a gitlink, what its .git names far down": Plant(
        (
            f"mkdir -p n {DEEP}; {NESTED.format(DEEP)}; echo 'gitdir: ../{DEEP}/.git' > n/.git;"
            " git add n",
            _SET.format(f"{DEEP}/.git"),
        )
    ),
    "a gitlink in closed folders": Plant((nested("n", "git add n; chmod 555 n/.git n"),)),
    "a submodule in closed folders": Plant(
        (
            nested(
                "n",
                "mkdir -p .git/modules; mv n/.git .git/modules/n; git add n || true;"
                " echo 'gitdir: ../.git/modules/n' > n/.git; git add n;"
                " chmod 555 .git/modules/n .git/modules n",
            ),
        )
    ),
    "nested hooks where the person's settings look for them": Plant(
        (f"{NESTED.format('n')}; mkdir n/.h; cp evil n/.h/pre-commit",),
        in_folders=("n",),
        prepared="git config --global core.hooksPath .h",
    ),
    "a nested work tree elsewhere": Plant(
        (
            f"{NESTED.format('n')}; cd n; touch pwned; git add pwned; git commit -qm 1;"
            " git branch v1; git rm -q pwned; git commit -qm 2;"
            " git config core.worktree ../../../..",
        ),
        in_folders=("n",),
        more_uses=("checkout -q v1",),
    ),
    "hooks that the settings of one work tree name": Plant(
        ("cp evil w/.hw/pre-commit",),
        in_folders=("w",),
        prepared="git config extensions.worktreeConfig true; git worktree add -q w; cd w;"
        " git config --worktree core.hooksPath .hw; mkdir .hw; touch .hw/x",
    ),
    "hooks that the settings of this work tree name": Plant(
        ("cp evil .hw/pre-commit",),
        PLAIN,
        prepared=f"{NESTED.format('../other')}; git -C ../other config extensions.worktreeConfig"
        ' true; git -C ../other worktree add -q "$PWD/w"; mv w/.git .git; rmdir w;'
        ' git -C ../other worktree repair "$PWD" 2> /dev/null;'
        " git config --worktree core.hooksPath .hw; mkdir .hw; touch .hw/x",
    ),
    "a link where a merge keeps a conflict": Plant(
        (
            "echo 0 > f; git add f; git commit -qm 0; git checkout -qb feature; echo 1 > f;"
            " git commit -qam 1; git checkout -q main; echo 2 > f; git commit -qam 2;"
            " mkdir .git/rr-cache; ! git merge -q feature; d=$(echo .git/rr-cache/*);"
            " echo 3 > f; git add f; git commit -qm 3; git reset -q --hard HEAD~1;"
            " rm -f $d/thisimage; ln -s ../../../../../pwned $d/thisimage",
        ),
        more_uses=("merge feature",),
    ),
    "a hook with a second name": Plant(
        (
            "rm -f .git/COMMIT_EDITMSG; ln .git/hooks/commit-msg .git/COMMIT_EDITMSG;"
            ' echo "$PWD/evil" > .git/SQUASH_MSG',
        ),
        prepared="mkdir -p .git/hooks; echo true > .git/hooks/commit-msg;"
        " chmod 755 .git/hooks/commit-msg",
        more_uses=("commit --allow-empty --no-edit",),
    ),
    "a hook in a closed folder": Plant(("cp evil .git/hooks/pre-commit; chmod 555 .git/hooks",)),
    "settings in a closed folder": Plant((f"{_SET.format('.git')}; chmod 555 .git",)),
    "a hook": Plant(("cp evil .git/hooks/pre-commit",)),
    "a hook in the place of one": Plant(
        ("mv evil .git/hooks/pre-commit",), prepared="touch .git/hooks/pre-commit"
    ),
    "a hook among the files": Plant(
        ("cp evil h/pre-commit",), prepared="mkdir h; touch h/x; git config core.hooksPath h"
    ),
    "settings": Plant((_SET.format(".git"),)),
    "a rebase": Plant(
        (_REBASE.format(".git"),),
        more_uses=("rebase --continue",),
    ),
    "a rebase by a link": Plant(
        (f"{_REBASE.format('.git')}; mv .git/rebase-merge r; ln -s ../r .git/rebase-merge",),
        more_uses=("rebase --continue",),
    ),
    "a rebase in a nested one": Plant(
        (f"{NESTED.format('n')}; {_REBASE.format('n/.git')}",),
        in_folders=("n",),
        more_uses=("rebase --continue",),
    ),
    "a rebase with a strategy": Plant(
        (
            f"{_REBASE.format('.git')}; git commit-tree -p HEAD~1 -m x HEAD^{{tree}} > c;"
            ' echo "pick $(cat c) x" > .git/rebase-merge/git-rebase-todo;'
            " echo evil > .git/rebase-merge/strategy",
        ),
        more_uses=("rebase --continue",),
    ),
    "a rebase with a strategy of two words": Plant(
        (
            f"{_REBASE.format('.git')}; git commit-tree -p HEAD~1 -m x HEAD^{{tree}} > c;"
            ' echo "pick $(cat c) x" > .git/rebase-merge/git-rebase-todo;'
            " cp evil 'bin/git-merge-ort evil'; echo ort evil > .git/rebase-merge/strategy",
        ),
        more_uses=("rebase --continue",),
    ),
    "a cherry-pick with a strategy": Plant(
        (
            "git commit-tree -p HEAD~1 -m x HEAD^{tree} > c; mkdir .git/sequencer;"
            " git rev-parse HEAD > .git/sequencer/head;"
            ' for i in 1 2; do echo "pick $(cat c) x"; done > .git/sequencer/todo;'
            " git config -f .git/sequencer/opts options.strategy evil",
        ),
        more_uses=("cherry-pick --continue",),
    ),
    "steps of a cherry-pick": Plant(
        (
            "mkdir .git/sequencer; git rev-parse HEAD > .git/sequencer/head;"
            ' echo "exec $PWD/evil" > .git/sequencer/todo;'
            " cp .git/sequencer/head .git/CHERRY_PICK_HEAD",
        ),
        git_refuses=True,
        more_uses=("cherry-pick --continue",),
    ),
    "a submodule with a command": Plant(
        (
            f"{NESTED.format('n')}; git add n; s='git config -f .gitmodules submodule.n';"
            ' $s.path n; $s.url ./n; $s.update "!$PWD/evil"',
        ),
        git_refuses=True,
        more_uses=("submodule status", "submodule update --init"),
    ),
    "a filter without settings": Plant(
        ("mkdir -p .git/info; echo '* filter=evil diff=evil merge=evil' > .git/info/attributes",),
        git_refuses=True,
    ),
    "objects from elsewhere": Plant(
        (
            "cp -r .git g; echo $PWD/g/objects > .git/objects/info/alternates; "
            "git config -f g/config core.fsmonitor $PWD/evil; rm g/HEAD",
        ),
        git_refuses=True,
        more_uses=("gc -q", "fetch --all"),
    ),
    "an old kind of remote": Plant(
        ('mkdir -p .git/remotes; printf "URL: ext::%s\\n" "$PWD/evil" > .git/remotes/origin',),
        git_refuses=True,
        more_uses=("fetch", "fetch --all"),
    ),
    "a bisection": Plant(
        (
            'git rev-parse HEAD > .git/BISECT_START; echo "$PWD/evil" > .git/BISECT_RUN;'
            ' echo "\\$($PWD/evil)" > .git/BISECT_NAMES; echo "git bisect start" > .git/BISECT_LOG;'
            ' printf "bad\\ngood\\n" > .git/BISECT_TERMS',
        ),
        git_refuses=True,
        more_uses=("bisect skip",),
    ),
    "a work tree": Plant(
        (
            "git worktree add -q w; git config -f .git/worktrees/w/config.worktree core.fsmonitor"
            ' "$PWD/evil; false"',
        ),
        in_folders=(".", "w"),
        git_refuses=True,
    ),
}
LINKS: Final = {
    "settings": "mkdir -p x/.git; ln -s /etc/passwd x/.git/config",
    "hooks": "git init -q x; rm -rf x/.git/hooks; ln -s /etc x/.git/hooks",
    "a repository": "mkdir x; ln -s /etc x/.git",
    "work trees": "ln -s /etc .git/worktrees",
    "a work tree": "mkdir .git/worktrees; ln -s /etc .git/worktrees/x",
    "submodules": "ln -s /etc .git/modules",
    "a submodule": "mkdir .git/modules; ln -s /etc .git/modules/x",
    "settings of a work tree": "ln -s /etc/passwd .git/config.worktree",
}
"""Links that would have made every command after them fail."""
ODD: Final = {
    "a NUL": "mkdir 0; printf 'gitdir: a\\0b' > 0/.git",
    "a ring of links": "mkdir 0; ln -s loop 0/loop; echo 'gitdir: loop/x' > 0/.git",
    "a link to itself": "mkdir 0; ln -s .git 0/.git",
    "a name too long": "mkdir 0; (printf 'gitdir: '; printf 'a%.0s' {1..3000}) > 0/.git",
    "a path too long": "mkdir 0; (printf 'gitdir: '; printf 'a/%.0s' {1..2040}) > 0/.git",
    "a commondir of a NUL": f"{BARE.format('g')}; printf '\\0' > g/commondir;"
    " mkdir 0; echo 'gitdir: ../g' > 0/.git",
    "a commondir in a ring": f"{BARE.format('g')}; ln -s loop g/loop; echo loop/x > g/commondir;"
    " mkdir 0; echo 'gitdir: ../g' > 0/.git",
    "a pipe": "mkdir 0; mkfifo 0/.git",
    "a name that is no text": "mkdir $'0\\xff'; printf 'gitdir: a\\0b' > $'0\\xff/.git'",
    "a repository that is closed": f"{NESTED.format('0')}; chmod 0 0/.git",
    "a named one that is closed": "mkdir 0 g; echo 'gitdir: ../g' > 0/.git; chmod 0 g",
    "one in a closed folder": "mkdir -p 0 g/g; echo 'gitdir: ../g/g' > 0/.git; chmod 0 g",
    "settings that are closed": f"{NESTED.format('0')}; chmod 0 0/.git/config",
    "a work tree that is closed": "mkdir -p .git/worktrees/x; chmod 0 .git/worktrees/x",
    "work trees that are closed": "mkdir -p .git/worktrees; chmod 0 .git/worktrees",
    "a submodule that is closed": "mkdir -p .git/modules/x/hooks; chmod 0 .git/modules/x",
    "settings of a submodule that are closed": "git init -q --bare .git/modules/x;"
    " chmod 0 .git/modules/x/config",
    "submodules that are closed": "mkdir -p .git/modules; chmod 0 .git/modules",
    "an index in part a pipe": "git update-index --split-index; f=$(echo .git/sharedindex.*);"
    " rm $f; mkfifo $f",
    "a rebase that is closed": "mkdir .git/rebase-merge; chmod 0 .git/rebase-merge",
}
"""What raises when it is looked at, or keeps all later commands from beginning."""
