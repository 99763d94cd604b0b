"""The commands that have a kind, with the options that do not make them another one. Pure data.

An allow-list: what is not named here is not of the kind.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ANY: Final = r"(?s)(?![@+]).*"
"""`@file` is a file with more arguments for many programs, `+x` an option for some."""


class HarmlessRule(Struct, frozen=True):
    """Which arguments do not make a command another one.

    `options` are harmless; one that ends in `=` takes a value, which may be its own word; one that
    ends in `?` may have one, in the same word only; `-#` is a number (`-20`). `never` are options
    that write or run something, wherever they stand: no grant covers them; `@` among them is any
    word that begins so, and names a file with more options. The
    first `name_count` operands are part of the kind (the target of `make`); at most
    `operand_count` more may stand there, and all must match `operand`.
    """

    options: frozenset[str] = frozenset()
    never: tuple[str, ...] = ()
    name_count: int = 0
    operand_count: int = 10_000
    operand: str = ANY


def _rule(
    options: str = "",
    never: str = "",
    *,
    name_count: int = 0,
    operand_count: int = 10_000,
    operand: str = ANY,
) -> HarmlessRule:
    return HarmlessRule(
        frozenset(options.split()), tuple(never.split()), name_count, operand_count, operand
    )


_GIT_DIFF: Final = """
    -p -u -s -z -R -w -b -a --patch --no-patch --stat --numstat --shortstat --dirstat --summary
    --name-only --name-status --cached --staged --color --no-color --color-words --word-diff
    --check --raw --minimal --patience --histogram -M -C --find-renames --find-copies --no-renames
    --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-space-at-eol --quiet
    --exit-code --no-ext-diff --no-textconv --no-prefix --binary --merge-base --relative -W
    --full-index --abbrev --compact-summary --diff-filter= --unified? -U? --color? --word-diff?
    --diff-algorithm= -S= -G= --function-context --submodule --text"""
_GIT_LOG: Final = f"""{_GIT_DIFF}
    -# -n= --oneline --graph --all --decorate? --no-decorate --follow --merges -i -q
    --no-merges --first-parent --reverse --author= --grep= --since= --until= --after= --before=
    --max-count= --skip= --format? --pretty? --date= --abbrev-commit --branches --tags
    --remotes --left-right --cherry-pick --topo-order --date-order -L="""
_NEVER_GIT: Final = "--output --ext-diff --textconv --no-index --exec --upload-pack -O"
_PYTEST: Final = """
    -q -v -x -s -l --lf --ff --nf --sw --co --collect-only --last-failed --failed-first --exitfirst
    --verbose --quiet --no-header --no-summary --showlocals --durations= --maxfail= --tb= -k= -m=
    -r= -n= --numprocesses= --dist= --cov? --no-cov --cov-branch --timeout= --strict-markers
    --strict-config --capture= --color= --stepwise --setup-show --fixtures --markers -V -h --help
    --disable-warnings --ignore= --deselect= --version --full-trace --runxfail"""
_NEVER_PYTEST: Final = """
    -p -c -o -W --rootdir --confcutdir --override-ini --basetemp --junitxml --junit-xml --pdbcls
    --pastebin --debug --log-file --cov-report --cov-config --import-mode --pythonwarnings
    --pyargs --config-file --report-log --html
    --rsyncdir --tx --result-log @"""
_GREP: Final = """
    -# -r -R -n -i -l -L -c -v -w -x -o -h -H -E -F -P -G -s -q -a -I -A= -B= -C= -e= -m=
    --include= --exclude= --exclude-dir= --color? --recursive --line-number --ignore-case
    --files-with-matches --count --invert-match --word-regexp --only-matching --no-messages --text
    --extended-regexp --fixed-strings --perl-regexp --max-count= --context= --after-context=
    --before-context= --with-filename --no-filename --quiet --files-without-match --regexp="""
_RG: Final = """
    -# -n -i -l -c -v -w -x -o -h -H -F -P -s -q -a -I -N -S -U -u -p -A= -B= -C= -e= -m= -g= -t=
    -T= -M= -r= -j= --glob= --iglob= --type= --type-not= --hidden --files --no-ignore --smart-case
    --multiline --no-heading --heading --vimgrep --json --stats --sort= --max-depth= --max-columns=
    --no-line-number --column --trim --pcre2 --type-list --case-sensitive --replace= --threads=
    --line-number --ignore-case --files-with-matches --count --invert-match --word-regexp
    --only-matching --fixed-strings --max-count= --context= --after-context= --before-context=
    --with-filename --no-filename --quiet --files-without-match --regexp= --version"""
_CARGO: Final = """
    -q -v --release --all --workspace --lib --bins --tests --all-targets --all-features --examples
    --no-default-features --features= -F= -p= --package= --bin= --test= --doc --no-fail-fast
    --no-run --locked --offline"""
_NEVER_CARGO: Final = (
    "--config --manifest-path --target-dir -Z --target --out-dir --artifact-dir --fix -C"
    " --lockfile-path --logfile --timings --index"
)
_NEVER_GO: Final = """
    -exec -toolexec -o -c -C -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile
    -trace -outputdir -overlay -fuzz -toolchain -compiler -export
    -vettool -args -ldflags -gcflags -asmflags -gccgoflags -modfile -pkgdir"""
_NEVER_NPM: Final = """
    -C --prefix --script-shell --shell --node-options --userconfig --globalconfig --registry --cache
    --scripts-prepend-node-path --git --before --workspaces-dir --location"""
_NEVER_PIP: Final = """
    --python --index-url --extra-index-url --find-links --log --cache-dir --proxy --cert
    --client-cert --trusted-host --keyring-provider"""
_PACKAGES: Final = r"(?!-)[\w./-]+"
_SCRIPT: Final = r"[A-Za-z0-9_][\w.:/-]*"


def _alone(*commands: str) -> dict[str, HarmlessRule]:
    return {command: HarmlessRule(operand_count=0) for command in commands}


_GIT: Final[dict[str, HarmlessRule]] = {
    "git status": _rule(
        "-s -b -u -z -v --short --branch --porcelain? --long --verbose --ignored"
        " --show-stash --untracked-files? --no-renames --ahead-behind -uno -uall"
    ),
    "git diff": _rule(_GIT_DIFF, _NEVER_GIT),
    "git log": _rule(_GIT_LOG, _NEVER_GIT),
    "git show": _rule(_GIT_LOG, _NEVER_GIT),
    "git blame": _rule(
        "-L= -w -M -C -l -s -e -p --porcelain --date=",
        f"{_NEVER_GIT} --contents -S --ignore-revs-file",
    ),
    "git branch": _rule(
        "-a -r -v -vv --all --remotes --list --show-current --verbose --contains= --merged"
        " --no-merged --no-color --sort= --format= --points-at=",
        "-d -D -m -M -c -C -f -u --delete --move --copy --force --edit-description"
        " --set-upstream-to --unset-upstream",
        operand_count=0,
    ),
    "git add": _rule(
        "-A -u -v -n -N --all --update --verbose --dry-run --intent-to-add",
        "-e -f --edit --force --chmod --pathspec-from-file",
    ),
    "git commit": _rule(
        "-m= -a -q -v -s --message= --all --quiet --verbose --signoff --no-edit --allow-empty"
        " --dry-run --short",
        "-F -t -c -C -n -S --file"
        " --template --amend --no-verify --gpg-sign --reuse-message --reedit-message --fixup"
        " --squash --author --date --trailer --pathspec-from-file --cleanup",
        operand_count=0,
    ),
    "git stash list": _rule("", _NEVER_GIT),
    "git stash show": _rule("-p --stat -u --name-only", _NEVER_GIT),
    "git remote": _rule("-v --verbose", operand_count=0),
    "git tag": _rule(
        "-l -n --list --sort= --contains= --points-at=",
        "-d -f -a -s -u -F -m --delete --force --annotate --sign --local-user --file --message",
        operand_count=0,
    ),
    "git rev-parse": _rule(
        "--show-toplevel --abbrev-ref --short --verify --git-dir --is-inside-work-tree --quiet -q"
        " --show-prefix --symbolic-full-name --short="
    ),
    "git ls-files": _rule(
        "-m -o -d -c -s -z -u -t -i --modified --others --deleted --cached --stage --unmerged"
        " --exclude-standard --ignored --full-name --error-unmatch"
    ),
    "git ls-tree": _rule("-r -t -d -l -z --name-only --name-status --full-tree --long"),
    "git describe": _rule("--tags --always --dirty --long --abbrev? --all --exact-match --match="),
    "git shortlog": _rule("-s -n -e --summary --numbered --email --all --no-merges", _NEVER_GIT),
    "git reflog": _rule("-# -n= --all --date=", _NEVER_GIT, operand_count=0),
    "git merge-base": _rule("--all --is-ancestor --octopus --fork-point"),
    "git rev-list": _rule(
        "--count --all --max-count= -n= --no-merges --left-right --since=", _NEVER_GIT
    ),
    "git cat-file": _rule("-p -t -s -e", "--textconv --filters --batch --batch-check"),
    "git grep": _rule(
        _GREP + " --cached --untracked", "-O -f --open-files-in-pager --no-index --ext-grep"
    ),
}
_TOOLS: Final[dict[str, HarmlessRule]] = {
    **_alone("yarn test", "pnpm test"),
    "npm test": _rule("--silent -s", _NEVER_NPM, operand_count=0),
    "npm run": _rule("--silent -s", _NEVER_NPM, name_count=1, operand_count=0, operand=_SCRIPT),
    "yarn run": _rule("", "--cwd --use-yarnrc", name_count=1, operand_count=0, operand=_SCRIPT),
    "pnpm run": _rule(
        "", "-C --dir --script-shell --prefix", name_count=1, operand_count=0, operand=_SCRIPT
    ),
    "npm ls": _rule("--depth= --all --json -a", f"{_NEVER_NPM} -g --global"),
    "npm outdated": _rule("--json --long", _NEVER_NPM, operand_count=0),
    "make": _rule(
        "-j? -k -n -s -B -i --jobs? --keep-going --dry-run --silent --always-make"
        " --no-print-directory",
        "-f -C -I -E -o -W -p --print-data-base --file --makefile --directory --include-dir --eval"
        " --old-file --assume-old --what-if --new-file --assume-new --environment-overrides -e",
        name_count=1,
        operand_count=0,
        operand=r"[A-Za-z0-9_][\w./-]*",
    ),
    "cargo test": _rule(_CARGO, _NEVER_CARGO, operand=_SCRIPT),
    "cargo build": _rule(_CARGO, _NEVER_CARGO, operand_count=0),
    "cargo check": _rule(_CARGO, _NEVER_CARGO, operand_count=0),
    "cargo clippy": _rule(_CARGO, _NEVER_CARGO, operand_count=0),
    "cargo fmt": _rule("--all --check -p= --package=", "--manifest-path --", operand_count=0),
    "cargo tree": _rule("-p= -i= --depth= -d -e= --duplicates", _NEVER_CARGO, operand_count=0),
    "go test": _rule(
        "-v -race -short -cover -failfast -json -run= -count= -timeout= -bench= -benchmem"
        " -parallel= -p= -cpu=",
        _NEVER_GO,
        operand=_PACKAGES,
    ),
    "go build": _rule("-v -race -x -n -tags=", _NEVER_GO, operand=_PACKAGES),
    "go vet": _rule("-v -json", _NEVER_GO, operand=_PACKAGES),
    "go list": _rule("-m -json -deps -test -f= -e", _NEVER_GO, operand=_PACKAGES),
    "go version": _rule("-m", operand_count=0),
    "pytest": _rule(_PYTEST, _NEVER_PYTEST),
    "tox": _rule(
        "-e= -q -v -p -l",
        "-c -x --conf --workdir --root --override --installpkg --force-dep --develop --result-json"
        " --discover --devenv @",
        operand_count=0,
    ),
    "ruff check": _rule(
        "--fix --diff -q --quiet --statistics --select= --ignore= --no-cache --show-fixes"
        " --output-format= --preview --extend-select= --exit-zero --no-fix --unsafe-fixes",
        "--config --output-file -o --cache-dir --isolated --add-noqa"
        " --watch --stdin-filename --extension @",
    ),
    "ruff format": _rule(
        "--check --diff -q --quiet --preview --line-length=",
        "--config --cache-dir --stdin-filename --extension @",
    ),
    "mypy": _rule(
        "--strict --pretty --no-error-summary --show-error-codes --ignore-missing-imports -p= -m="
        " --no-incremental --show-error-context --warn-unused-ignores --check-untyped-defs"
        " --no-color-output",
        "-c --config-file --python-executable --cache-dir --custom-typeshed-dir --shadow-file"
        " --junit-xml --install-types --command --any-exprs-report --cobertura-xml-report"
        " --html-report --linecount-report --linecoverage-report --lineprecision-report"
        " --txt-report --xml-report --xslt-html-report --xslt-txt-report --package-root"
        " --custom-typing-module --quickstart-file @",
    ),
    "black": _rule(
        "--check --diff -q -v -l= --line-length= -t= -S",
        "--config -c --code --stdin-filename @",
    ),
    "isort": _rule(
        "--check --check-only --diff -q -v --profile=",
        "--settings-path --settings-file --settings --sp --src --formatter @",
    ),
    "flake8": _rule(
        "-q -v --count --statistics --max-line-length= --select= --ignore= --show-source",
        "--config --append-config --output-file --tee --enable-extensions"
        " --require-plugins --bug-report --stdin-display-name @",
    ),
    "tsc": _rule(
        "--noEmit --pretty --strict",
        "--outDir --outFile -p --project -b --build -w --watch --generateTrace"
        " --declarationDir --generateCpuProfile --tsBuildInfoFile --rootDir @",
        operand_count=0,
    ),
    "pip list": _rule("--outdated --format=", f"{_NEVER_PIP} --path -i -f", operand_count=0),
    "pip show": _rule("-f --files", _NEVER_PIP),
    "pip freeze": _rule("--local", f"{_NEVER_PIP} --path -i -f -r --requirement", operand_count=0),
    **_alone("python --version", "python3 --version", "node --version", "npm --version"),
    **_alone("uv --version", "cargo --version", "git --version", "go version"),
}
_FILES: Final[dict[str, HarmlessRule]] = {
    **_alone("whoami", "true"),
    "ls": _rule(
        "-# -a -A -l -h -r -t -S -R -1 -d -F -i -s -p -G -n -L --color? --all --almost-all"
        " --recursive --human-readable --sort= --time= --time-style= --group-directories-first"
    ),
    "cat": _rule("-n -b -s -A -e -t -v -E -T --number --show-all --squeeze-blank"),
    "head": _rule("-# -n= -c= -q -v --lines= --bytes= --quiet --verbose"),
    "tail": _rule("-# -n= -c= -q -v --lines= --bytes= --quiet --verbose", operand=r"(?s)(?!@).*"),
    "wc": _rule("-l -w -c -m -L --lines --words --bytes --chars", "--files0-from"),
    "nl": _rule("-b= -w= -s= -n="),
    "tree": _rule(
        "-a -d -L= -I= -P= -f -h -s -F -i -C -n --dirsfirst --gitignore",
        "-o -R -H -X --fromfile --fromtabfile --infofile --gitfile",
    ),
    "stat": _rule("-c= -f -t -L --format= --printf= -x"),
    "file": _rule(
        "-b -i -L -k --brief --mime --mime-type",
        "-C -m -f -z -Z -p -S --compile --magic-file --files-from --uncompress --no-sandbox",
    ),
    "du": _rule(
        "-# -s -h -a -c -d= -k -m -x --max-depth= --summarize --human-readable --exclude=",
        "-X --files0-from --exclude-from",
    ),
    "df": _rule("-h -T -i -k -m --human-readable", operand_count=1),
    "pwd": _rule("-P -L", operand_count=0),
    "uname": _rule("-a -s -r -m -n -v -p -o", operand_count=0),
    "nproc": _rule("--all", operand_count=0),
    "date": _rule(
        "-u --utc -I -Is -Iseconds -Iminutes -Ihours --iso-8601? -R",
        "-s -f --set --file",
        operand=r"(?s)\+.*",
    ),
    "echo": _rule("-n", operand=r"(?s).*"),
    "which": _rule("-a"),
    "basename": _rule("-a -s="),
    "dirname": _rule(),
    "realpath": _rule("-e -m -s -q --relative-to="),
    "cut": _rule("-d= -f= -c= -b= -s --delimiter= --fields= --characters= --complement"),
    "sort": _rule(
        "-n -r -u -h -f -b -g -V -M -s -z -k= -t= -c --numeric-sort --reverse --unique --key=",
        "-o -T -S --output --compress-program --temporary-directory --files0-from --random-source",
    ),
    "uniq": _rule("-c -d -u -i --count --repeated --unique", operand_count=1),
    "diff": _rule(
        "-u -r -q -w -b -B -N -y -i --brief --unified? --color? --recursive -U= -C=",
        "-l -X --paginate --from-file --to-file --exclude-from",
    ),
    "cmp": _rule("-s -l -b"),
    "md5sum": _rule("-b -t", "-c --check"),
    "sha256sum": _rule("-b -t", "-c --check"),
    "grep": _rule(_GREP, "-f -D --file --exclude-from --devices"),
    "egrep": _rule(_GREP, "-f -D --file --exclude-from --devices"),
    "rg": _rule(
        _RG,
        "-f -z --pre --pre-glob --hostname-bin --file --search-zip --ignore-file"
        " -L --follow --hyperlink-format --type-add",
    ),
    "find": _rule(
        "-name= -iname= -type= -maxdepth= -mindepth= -path= -ipath= -not -o -a -or -and -size="
        " -mtime= -mmin= -newer= -empty -print -print0 -prune -regex= -iregex= -ls -perm= -user="
        " -group= -xdev -depth -links= -atime= -ctime= -printf= -readable -writable -executable"
        " -mount -true -false -regextype=",
        "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from --",
        operand=r"(?s)(?![@+]).*",
    ),
    "sed -n": _rule("", "-i -f --in-place --file"),
    "jq": _rule(
        "-r -c -e -s -S -M --raw-output --compact-output --slurp --sort-keys",
        "-f -L --from-file --slurpfile --rawfile --argfile --library-path --run-tests"
        " --debug-dump-disasm --debug-trace",
    ),
    "tr": _rule("-d -s -c"),
}
RULES: Final[dict[str, HarmlessRule]] = {**_GIT, **_TOOLS, **_FILES}
"""By program and subcommand. `sed -n` is for scripts that print lines, and for nothing else."""
