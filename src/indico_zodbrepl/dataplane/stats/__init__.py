"""Statistics of a database: object counts and sizes by class."""
