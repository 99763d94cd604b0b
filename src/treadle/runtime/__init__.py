"""The part that acts: feeds events to a machine, makes them durable, performs actions."""
