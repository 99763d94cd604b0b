"""Running other programs: to their end, with everything that they have started, and in bounds."""
