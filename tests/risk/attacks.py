"""Options that write, run or read more, in every place of commands that are otherwise harmless."""

from __future__ import annotations

from typing import Final

ATTACKS: Final = (
    # Options whose value is optional, or stands in the same word only, before one that counts
    "git log -1 --unified --output=conftest.py '--format=import os'",
    "git log --format --output=x",
    "git log --pretty --output=x",
    "git log --decorate --output=x",
    "git log --color --output=x",
    "git log -U --output=x",
    "git log --abbrev --output x",
    "git log -M --output=x",
    "git show --stat --output=x",
    "git show --word-diff --output=x",
    "git diff -U --no-index a b",
    "git diff --unified --no-index a b",
    "git diff --submodule --output=x",
    "git diff --dirstat --output=x",
    "git status --porcelain --output=x",
    "git describe --abbrev --exec=x",
    "make --jobs --file=e.mk test",
    "make -j --file=e.mk test",
    "make -j -f e.mk test",
    "make -jf e.mk",
    "make -j4 -f e.mk",
    "make -j 4 -fe.mk",
    "cargo test --test --manifest-path=evil/Cargo.toml",
    "cargo test --bin --manifest-path evil/Cargo.toml",
    "cargo test -p --config=x",
    "cargo build --bin --manifest-path=x",
    "cargo build -F --config=x",
    "cargo check --features --target-dir=x",
    "cargo clippy --package --fix",
    "cargo tree -i --manifest-path=x/Cargo.toml",
    "cargo tree -e --config=x",
    "pytest --cov -p evil",
    "pytest --cov --rootdir=x",
    "tox -e -c x",
    "diff --color --to-file=x y",
    "diff --unified --from-file=x y",
    "ls --color --x=y",
    "grep --color -f x y",
    # Options whose value is always the next word: what they really take is said beside them
    "git commit -m --no-verify",  # a message
    "git commit --message --amend",  # a message
    "git commit -am --no-verify",  # a message
    "find . -newer -delete",  # the name of a file
    "find . -name -exec",  # a pattern
    "find . -path -fprint x",  # a pattern, then a folder
    "git log -S --output=x",  # a text to look for
    "git log -G --output=x",  # a pattern
    "git log --author --output=x",  # a pattern
    "git log --grep --output=x",  # a pattern
    "git log --since --output=x",  # a date
    "git log -n --output=x",  # not a number
    "git log -L --output=x",  # a range
    "git blame -L --contents=x a",  # a range
    "sort -k -o x",  # not a key
    "sort -t -o x",  # not one character
    "sort --key --output=x",  # not a key
    "sort -nk -o x",  # not a key
    "rg -e --pre=x y",  # a pattern
    "rg -g --pre x",  # a pattern
    "rg -A --pre x",  # not a number
    "rg --sort --pre=x y",  # not a key
    "grep -e -f x",  # a pattern
    "grep -m --file=x y",  # not a number
    "grep -A -f x",  # not a number
    "pytest -k -p evil",  # it is missing there
    "pytest -m --rootdir=x",  # it is missing there
    "pytest --tb -c x",  # it is missing there
    "pytest --ignore -oaddopts=x",  # it is missing there
    "go test -run -exec=x ./...",  # a pattern
    "go test -count -toolexec x",  # not a number
    "go build -tags -o x",  # a tag
    "go list -f -toolexec=x",  # a template
    "mypy -p --config-file=x",  # it is missing there
    "mypy -m -c x",  # it is missing there
    "ruff check --select --config=x",  # it is missing there
    "ruff format --line-length --config x",  # it is missing there
    "black -l --config=x .",  # not a number
    "black -t -c x",  # not a version
    "isort --profile --settings-path=x .",  # it is missing there
    "flake8 --select --output-file=x",  # it is missing there
    "npm ls --depth --prefix=/x",  # not a number
    "pip list --format --python=x",  # not a format
    "tree -L -o x",  # not a number
    "tree -P -o x",  # a pattern
    "du -d --files0-from=x",  # not a number
    "du --exclude --files0-from=x",  # a pattern
    "head -n --x y",  # not a number
    "cut -d --x y",  # not one character
    # Cut short
    "git log --outp=x",
    "git log --out x",
    "git log --outpu=x",
    "git diff --no-ind a b",
    "git diff --ext",
    "git log --ext-d",
    "git grep --open-f=x y",
    "git grep --open y",
    "git commit -m x --no-ver",
    "git commit -m x --ame",
    "git commit -m x --fil=y",
    "git add --ed",
    "git add --pathspec-from=x",
    "git blame --conte=x a",
    "git tag --del x",
    "git branch --del",
    "git branch --edit-d",
    "make --makef=x",
    "make --fil x",
    "make --direc=x",
    "make --ev=x",
    "sort --outp=x y",
    "sort --out x y",
    "sort --compress-prog=x y",
    "sort --comp x y",
    "sort --files0=x",
    "sort --temp=x y",
    "wc --files0=x",
    "du --files=x",
    "date --se=x",
    "date --fil=x",
    "mypy --config=x y",
    "mypy --python-exec=x y",
    "mypy --html=x y",
    "mypy --txt-rep x y",
    "isort --settings-p=x .",
    "npm ls --pref=x",
    "pip list --pyth=x",
    "pip list --index=x",
    "sed -n 1p --in-pl x",
    "sed -n 1p --fil=x y",
    "grep --fil=x y",
    "grep --exclude-f=x y z",
    "rg --pr x y",
    "diff --to-f=x y",
    "file --comp -m x",
    "file --magic=x y",
    "file --files=x",
    # In a bundle, or with the value in the same word
    "git log -pO",
    "git grep -nO",
    "git grep -nOevil x",
    "git grep -fx",
    "git commit -aF x",
    "git commit -qC HEAD",
    "git commit -an",
    "git commit -vn",
    "git commit -qtx",
    "git branch -rd x",
    "git branch -vD x",
    "git add -Ae",
    "make -sf e.mk",
    "make -kC x",
    "make -nfe.mk",
    "make -Bsf x test",
    "make -kE 'x:=1'",
    "make -se",
    "pytest -qp evil",
    "pytest -xc x",
    "pytest -pevil",
    "pytest -qoaddopts=-pevil",
    "pytest -sWx",
    "mypy -cx",
    "black -qc x",
    "sort -no x",
    "sort -uox y",
    "sort -rTx y",
    "sort -nS 1 x",
    "sort -ro. x",
    "rg -nf x y",
    "rg -lz x",
    "rg -iL x",
    "grep -rf x y",
    "grep -rnfx y",
    "egrep -if x y",
    "tree -ao x",
    "tree -dox",
    "file -bC -m x",
    "file -bf x",
    "file -bz x",
    "date -us 2020",
    "jq -rf x y",
    "jq -rLx . y",
    "npm ls -ag",
    "md5sum -bc x",
    "cargo test -qZ x",
    "diff -ul a b",
    "tox -qc x",
    "tox -qx a=b",
    # After the operands, after `--`, with two dashes or one
    "git log main --output=x",
    "git diff a b --no-index",
    "git diff -- --output=x",
    "find -- . -delete",
    "find -- . -exec rm {} +",
    "find -- . -fprintf x y",
    "find . -type f -fls x",
    "make test -f e.mk",
    "make test -C x",
    "make test X=1",
    "make -- X=1",
    "make -- test SHELL=./x",
    "sort a -o b",
    "sort a b --output=c",
    "pytest tests -p evil",
    "pytest -- -p evil",
    "go test --exec=x ./...",
    "go test --toolexec x ./...",
    "go test ./... -o x",
    "go test ./... --coverprofile=x",
    "go test ./... -args -x",
    "go build --o=x ./...",
    "go vet --vettool=x ./...",
    "uniq a b",
    "uniq -c a b",
    "uniq -- a b",
    "uniq - b",
    "sed -n 1p -i x",
    "sed -n 1p x --in-place",
    "sed -n 1p x -f y",
    "sed -n '1p;w x' y",
    "sed -n '1e id' y",
    "sed -n '1,2w x' y",
    "sed -n 1r/etc/passwd y",
    "npm test -- x",
    "npm run build --script-shell=x",
    "npm run build --prefix x",
    "npm test --node-options=--require=./x",
    "yarn run build --cwd x",
    "pnpm run build -C x",
    # Files with more options
    "pytest @args.txt",
    "pytest -k @args.txt",
    "pytest tests @args.txt",
    "pytest -- @args.txt",
    "python -m pytest @args.txt",
    "uv run pytest -q @args.txt",
    "uv run mypy @args.txt",
    "mypy @args.txt",
    "ruff check @args.txt",
    "ruff check --select @args.txt",
    "ruff format @args.txt",
    "tsc @args.txt",
    # Filters that reach more than their input
    "jq env x",
    "jq '$ENV' x",
    "jq '$ENV.HOME' x",
    "jq '$ ENV' x",
    "jq '.x|env' x",
    "jq '.[env.X]' x",
    "jq '\"\\(env.HOME)\"' x",
    "jq '{x: env}' x",
    "jq -r '$__prog_args' x",
    'jq \'"\\(1)" + env.X + "x"\' x',
    "jq '. # \"\n| env # \"' x",
    "jq '..env' x",
    "jq input_filename x",
    "jq 'include \"a\"; f' x",
    "jq 'import \"a\" as a; a::f' x",
    "jq '\"a\"|modulemeta' x",
    "jq get_search_list x",
    "jq . --rawfile a x",
    "jq --slurpfile a x .",
    "jq . -Lx x",
    # Where git keeps addresses with passwords
    "cat .git/config",
    "cat ./.git/config",
    "cat .git/./config",
    "cat .git//config",
    "cat src/../.git/config",
    "cat .GIT/CONFIG",
    "cat .git/FETCH_HEAD",
    "cat .git/config.worktree",
    "cat .git/modules/x/config",
    "cat .git/logs/HEAD",
    "head -c 999 .git/config",
    "grep -rn url .git",
    "grep '' .git/config",
    "rg url .git/config",
    "rg --files .git",
    "sed -n 1,9p .git/config",
    "sort .git/config",
    "diff .git/config x",
    "wc .git/config",
    "find .git -name config",
    "tail -n +1 sub/.git/config",
    "git diff --no-index .git/config x",
    "jq -r . .git/config",
    # Scripts and options that print the environment
    "npm run env",
    "npm run -s env",
    "npm --silent run env",
    "yarn run env",
    "uv run npm run env",
    "timeout 5 npm run env",
    "make -p",
    "make -pn",
    "make --print-data",
    # A message that is none
    "git log stash -m ../x",
    "git diff stash -m /etc/passwd",
)
