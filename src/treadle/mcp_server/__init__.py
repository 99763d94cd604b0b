"""Offers this machine's threads to other agents, by the Model Context Protocol."""
