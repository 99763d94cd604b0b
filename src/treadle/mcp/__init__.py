"""Tools of others: servers that speak the Model Context Protocol."""
