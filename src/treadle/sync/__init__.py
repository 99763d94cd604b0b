"""Ships records to a server and fetches those of other machines; nothing here waits for a save."""
