"""Files that hold prompts: skills, and the slash commands that people write themselves."""
