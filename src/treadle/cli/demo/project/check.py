"""Compare `median` with the standard library on random lists; slow on purpose."""

import random
import statistics
import sys
import time

from stats import median

rounds = int(sys.argv[1])
with open("checks.log", "a") as log:
    log.write(f"a check of {rounds} rounds began\n")
chance = random.Random(7)
for number in range(1, rounds + 1):
    values = [chance.randint(-99, 99) for _ in range(chance.randint(1, 30))]
    assert median(values) == statistics.median(values), values
    if number % 10 == 0:
        print(f"{number} of {rounds} lists agree", flush=True)
    time.sleep(0.02)  # slow on purpose: the demo kills the process while this runs
with open("checks.log", "a") as log:
    log.write(f"a check of {rounds} rounds ended well\n")
