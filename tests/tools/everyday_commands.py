"""Ordinary commands of developers, and what each says that it needs."""

from __future__ import annotations

from typing import Final

READING: Final = """
git status|git status -sb|git log --oneline -20|git log -p -1|git diff|git diff --stat HEAD~1
git diff HEAD -- app.py|git show HEAD|git show HEAD:app.py|git branch -a|git blame app.py
git remote -v|git rev-parse HEAD|git ls-files|git grep -n def|git shortlog -sn HEAD
git describe --always|git stash list|git tag -l|git config --get user.name
git log --author=me --since=1.week|git reflog|git cat-file -p HEAD|git merge-base HEAD HEAD
git status --porcelain=v2|git diff --cached|ls|ls -la|ls -R|tree|pwd|cat app.py|head -20 app.py
tail -5 app.py|wc -l app.py|file app.py|stat app.py|du -sh .|find . -name '*.py'
find . -type f -newer app.py|find . -name '*.py' | xargs wc -l|grep -rn add .
grep -rn 'def ' --include='*.py' .|rg add|rg -n 'def ' -g '*.py'|rg --files|ag add
sed -n '1,5p' app.py|awk '{print $1}' app.py|cut -d' ' -f1 app.py|sort app.py
sort app.py | uniq -c|diff app.py tests/test_app.py|cmp app.py app.py|md5sum app.py
sha256sum app.py|xxd app.py | head|jq . package.json|cat package.json | jq .name
python3 -c 'import app; print(app.add(1, 2))'|python3 -c 'print(1)'|python3 --version
python3 -m json.tool package.json|python3 app.py|python3 -m unittest -q tests.test_app
python3 -m unittest discover -s tests|python3 -m pytest --version|python3 -m pytest -q|pytest -q
pytest -q tests/test_app.py -k add|pytest --collect-only -q|python3 -m compileall -q -n .
python3 -m ast app.py|python3 -m dis app.py|python3 -m tokenize app.py|mypy app.py|ruff check .
ruff format --check .|black --check .|flake8|pylint app.py|pyright|node --version
node -e 'console.log(1)'|node -p '1 + 1'|npm --version|npm ls --depth=0|npm outdated
npx --no-install tsc --noEmit|npx --no-install eslint .|npm config get registry|npm run|yarn why x
cargo --version|cargo tree|cargo metadata --no-deps|rustc --version|rustc --print sysroot
rustup show|go version|go env GOPATH|go vet ./...|go list ./...|gofmt -l .|java -version
javac -version|mvn -v|make -n|make -n test|make --version|cmake --version|gcc --version
gcc -fsyntax-only x.c|ld --version|env|env | sort|printenv HOME|which python3|type git
command -v make|uname -a|whoami|id|hostname|date|date -u +%F|uptime|free -h|df -h .|ps|ps aux
top -b -n 1|nproc|lscpu|cat /proc/cpuinfo|cat /etc/os-release|locale|ulimit -a|sleep 0|true
test -f app.py|[ -d tests ]|echo hello|printf '%s\\n' a b|seq 3|yes | head -3|basename a/b
dirname a/b|realpath app.py|readlink -f app.py|tr a-z A-Z < app.py|rev app.py|nl app.py|tac app.py
paste app.py app.py|comm app.py app.py|join app.py app.py|fold -w 40 app.py|expand app.py
od -c app.py | head -3|strings app.py|base64 app.py|zcat missing.gz|tar tf missing.tar
unzip -l missing.zip|tar cf /tmp/x.tar app.py && tar tf /tmp/x.tar|mktemp
cp app.py /tmp/copy.py && diff app.py /tmp/copy.py|docker --version|kubectl version --client
terraform version|aws --version|gh --version|psql --version|sqlite3 :memory: 'select 1'
curl --version|openssl version|ssh -V|man -w ls|help cd|history|for f in *.py; do wc -l $f; done
if [ -f app.py ]; then echo yes; fi|cat <<< hello|(cd tests && ls)|cd tests && ls -la|ls | wc -l
git log --format=%H | head -3|git diff --name-only | xargs -r grep -n add
""".replace("\n", "|")
"""Commands that look: each with its own words, between bars without blanks around them."""

WRITING: Final = """
git add app.py|git commit -am work|git checkout -b topic|git switch -c other|git stash
git reset --hard|git merge topic|git rebase main|git cherry-pick HEAD|git revert HEAD|git tag v1
git rm app.py|git mv app.py b.py|git clean -fd|git restore app.py|git apply x.patch|git push
git push --force|git pull|git fetch|touch new.py|mkdir -p a/b|rm app.py|rm -rf tests
mv app.py b.py|cp app.py b.py|ln -s app.py link|chmod +x app.py|echo x > new.txt|echo x >> app.py
sed -i s/add/sum/ app.py|tee new.txt < app.py|truncate -s 0 app.py|python3 -m venv .venv
pip install -e .|pip install requests|uv sync|uv add httpx|poetry install|npm install|npm ci
npm run build|npx prettier --write .|npx eslint --fix .|yarn add x|pnpm install|cargo build
cargo fmt|cargo add serde|cargo fix --allow-dirty|go build ./...|go mod tidy|gofmt -w .|make
make install|cmake -B build|ruff format .|ruff check --fix .|black .|isort .
python3 manage.py migrate|docker build .|docker compose up -d|terraform apply|alembic upgrade head
pre-commit run -a|dd if=/dev/zero of=big
""".replace("\n", "|")
"""Commands that change what lasts, as their words say."""


def list_reading() -> list[str]:
    """The commands that look, one by one. A bar with blanks around it is a pipe."""
    return _split(READING)


def list_writing() -> list[str]:
    """The commands that change something, one by one."""
    return _split(WRITING)


def _split(text: str) -> list[str]:
    pipes = text.replace(" | ", "\0")
    return [one.replace("\0", " | ").strip() for one in pipes.split("|") if one.strip()]
