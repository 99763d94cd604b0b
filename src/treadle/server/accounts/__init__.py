"""Who may do what: users, tokens, the access table, links, support, the audit log."""
