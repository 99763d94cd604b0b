"""What a session is made of: settings, models, tools, hooks, approval modes."""
