"""What programs ask: decisions, JSON and the description of it; the routes are in ``pages``."""
