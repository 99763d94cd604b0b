"""The part that keeps: this machine's disk. Journals, snapshots, locks, the local store."""
