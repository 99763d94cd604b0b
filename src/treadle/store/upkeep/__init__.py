"""Looking after the store: trash, garbage, room, secrets, damage."""
